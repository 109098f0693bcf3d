package wire

import (
	"context"
	"strings"
	"time"
)

// runningBatch is one batch under way at a node. The server's mutex guards all but number, batch and cancel, which do not change.
type runningBatch struct {
	number uint64
	batch  *Batch
	cancel context.CancelFunc

	seq     uint64          // of the last results made
	unacked []*ResultsFrame // in order; bounded by the rows of the batch, each of which is in one
	done    bool            // the last results are made
	dropped bool            // the results are not wanted any more
}

// startBatch takes a batch that came on a. A batch that cannot begin now is returned unchanged. The caller does not hold mu.
func (s *Server) startBatch(a *serverStream, f *BatchFrame) {
	s.mu.Lock()
	table := s.table
	s.mu.Unlock()
	batch, err := f.batch(table)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != a || s.batches[f.GetBatch()] != nil {
		return
	}
	r := &runningBatch{number: f.GetBatch(), batch: batch, cancel: func() {}}
	if err != nil {
		r.batch = &Batch{Job: f.GetJob(), Chunk: f.GetChunk(), Epoch: f.GetEpoch(), Class: f.GetClass()}
	}
	switch {
	case !s.usesTable(f.GetTable()):
		r.batch = f.returnable()
		s.registerBatch(r)
		s.post(r, resultsFrame(r.number, 0, returnedResults(r.batch, allRows(r.batch))))
		return
	case err != nil:
		s.registerBatch(r)
		s.finish(r, err.Error())
		return
	case s.draining || s.isolated || s.rows+len(batch.Rows) > s.cfg.MaxRows:
		s.registerBatch(r)
		s.post(r, resultsFrame(r.number, 0, returnedResults(batch, allRows(batch))))
		return
	}
	ctx, cancel := context.WithCancel(s.baseCtx)
	r.cancel = cancel
	s.registerBatch(r)
	s.work.Go(func() {
		defer cancel()
		s.verify(ctx, r, time.Duration(f.GetHoldNs()))
	})
}

func (s *Server) verify(ctx context.Context, r *runningBatch, hold time.Duration) {
	done := false
	err := s.cfg.Prober.Verify(ctx, r.batch, hold, func(part Results) {
		done = part.Done
		s.deliver(r, part)
	})
	if done {
		return
	}
	reason := "the prober ended the batch before its last row"
	if err != nil {
		reason = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finish(r, reason)
}

// deliver keeps a part of the results until it is acknowledged, and sends it when there is a stream.
func (s *Server) deliver(r *runningBatch, part Results) {
	f := resultsFrame(r.number, 0, part)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.post(r, f)
}

// finish ends a batch with an error instead of results. The caller holds mu.
func (s *Server) finish(r *runningBatch, reason string) {
	s.post(r, &ResultsFrame{Batch: r.number, Done: true, Failed: strings.ToValidUTF8(reason[:min(len(reason), maxResults/2)], "")})
}

// post numbers a message of r, keeps it and sends it. The caller holds mu.
func (s *Server) post(r *runningBatch, f *ResultsFrame) {
	if r.dropped || r.done {
		return
	}
	r.seq++
	f.Seq = r.seq
	r.done = f.GetDone()
	r.unacked = append(r.unacked, f)
	if s.stream != nil {
		s.stream.push(&NodeFrame{Kind: &NodeFrame_Results{Results: f}})
	}
}

// acknowledge forgets results that the coordinator has. The caller holds mu.
func (s *Server) acknowledge(number, seq uint64) {
	r := s.batches[number]
	if r == nil {
		return
	}
	for len(r.unacked) > 0 && r.unacked[0].GetSeq() <= seq {
		r.unacked[0] = nil
		r.unacked = r.unacked[1:]
	}
	if r.done && len(r.unacked) == 0 {
		s.removeBatch(r)
	}
}

// registerBatch registers a batch. The caller holds mu.
func (s *Server) registerBatch(r *runningBatch) {
	s.batches[r.number] = r
	s.rows += len(r.batch.Rows)
	s.classes[r.batch.Class] += len(r.batch.Rows)
}

// removeBatch is registerBatch undone. The caller holds mu.
func (s *Server) removeBatch(r *runningBatch) {
	delete(s.batches, r.number)
	s.rows -= len(r.batch.Rows)
	class := r.batch.Class
	if s.classes[class] -= len(r.batch.Rows); s.classes[class] <= 0 {
		delete(s.classes, class)
	}
	s.signalIdle()
}

// dropBatches ends the batches whose results are not wanted any more. The caller holds mu.
func (s *Server) dropBatches(which func(*runningBatch) bool) {
	for _, r := range s.batches {
		if which(r) {
			r.cancel()
			r.dropped, r.unacked = true, nil
			s.removeBatch(r)
		}
	}
}

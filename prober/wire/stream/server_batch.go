package stream

import (
	"context"
	"time"

	"probity/prober/wire"
	"probity/prober/wire/frames"
)

// runningBatch is one batch under way at a node. The server's mutex guards what may change.
type runningBatch struct {
	s      *Server
	number uint64
	batch  *wire.Batch
	cancel context.CancelFunc

	seq     uint64                 // of the last results made
	unacked []*frames.ResultsFrame // in order; bounded by the rows of the batch, each of which is in one
	done    bool                   // the last results are made
	dropped bool                   // the results are not wanted any more
}

// startBatch takes a batch that came on this stream. A batch that cannot begin now is returned unchanged.
func (a *serverStream) startBatch(f *frames.BatchFrame) {
	s := a.s
	s.mu.Lock()
	table := s.table
	s.mu.Unlock()
	batch, err := f.Read(table)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stream != a || s.batches[f.GetBatch()] != nil {
		return
	}
	r := &runningBatch{s: s, number: f.GetBatch(), batch: batch, cancel: func() {}}
	returned := !s.usesTable(f.GetTable())
	switch {
	case returned:
		r.batch = f.Returnable()
	case err != nil:
		r.batch = &wire.Batch{Job: f.GetJob(), Chunk: f.GetChunk(), Epoch: f.GetEpoch(), Class: f.GetClass()}
	default:
		returned = s.draining || s.isolated || s.rows+len(batch.Rows) > s.cfg.MaxRows
	}
	s.batches[r.number] = r
	s.rowCount.add(r.batch.Class, len(r.batch.Rows))
	switch {
	case returned:
		r.post(frames.NewResultsFrame(r.number, returnedResults(r.batch, allRows(r.batch))))
	case err != nil:
		r.fail(err.Error())
	default:
		var ctx context.Context
		ctx, r.cancel = context.WithCancel(s.baseCtx)
		s.work.Go(func() { r.verify(ctx, time.Duration(f.GetHoldNs())) })
	}
}

// verify has the prober verify the batch. Each part of the results is kept until it is acknowledged, and sent when there is a stream.
func (r *runningBatch) verify(ctx context.Context, hold time.Duration) {
	defer r.cancel()
	done := false
	err := r.s.cfg.Prober.Verify(ctx, r.batch, hold, func(part wire.Results) {
		done = part.Done
		f := frames.NewResultsFrame(r.number, part)
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		r.post(f)
	})
	if done {
		return
	}
	reason := "the prober ended the batch before its last row"
	if err != nil {
		reason = err.Error()
	}
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	r.fail(reason)
}

// fail ends the batch with an error instead of results. The caller holds the server's mutex.
func (r *runningBatch) fail(reason string) {
	r.post(&frames.ResultsFrame{Batch: r.number, Done: true, Failed: frames.Clip(reason, maxResults/2)})
}

// post numbers a message, keeps it and sends it. The caller holds the server's mutex.
func (r *runningBatch) post(f *frames.ResultsFrame) {
	if r.dropped || r.done {
		return
	}
	r.seq++
	f.Seq = r.seq
	r.done = f.GetDone()
	r.unacked = append(r.unacked, f)
	if r.s.stream != nil {
		r.s.stream.push(&frames.NodeFrame{Kind: &frames.NodeFrame_Results{Results: f}})
	}
}

// acknowledge forgets results that the coordinator has, and with the last of them the batch. The caller holds the server's mutex.
func (r *runningBatch) acknowledge(seq uint64) {
	for len(r.unacked) > 0 && r.unacked[0].GetSeq() <= seq {
		r.unacked[0] = nil
		r.unacked = r.unacked[1:]
	}
	if r.done && len(r.unacked) == 0 {
		r.remove()
	}
}

// remove takes the batch out. The caller holds the server's mutex.
func (r *runningBatch) remove() {
	delete(r.s.batches, r.number)
	r.s.rowCount.remove(r.batch.Class, len(r.batch.Rows))
	r.s.signalIdle()
}

// dropBatches ends the batches whose results are not wanted any more. The caller holds mu.
func (s *Server) dropBatches(which func(*runningBatch) bool) {
	for _, r := range s.batches {
		if which(r) {
			r.cancel()
			r.dropped, r.unacked = true, nil
			r.remove()
		}
	}
}

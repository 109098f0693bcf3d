package stream

import (
	"context"
	"time"

	"probity/prober/wire"
	"probity/prober/wire/frames"
)

// runningBatch is one batch of the live stream at a node. It ends when its last results are sent, or with the stream.
type runningBatch struct {
	a      *serverStream
	number uint64
	batch  *wire.Batch
	cancel context.CancelFunc
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
	r := &runningBatch{a: a, number: f.GetBatch(), batch: batch, cancel: func() {}}
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

// verify has the prober verify the batch, and sends each part of the results.
func (r *runningBatch) verify(ctx context.Context, hold time.Duration) {
	defer r.cancel()
	done := false
	s := r.a.s
	err := s.cfg.Prober.Verify(ctx, r.batch, hold, func(part wire.Results) {
		done = part.Done
		f := frames.NewResultsFrame(r.number, part)
		s.mu.Lock()
		defer s.mu.Unlock()
		r.post(f)
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
	r.fail(reason)
}

// fail ends the batch with an error instead of results. The caller holds the server's mutex.
func (r *runningBatch) fail(reason string) {
	r.post(&frames.ResultsFrame{Batch: r.number, Done: true, Failed: frames.Clip(reason, maxResults/2)})
}

// post queues results, unless the batch was dropped meanwhile. The caller holds the server's mutex.
func (r *runningBatch) post(f *frames.ResultsFrame) {
	if r.a.s.batches[r.number] == r {
		r.a.push(&frames.NodeFrame{Kind: &frames.NodeFrame_Results{Results: f}})
	}
}

// endBatch takes a batch of this stream out before its last results are sent: when the coordinator has these, the node has room for the next
// batch.
func (a *serverStream) endBatch(number uint64) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if r := a.s.batches[number]; r != nil && r.a == a {
		r.remove()
	}
}

// remove takes the batch out. The caller holds the server's mutex.
func (r *runningBatch) remove() {
	s := r.a.s
	delete(s.batches, r.number)
	s.rowCount.remove(r.batch.Class, len(r.batch.Rows))
	s.signalIdle()
}

// dropBatches ends all batches: their results are not wanted any more. What was probed is in the prober's cache, or in flight there. The
// caller holds mu.
func (s *Server) dropBatches() {
	for _, r := range s.batches {
		r.cancel()
		r.remove()
	}
}

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
func (s *serverStream) startBatch(f *frames.BatchFrame) {
	server := s.s
	server.mu.Lock()
	table := server.table
	server.mu.Unlock()
	batch, err := f.Read(table)
	server.mu.Lock()
	defer server.mu.Unlock()
	if server.stream != s || server.batches[f.GetBatch()] != nil {
		return
	}
	r := &runningBatch{a: s, number: f.GetBatch(), batch: batch, cancel: func() {}}
	returned := !server.usesTable(f.GetTable())
	switch {
	case returned:
		r.batch = f.Returnable()
	case err != nil:
		r.batch = &wire.Batch{Job: f.GetJob(), Chunk: f.GetChunk(), Epoch: f.GetEpoch(), Class: f.GetClass()}
	default:
		returned = server.draining || server.isolated || server.rows+len(batch.Rows) > server.cfg.MaxRows
	}
	server.batches[r.number] = r
	server.rowCount.add(r.batch.Class, len(r.batch.Rows))
	switch {
	case returned:
		r.post(frames.NewResultsFrame(r.number, returnedResults(r.batch, allRows(r.batch))))
	case err != nil:
		r.fail(err.Error())
	default:
		var ctx context.Context
		ctx, r.cancel = context.WithCancel(server.baseCtx)
		server.work.Go(func() { r.verify(ctx, time.Duration(f.GetHoldNs())) })
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

// endBatch takes a batch of this stream out before its last results are sent: when the coordinator has these, the node
// has room for the next batch.
func (s *serverStream) endBatch(number uint64) {
	s.s.mu.Lock()
	defer s.s.mu.Unlock()
	if r := s.s.batches[number]; r != nil && r.a == s {
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

// dropBatches ends all batches: their results are not wanted any more. What was probed is in the prober's cache, or in
// flight there. The caller holds mu.
func (s *Server) dropBatches() {
	for _, r := range s.batches {
		r.cancel()
		r.remove()
	}
}

package coordinator

import (
	"time"

	"probity/coordinator/chunks"
	"probity/engine"
	"probity/prober/wire"
	"probity/store"
)

const (
	maxKnownRoutes = 32 << 10
	// maxBufferedRows is how many rows of a class with many routes are buffered before they are split into chunks.
	maxBufferedRows = 8 * wire.MaxRows
)

// bufferRow adds a row to the open chunk of its class, source and due time.
func (s *splitter) bufferRow(a *chunks.Row) error {
	now := time.Now()
	deferral := s.job.deferred.get(a.Number)
	a.Attempt = deferral.Attempt
	k := openChunkKey{class: s.classOf(&a.Route.Route), source: deferral.Source, due: roundDue(now, deferral.Due)}
	p := s.openChunks[k]
	if p == nil {
		p = &openChunk{Builder: chunks.Builder{Pool: &s.job.c.pools.rows}, since: now}
		s.openChunks[k] = p
	}
	p.attempt = max(p.attempt, a.Attempt)
	before := p.Size()
	p.Add(a)
	s.openBytes += p.Size() - before
	if p.Len() >= maxBufferedRows || p.Len() >= wire.MaxRows && !p.ManyHosts() {
		if err := s.flushChunk(k); err != nil || !s.job.wantsMore.Load() {
			return err
		}
		return s.enqueueFlushed()
	}
	if s.openBytes <= s.maxBytes {
		return nil
	}
	for s.openBytes > s.maxBytes*3/4 { // the largest chunks first
		most := -1
		for other, p := range s.openChunks {
			if n := p.Size(); n > most {
				k, most = other, n
			}
		}
		if err := s.flushChunk(k); err != nil {
			return err
		}
	}
	return s.enqueueFlushed()
}

// classOf returns the class of a route: its provider if many sources share it, the route itself once it has many rows in this job,
// else the tail.
func (s *splitter) classOf(r *engine.Route) string {
	if r.Provider != nil && r.Provider.Shared() {
		return r.Provider.ID
	}
	if len(s.routes) >= maxKnownRoutes {
		clear(s.routes)
	}
	n := s.routes[r.Key] + 1
	s.routes[r.Key] = n
	if n > sharedRowsOfRoute {
		return r.Key[:min(len(r.Key), store.MaxName)]
	}
	return classTail
}

// flushChunk flushes an open chunk, split into chunks of the size of its class.
func (s *splitter) flushChunk(k openChunkKey) error {
	p := s.openChunks[k]
	delete(s.openChunks, k)
	s.openBytes -= p.Size()
	var due time.Time
	if k.due > 0 {
		due = time.UnixMilli(k.due).UTC()
	}
	for _, cut := range p.SplitRows(s.job.c.budgets.chunkRows(k.class)) {
		s.flushed = append(s.flushed, pendingChunk{rows: &p.Builder, subset: cut, class: k.class, source: k.source, attempt: p.attempt, due: due})
	}
	if len(s.flushed) >= flushBatch {
		return s.enqueueFlushed()
	}
	return nil
}

// flushAll flushes all open chunks and answers.
func (s *splitter) flushAll() error {
	for k := range s.openChunks {
		if err := s.flushChunk(k); err != nil {
			return err
		}
	}
	return s.commitBuffers()
}

// commitBuffers logs the answers and enqueues the flushed chunks.
func (s *splitter) commitBuffers() error {
	if err := s.logAnswers(); err != nil {
		return err
	}
	return s.enqueueFlushed()
}

// enqueueFlushed writes the flushed chunks and adds them to the scheduler.
func (s *splitter) enqueueFlushed() error {
	if len(s.flushed) == 0 {
		return nil
	}
	made, err := s.job.chunks.write(s.flushed)
	clear(s.flushed)
	s.flushed = s.flushed[:0]
	if err != nil {
		return err
	}
	s.job.chunkCount.Add(int64(len(made)))
	s.job.c.scheduler.add(s.job, made)
	return nil
}

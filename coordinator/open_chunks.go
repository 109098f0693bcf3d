package coordinator

import (
	"time"

	"probity/engine"
	"probity/prober/wire"
	"probity/store"
)

// bufferRow puts a row into the open chunk of its class.
func (s *splitter) bufferRow(a *chunkRow) error {
	now := time.Now()
	deferral := s.job.deferred.get(a.Number)
	a.Attempt = deferral.Attempt
	k := openChunkKey{class: s.classOf(&a.Route.Route), source: deferral.Source, due: roundDue(now, deferral.Due)}
	p := s.openChunks[k]
	if p == nil {
		p = &openChunk{chunkBuilder: chunkBuilder{pool: &s.job.c.pools.rows}, since: now}
		s.openChunks[k] = p
	}
	p.attempt = max(p.attempt, a.Attempt)
	before := p.size()
	p.add(a)
	s.openBytes += p.size() - before
	if p.len() >= maxBufferedRows || p.len() >= wire.MaxRows && !p.manyHosts() {
		if err := s.flushChunk(k); err != nil || !s.job.wantsMore.Load() {
			return err
		}
		return s.enqueueFlushed()
	}
	if s.openBytes > s.maxBytes {
		return s.flushFullest()
	}
	return nil
}

const (
	maxKnownRoutes = 32 << 10
	// maxBufferedRows is how many rows of a class with many routes are gathered before they are cut into chunks.
	maxBufferedRows = 8 * wire.MaxRows
)

// classOf is the provider of a route that many sources ask, the route itself once it has many rows in this job, else the tail.
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

// flushChunk closes an open chunk, or cuts it into the smaller ones of a slow route.
func (s *splitter) flushChunk(k openChunkKey) error {
	p := s.openChunks[k]
	delete(s.openChunks, k)
	s.openBytes -= p.size()
	for _, cut := range p.splitRows(s.job.c.chunkRows(k.class)) {
		s.flushed = append(s.flushed, pendingChunk{rows: &p.chunkBuilder, subset: cut, class: k.class, source: k.source, attempt: p.attempt, due: k.dueTime()})
	}
	if len(s.flushed) >= flushBatch {
		return s.enqueueFlushed()
	}
	return nil
}

// flushFullest makes room: the fullest chunks go first, until a quarter is free.
func (s *splitter) flushFullest() error {
	for s.openBytes > s.maxBytes*3/4 {
		var fullest openChunkKey
		most := -1
		for k, p := range s.openChunks {
			if n := p.size(); n > most {
				fullest, most = k, n
			}
		}
		if err := s.flushChunk(fullest); err != nil {
			return err
		}
	}
	return s.enqueueFlushed()
}

// flushAll flushes everything that is open: no more comes soon.
func (s *splitter) flushAll() error {
	for k := range s.openChunks {
		if err := s.flushChunk(k); err != nil {
			return err
		}
	}
	return s.commitBuffers()
}

// commitBuffers lets go of what is answered and what is flushed.
func (s *splitter) commitBuffers() error {
	if err := s.logAnswers(); err != nil {
		return err
	}
	return s.enqueueFlushed()
}

// enqueueFlushed writes the flushed chunks and puts them on the scheduler.
func (s *splitter) enqueueFlushed() error {
	if len(s.flushed) == 0 {
		return nil
	}
	job := s.job
	buf := job.c.pools.buffers.get()
	made, err := job.chunks.write(s.flushed, buf)
	job.c.pools.buffers.put(buf)
	clear(s.flushed)
	s.flushed = s.flushed[:0]
	if err != nil {
		return err
	}
	job.chunkCount.Add(int64(len(made)))
	job.c.scheduler.add(job, made)
	return nil
}

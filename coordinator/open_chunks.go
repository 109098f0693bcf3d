package coordinator

import (
	"time"

	"probity/coordinator/chunks"
	"probity/prober/wire"
	"probity/store"
)

const (
	maxKnownRoutes = 32 << 10
	// maxBufferedRows is how many rows of a class with many routes are buffered before they are split into chunks.
	maxBufferedRows = 8 * wire.MaxRows
)

// bufferRow adds a row to the open chunk of its class, source and due time. The class of a row is the provider of its route if many
// sources share it, the route itself once it has many rows in this job, else the tail.
func (s *splitter) bufferRow(a *chunks.Row) error {
	now, r, class := time.Now(), &a.Route.Route, classTail
	if r.Provider != nil && r.Provider.Shared() {
		class = r.Provider.ID
	} else {
		if len(s.routes) >= maxKnownRoutes {
			clear(s.routes)
		}
		n := s.routes[r.Key] + 1
		s.routes[r.Key] = n
		if n > sharedRowsOfRoute {
			class = r.Key[:min(len(r.Key), store.MaxName)]
		}
	}
	deferral := s.job.deferred.get(a.Number)
	a.Attempt = deferral.Attempt
	k := openChunkKey{class: class, source: deferral.Source, due: roundDue(now, deferral.Due)}
	p := s.openChunks[k]
	if p == nil {
		p = &openChunk{Builder: chunks.Builder{Pool: &s.job.c.chunkRows}, since: now}
		s.openChunks[k] = p
	}
	p.attempt = max(p.attempt, a.Attempt)
	before := p.Size()
	p.Add(a)
	s.openBytes += p.Size() - before
	if p.Len() >= maxBufferedRows || p.Len() >= wire.MaxRows && !p.ManyHosts() {
		return s.flushChunk(k)
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
	return nil
}

// flushChunk writes an open chunk, split into chunks of the size of its class, and adds them to the scheduler.
func (s *splitter) flushChunk(k openChunkKey) error {
	p, job := s.openChunks[k], s.job
	delete(s.openChunks, k)
	s.openBytes -= p.Size()
	due := time.Time{}
	if k.due > 0 {
		due = time.UnixMilli(k.due).UTC()
	}
	var batches []pendingChunk
	for _, cut := range p.SplitRows(job.c.budgets.chunkRows(k.class)) {
		batches = append(batches, pendingChunk{rows: &p.Builder, subset: cut, class: k.class, source: k.source, attempt: p.attempt, due: due})
	}
	made, err := job.chunks.write(batches)
	if err != nil {
		return err
	}
	job.chunkCount.Add(int64(len(made)))
	job.c.scheduler.add(job, made)
	return nil
}

func (s *splitter) flushAll() error {
	for k := range s.openChunks {
		if err := s.flushChunk(k); err != nil {
			return err
		}
	}
	return s.logAnswers()
}

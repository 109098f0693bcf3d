package split

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
func (s *jobSplit) bufferRow(a *chunks.Row) error {
	now, r, class := time.Now(), &a.Route.Route, chunks.ClassTail
	if r.Provider != nil && r.Provider.Shared() {
		class = r.Provider.ID
	} else {
		if len(s.routes) >= maxKnownRoutes {
			clear(s.routes)
		}
		n := s.routes[r.Key] + 1
		s.routes[r.Key] = n
		if n > chunks.MaxTailRows {
			class = r.Key[:min(len(r.Key), store.MaxName)]
		}
	}
	deferral := s.job.Deferred.get(a.Number)
	a.Attempt = deferral.Attempt
	k := openChunkKey{class: class, source: deferral.Source, due: chunks.RoundDue(now, deferral.Due)}
	p := s.openChunks[k]
	if p == nil {
		p = &openChunk{Builder: chunks.Builder{Pool: &s.blocks}, since: now}
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
func (s *jobSplit) flushChunk(k openChunkKey) error {
	p := s.openChunks[k]
	delete(s.openChunks, k)
	s.openBytes -= p.Size()
	var batches []chunks.Pending
	for _, cut := range p.SplitRows(s.job.Chunks.ChunkRows(k.class)) {
		batches = append(batches, chunks.Pending{Rows: &p.Builder, Subset: cut, Class: k.class, Source: k.source, Attempt: p.attempt, Due: chunks.DueTime(k.due)})
	}
	made, err := s.job.File.Write(batches)
	if err != nil {
		return err
	}
	s.job.Chunks.Add(made)
	return nil
}

func (s *jobSplit) flushAll() error {
	for k := range s.openChunks {
		if err := s.flushChunk(k); err != nil {
			return err
		}
	}
	return s.logAnswers()
}

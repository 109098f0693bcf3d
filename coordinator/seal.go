package coordinator

import (
	"time"

	"probity/engine"
	"probity/prober/wire"
	"probity/store"
)

// gather puts a row into the open chunk of its class.
func (s *splitter) gather(a *ask) error {
	now := time.Now()
	deferral := s.l.deferred.of(a.Number)
	a.Attempt = deferral.Attempt
	k := gatherKey{class: s.class(&a.Via.Route), source: deferral.Source, due: dueSlot(now, deferral.Due)}
	p := s.open[k]
	if p == nil {
		p = &gathered{packer: packer{spare: &s.l.c.spares.rows}, since: now}
		s.open[k] = p
	}
	p.attempt = max(p.attempt, a.Attempt)
	before := p.size()
	p.add(a)
	s.bytes += p.size() - before
	if p.len() >= gatherRows || p.len() >= wire.MaxRows && !p.scattered() {
		if err := s.seal(k); err != nil || !s.l.hungry.Load() {
			return err
		}
		return s.commit()
	}
	if s.bytes > s.maxBytes {
		return s.sealFullest()
	}
	return nil
}

const (
	routesKnown = 32 << 10
	// gatherRows is how many rows of a class with many routes are gathered before they are cut into chunks.
	gatherRows = 8 * wire.MaxRows
)

// class is the provider of a route that many sources ask, the route itself once it has many rows in this job, else the tail.
func (s *splitter) class(r *engine.Route) string {
	if r.Provider != nil && r.Provider.Shared() {
		return r.Provider.ID
	}
	if len(s.routes) >= routesKnown {
		clear(s.routes)
	}
	n := s.routes[r.Key] + 1
	s.routes[r.Key] = n
	if n > ownBuffer {
		return r.Key[:min(len(r.Key), store.MaxName)]
	}
	return classTail
}

// seal closes an open chunk, or cuts it into the smaller ones of a slow route.
func (s *splitter) seal(k gatherKey) error {
	p := s.open[k]
	delete(s.open, k)
	s.bytes -= p.size()
	for _, cut := range p.cuts(s.l.c.chunkRows(k.class)) {
		s.sealed = append(s.sealed, batchOf{rows: &p.packer, cut: cut, class: k.class, source: k.source, attempt: p.attempt, due: k.at()})
	}
	if len(s.sealed) >= sealTogether {
		return s.commit()
	}
	return nil
}

// sealFullest makes room: the fullest chunks go first, until a quarter is free.
func (s *splitter) sealFullest() error {
	for s.bytes > s.maxBytes*3/4 {
		var fullest gatherKey
		most := -1
		for k, p := range s.open {
			if n := p.size(); n > most {
				fullest, most = k, n
			}
		}
		if err := s.seal(fullest); err != nil {
			return err
		}
	}
	return s.commit()
}

// flush seals everything that is open: no more comes soon.
func (s *splitter) flush() error {
	for k := range s.open {
		if err := s.seal(k); err != nil {
			return err
		}
	}
	return s.handOver()
}

// handOver lets go of what is settled and what is sealed.
func (s *splitter) handOver() error {
	if err := s.flushSettled(); err != nil {
		return err
	}
	return s.commit()
}

// commit writes the sealed chunks and puts them on the desk.
func (s *splitter) commit() error {
	if len(s.sealed) == 0 {
		return nil
	}
	l := s.l
	room := l.c.spares.buffers.get()
	made, err := l.chunks.write(s.sealed, room)
	l.c.spares.buffers.put(room)
	clear(s.sealed)
	s.sealed = s.sealed[:0]
	if err != nil {
		return err
	}
	l.alive.Add(int64(len(made)))
	l.c.desk.add(l, made)
	return nil
}

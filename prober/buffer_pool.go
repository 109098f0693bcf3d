package prober

import (
	"sync"

	"probity/engine"
	"probity/prober/budget"
	"probity/prober/wire"
)

// bufferPool reuses memory: a batch needs a full part and blocks of outcomes only briefly, and sessions and probes are
// short-lived. BenchmarkVerify shows the bytes per row.
type bufferPool struct {
	size                        int // rows of a part
	parts, blocks, seen, orders sync.Pool
	transactionPool             sync.Pool
}

func newBufferPool(size int) *bufferPool { return &bufferPool{size: size} }

// getPart returns an empty slice with room for a full part.
func (s *bufferPool) getPart() []wire.Result {
	if p, ok := s.parts.Get().(*[]wire.Result); ok {
		return *p
	}
	return make([]wire.Result, 0, s.size)
}

func (s *bufferPool) putPart(p []wire.Result) {
	if cap(p) == s.size {
		clear(p)
		p = p[:0]
		s.parts.Put(&p)
	}
}

// getOrder returns n entries of undefined content.
func (s *bufferPool) getOrder(n int) []keyedRow {
	if o, ok := s.orders.Get().(*[]keyedRow); ok && cap(*o) >= n {
		return (*o)[:n]
	}
	return make([]keyedRow, n)
}

func (s *bufferPool) putOrder(o []keyedRow) {
	if cap(o) >= wire.MaxRows/2 { // a smaller one would rarely fit
		s.orders.Put(&o)
	}
}

// blockRows is how many outcomes a block holds, at about 300 bytes each.
const blockRows = 128

func (s *bufferPool) getBlock() []doneRow {
	if b, ok := s.blocks.Get().(*[]doneRow); ok {
		return *b
	}
	return make([]doneRow, 0, blockRows)
}

func (s *bufferPool) putBlock(b []doneRow) {
	clear(b)
	b = b[:0]
	s.blocks.Put(&b)
}

// sightings is room for what most probes see: a target and its decoy.
type sightings [2]engine.Sighting

// appendSeen appends a sighting to a probe's evidence, in pooled memory.
func (s *bufferPool) appendSeen(p *probe, seen engine.Sighting) {
	if p.ev.Seen == nil {
		if a, ok := s.seen.Get().(*sightings); ok {
			p.ev.Seen = a[:0]
		}
	}
	p.ev.Append(seen)
}

// putSeen takes the sightings of a probe that has ended: its verdict has copies, and only its owner used them.
func (s *bufferPool) putSeen(p *probe) {
	if seen := p.ev.Seen; cap(seen) == len(sightings{}) {
		a := (*sightings)(seen[:cap(seen)])
		*a = sightings{}
		s.seen.Put(a)
	}
	p.ev.Seen = nil
}

// getTransactions returns empty transactions in the memory of an earlier session.
func (s *bufferPool) getTransactions() transactions {
	if t, ok := s.transactionPool.Get().(*transactions); ok {
		return *t
	}
	return transactions{}
}

// putTransactions takes the memory of a session that has ended.
func (s *bufferPool) putTransactions(t *transactions) {
	if cap(t.recipients) > 0 && cap(t.recipients) <= 2*budget.MaxTransaction { // sessions without recipients have no memory; the longest slices are rarely needed
		clear(t.recipients[:cap(t.recipients)])
		clear(t.rcpts[:cap(t.rcpts)])
		clear(t.seen[:cap(t.seen)])
		clear(t.finished[:cap(t.finished)])
		kept := transactions{t.recipients[:0], t.rcpts[:0], t.seen[:0], t.delivered[:0], t.finished[:0]}
		s.transactionPool.Put(&kept)
	}
	*t = transactions{}
}

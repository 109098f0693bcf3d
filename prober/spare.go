package prober

import (
	"sync"

	"probity/engine"
	"probity/prober/wire"
)

// spare is memory between two uses: a batch needs a full part, and blocks of outcomes, for a moment only, and hundreds of
// batches are under way; sessions and probes are short-lived. BenchmarkVerify: 1,071 bytes a row, those of its disk in memory among them.
type spare struct {
	size                        int // rows of a part
	parts, blocks, seen, orders sync.Pool
	asked                       sync.Pool
}

func newSpare(size int) *spare { return &spare{size: size} }

// part is empty and has room for a full part.
func (s *spare) part() []wire.Result {
	if p, ok := s.parts.Get().(*[]wire.Result); ok {
		return *p
	}
	return make([]wire.Result, 0, s.size)
}

func (s *spare) putPart(p []wire.Result) {
	if cap(p) == s.size {
		clear(p)
		p = p[:0]
		s.parts.Put(&p)
	}
}

// order has a place for each of n rows, whatever is in it.
func (s *spare) order(n int) []keyed {
	if o, ok := s.orders.Get().(*[]keyed); ok && cap(*o) >= n {
		return (*o)[:n]
	}
	return make([]keyed, n)
}

func (s *spare) putOrder(o []keyed) {
	if cap(o) >= wire.MaxRows/2 { // else the next would hardly have room in it
		s.orders.Put(&o)
	}
}

// blockRows is how many outcomes a block holds; one is about 300 bytes.
const blockRows = 128

func (s *spare) block() []done {
	if b, ok := s.blocks.Get().(*[]done); ok {
		return *b
	}
	return make([]done, 0, blockRows)
}

func (s *spare) putBlock(b []done) {
	clear(b)
	b = b[:0]
	s.blocks.Put(&b)
}

// sightings is what most probes see: a target and its decoy.
type sightings [2]engine.Sighting

// saw adds to what a probe has seen, in memory that others have used.
func (s *spare) saw(p *probe, seen engine.Sighting) {
	if p.ev.Seen == nil {
		if a, ok := s.seen.Get().(*sightings); ok {
			p.ev.Seen = a[:0]
		}
	}
	p.ev.Append(seen)
}

// forget takes what a probe has seen that is over: its verdict has copies, and its evidence was its owner's alone.
func (s *spare) forget(p *probe) {
	if seen := p.ev.Seen; cap(seen) == len(sightings{}) {
		a := (*sightings)(seen[:cap(seen)])
		*a = sightings{}
		s.seen.Put(a)
	}
	p.ev.Seen = nil
}

// transactions are empty, with room for those that a session before had.
func (s *spare) transactions() transactions {
	if t, ok := s.asked.Get().(*transactions); ok {
		return *t
	}
	return transactions{}
}

// putTransactions takes those of a session that is over.
func (s *spare) putTransactions(t *transactions) {
	if cap(t.asks) > 0 && cap(t.asks) <= 2*maxTransaction { // a session that asked nothing has none, and the longest ones are rare
		clear(t.asks[:cap(t.asks)])
		clear(t.rcpts[:cap(t.rcpts)])
		clear(t.seen[:cap(t.seen)])
		clear(t.out[:cap(t.out)])
		kept := transactions{t.asks[:0], t.rcpts[:0], t.seen[:0], t.told[:0], t.out[:0]}
		s.asked.Put(&kept)
	}
	*t = transactions{}
}

package prober

import (
	"sync"

	"probity/prober/wire"
)

// bufferPool reuses memory: a batch needs a full part and blocks of outcomes only briefly, and sessions and probes are
// short-lived. BenchmarkVerify shows the bytes per row.
type bufferPool struct {
	size                  int // rows of a part
	parts, blocks, orders sync.Pool
}

func newBufferPool(size int) *bufferPool { return &bufferPool{size: size} }

// getPart returns an empty slice with room for a full part.
func (bp *bufferPool) getPart() []wire.Result {
	if p, ok := bp.parts.Get().(*[]wire.Result); ok {
		return *p
	}
	return make([]wire.Result, 0, bp.size)
}

func (bp *bufferPool) putPart(p []wire.Result) {
	if cap(p) == bp.size {
		clear(p)
		p = p[:0]
		bp.parts.Put(&p)
	}
}

// getOrder returns n entries of undefined content.
func (bp *bufferPool) getOrder(n int) []keyedRow {
	if o, ok := bp.orders.Get().(*[]keyedRow); ok && cap(*o) >= n {
		return (*o)[:n]
	}
	return make([]keyedRow, n)
}

func (bp *bufferPool) putOrder(o []keyedRow) {
	if cap(o) >= wire.MaxRows/2 { // a smaller one would rarely fit
		bp.orders.Put(&o)
	}
}

// blockRows is how many outcomes a block holds, at about 300 bytes each.
const blockRows = 128

func (bp *bufferPool) getBlock() []doneRow {
	if b, ok := bp.blocks.Get().(*[]doneRow); ok {
		return *b
	}
	return make([]doneRow, 0, blockRows)
}

func (bp *bufferPool) putBlock(b []doneRow) {
	clear(b)
	b = b[:0]
	bp.blocks.Put(&b)
}

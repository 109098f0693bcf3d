package prober

import (
	"sync"

	"probity/store/cache"
)

// caller is one caller with its rows. Sessions send it outcomes; its own goroutine takes them.
type caller struct {
	buffers *bufferPool   // nil for a single call
	details bool          // its verdicts have details
	wake    chan struct{} // capacity 1

	mu     sync.Mutex  // guards what follows
	blocks [][]doneRow // outcomes not yet taken: one row or a whole batch
	count  int
	closed bool
}

// doneRow is one row with its outcome.
type doneRow struct {
	row     int
	key     cache.Key
	outcome outcome
	store   bool   // this caller stores it in the cache
	asked   uint32 // milliseconds that sessions worked on it, as hostqueue.Probe.Asked counts them
}

func newListCaller(bp *bufferPool, details bool) *caller {
	return &caller{buffers: bp, details: details, wake: make(chan struct{}, 1)}
}

func newSingleCaller() *caller { return &caller{details: true, wake: make(chan struct{}, 1)} }

// isSingle reports whether c is a single call.
func (c *caller) isSingle() bool { return c.buffers == nil }

// send delivers an outcome; false if the caller has closed.
func (c *caller) send(d *doneRow) bool {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return false
	}
	if n := len(c.blocks); n == 0 || len(c.blocks[n-1]) == cap(c.blocks[n-1]) {
		var block []doneRow
		if c.isSingle() {
			block = make([]doneRow, 0, 1)
		} else {
			block = c.buffers.getBlock()
		}
		c.blocks = append(c.blocks, block)
	}
	last := &c.blocks[len(c.blocks)-1]
	*last = append(*last, *d)
	c.count++
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return true
}

// takeDone takes all outcomes that have been sent.
func (c *caller) takeDone() [][]doneRow {
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.blocks
	c.blocks, c.count = nil, 0
	return got
}

func (c *caller) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// close ends the caller and takes the last outcomes.
func (c *caller) close() [][]doneRow {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	return c.takeDone()
}

// storeResults writes cacheable outcomes to the cache.
func (p *Prober) storeResults(rows []doneRow) {
	entries := make([]cache.Entry, 0, blockRows)
	for i := range rows {
		if d := &rows[i]; d.store && d.outcome.cacheable {
			entries = append(entries, cache.Entry{Key: d.key, Verdict: &d.outcome.verdict})
		}
	}
	if err := p.cfg.Cache.Put(entries); err != nil {
		p.cfg.Log.Error("results were not cached", "error", err)
	}
}

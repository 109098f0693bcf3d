package prober

import (
	"slices"
	"sync"

	"probity/store/cache"
)

// run is one caller with its rows. Sessions hand it what is done; its own goroutine takes it away.
type run struct {
	spare *spare        // nil for a single
	wake  chan struct{} // has room for one

	mu     sync.Mutex // guards what follows
	ready  [][]done   // in blocks: what has come lately may be one row or a whole batch
	count  int
	closed bool
}

// done is one row with its outcome.
type done struct {
	row   int
	key   cache.Key
	o     outcome
	store bool // this run keeps it in the cache
}

func newRun(s *spare) *run { return &run{spare: s, wake: make(chan struct{}, 1)} }

// single reports a run of one row that somebody waits for.
func (r *run) single() bool { return r.spare == nil }

// give hands over an outcome; false when the run has gone.
func (r *run) give(d *done) bool {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return false
	}
	if n := len(r.ready); n == 0 || len(r.ready[n-1]) == cap(r.ready[n-1]) {
		r.ready = append(r.ready, r.block())
	}
	last := &r.ready[len(r.ready)-1]
	*last = append(*last, *d)
	r.count++
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return true
}

func (r *run) block() []done {
	if r.single() {
		return make([]done, 0, 1)
	}
	return r.spare.block()
}

// take takes all that is done.
func (r *run) take() [][]done {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken()
}

func (r *run) taken() [][]done {
	got := r.ready
	r.ready, r.count = nil, 0
	return got
}

func (r *run) waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// close ends the run and takes what came last.
func (r *run) close() [][]done {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.taken()
}

// keep writes what may be kept, in key order.
func (p *Prober) keep(rows []done) {
	entries := make([]cache.Entry, 0, blockRows)
	for i := range rows {
		if d := &rows[i]; d.store && d.o.keep {
			entries = append(entries, cache.Entry{Key: d.key, Verdict: &d.o.verdict})
		}
	}
	slices.SortFunc(entries, func(a, b cache.Entry) int { return slices.Compare(a.Key[:], b.Key[:]) })
	if err := p.cfg.Cache.Put(entries); err != nil {
		p.cfg.Log.Error("results were not cached", "error", err)
	}
}

package prober

import (
	"slices"
	"sync"

	"probity/store/cache"
)

// run is one caller with its rows. Sessions hand it what is done; its own goroutine takes it away.
type run struct {
	single bool
	wake   chan struct{} // has room for one

	mu     sync.Mutex // guards what follows
	ready  []done
	closed bool
}

// done is one row with its outcome.
type done struct {
	row   int
	key   cache.Key
	o     outcome
	store bool // this run keeps it in the cache
}

func newRun(single bool) *run { return &run{single: single, wake: make(chan struct{}, 1)} }

// give hands over an outcome; false when the run has gone.
func (r *run) give(d done) bool {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return false
	}
	r.ready = append(r.ready, d)
	r.mu.Unlock()
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return true
}

// take takes all that is done and leaves into for the next; into's rows are lost.
func (r *run) take(into []done) []done {
	r.mu.Lock()
	defer r.mu.Unlock()
	got := r.ready
	r.ready = into[:0]
	return got
}

func (r *run) waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ready)
}

// close ends the run and takes what came last.
func (r *run) close() []done {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return r.ready
}

// keep writes what may be kept, in key order.
func (p *Prober) keep(rows []done) {
	var entries []cache.Entry
	for i := range rows {
		if d := &rows[i]; d.store && d.o.keep {
			if entries == nil {
				entries = make([]cache.Entry, 0, len(rows))
			}
			entries = append(entries, cache.Entry{Key: d.key, Verdict: &d.o.verdict})
		}
	}
	slices.SortFunc(entries, func(a, b cache.Entry) int { return slices.Compare(a.Key[:], b.Key[:]) })
	if err := p.cfg.Cache.Put(entries); err != nil {
		p.cfg.Log.Error("results were not cached", "error", err)
	}
}

package prober

import (
	"sync"

	"probity/engine"
	"probity/prober/hostqueue"
	"probity/prober/readyqueue"
	"probity/store/cache"
)

// probeInFlight is one address in flight with all rows that wait for it.
type probeInFlight struct {
	hostqueue.Probe
	// retry of a single call: goes on without waiters. Guarded by the inFlight shard of its key, as waiters are
	retry     bool
	waiters   []waiter  // guarded by the inFlight shard of its key
	oneWaiter [1]waiter // usual storage of waiters
}

// waiter is one row of a caller that waits for a probe in flight.
type waiter struct {
	caller *caller
	row    uint32
	flags  engine.Flags
}

// inFlight holds the probes of all addresses being verified, so that each address has one probe at a time.
type inFlight struct{ shards [64]inFlightShard }

type inFlightShard struct {
	mu sync.Mutex // guards m and the waiters of the probes in it
	m  map[cache.Key]*probeInFlight
}

func newInFlight() *inFlight {
	f := &inFlight{}
	for i := range f.shards {
		f.shards[i].m = map[cache.Key]*probeInFlight{}
	}
	return f
}

// lock locks the shard of a key: they spread by the address, not by the domain.
func (f *inFlight) lock(k *cache.Key) *inFlightShard {
	s := &f.shards[k[len(k)-1]%64]
	s.mu.Lock()
	return s
}

// join adds a waiter to the probe of its address: the one in flight, else fresh. It returns that one.
// A waiter without a caller is a retry: the probe goes on after all other waiters have left.
func (f *inFlight) join(fresh *probeInFlight, a waiter) *probeInFlight {
	s := f.lock(&fresh.Key)
	defer s.mu.Unlock()
	v := s.m[fresh.Key]
	if v == nil {
		v = fresh
		v.waiters = v.oneWaiter[:0]
		s.m[v.Key] = v
	}
	if a.caller != nil {
		v.waiters = append(v.waiters, a)
	} else {
		v.retry = true
	}
	return v
}

// remove removes a probe that has ended. It does not change any more.
func (f *inFlight) remove(p *hostqueue.Probe) *probeInFlight {
	s := f.lock(&p.Key)
	defer s.mu.Unlock()
	v := s.m[p.Key]
	delete(s.m, p.Key)
	return v
}

// unwanted reports whether no caller and no retry waits for a probe.
func (f *inFlight) unwanted(p *hostqueue.Probe) bool {
	s := f.lock(&p.Key)
	defer s.mu.Unlock()
	v := s.m[p.Key]
	return v == nil || &v.Probe != p || len(v.waiters) == 0 && !v.retry
}

// removeWaiter removes a caller from a probe's waiters. It drops a queued probe without waiters and reports that; for
// no caller, even one whose target was answered.
func (f *inFlight) removeWaiter(p *hostqueue.Probe, c *caller) bool {
	s := f.lock(&p.Key)
	defer s.mu.Unlock()
	v := s.m[p.Key]
	if v == nil || &v.Probe != p {
		return false // it has ended
	}
	rest := v.waiters[:0]
	for _, a := range v.waiters {
		if a.caller != c {
			rest = append(rest, a)
		}
	}
	v.waiters = rest
	if len(rest) > 0 || v.retry {
		return false
	}
	if q := readyqueue.Of(p); q == nil || !q.Withdraw(p, c == nil) {
		return false
	}
	delete(s.m, p.Key)
	return true
}

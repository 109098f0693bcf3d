package prober

import (
	"sync"

	"probity/prober/hostqueue"
	"probity/prober/readyqueue"
	"probity/store/cache"
)

// inFlight holds the verifications of all addresses being verified, so that each address has one probe at a time.
type inFlight struct{ shards [64]inFlightShard }

type inFlightShard struct {
	mu sync.Mutex // guards m and the waiters of the probes in it
	m  map[cache.Key]*verification
}

func newInFlight() *inFlight {
	f := &inFlight{}
	for i := range f.shards {
		f.shards[i].m = map[cache.Key]*verification{}
	}
	return f
}

// lock locks the shard of a key: they spread by the address, not by the domain.
func (f *inFlight) lock(k *cache.Key) *inFlightShard {
	s := &f.shards[k[len(k)-1]%64]
	s.mu.Lock()
	return s
}

// join adds a waiter to the verification of its address: the one in flight, else fresh. It returns that one.
// A waiter without a caller is a retry: the probe goes on after all other waiters have left.
func (f *inFlight) join(fresh *verification, a waiter) *verification {
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

// remove removes the verification of a probe that has ended. It does not change any more.
func (f *inFlight) remove(p *hostqueue.Probe) *verification {
	s := f.lock(&p.Key)
	defer s.mu.Unlock()
	v := s.m[p.Key]
	delete(s.m, p.Key)
	return v
}

// hasWaiters reports that a caller or a retry waits for a probe.
func (f *inFlight) hasWaiters(p *hostqueue.Probe) bool {
	s := f.lock(&p.Key)
	defer s.mu.Unlock()
	v := s.m[p.Key]
	return v != nil && &v.Probe == p && (len(v.waiters) > 0 || v.retry)
}

// removeWaiter removes a caller from a probe's waiters. It drops a queued probe without waiters and reports that; for no caller, even
// one whose target was answered.
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

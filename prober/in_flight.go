package prober

import (
	"sync"

	"probity/store/cache"
)

// inFlight holds the probes of all addresses being verified, so that each address has one probe at a time.
type inFlight struct{ shards [64]inFlightShard }

type inFlightShard struct {
	mu sync.Mutex // guards m and the waiters of the probes in it
	m  map[cache.Key]*probe
}

func newInFlight() *inFlight {
	f := &inFlight{}
	for i := range f.shards {
		f.shards[i].m = map[cache.Key]*probe{}
	}
	return f
}

// shard spreads by the address, not by the domain.
func (f *inFlight) shard(k *cache.Key) *inFlightShard { return &f.shards[k[len(k)-1]%64] }

// join adds a waiter to the probe of its address: the one in flight, else fresh. It returns that probe.
// A waiter without a caller is a retry: the probe goes on after all other waiters have left.
func (f *inFlight) join(fresh *probe, a waiter) *probe {
	s := f.shard(&fresh.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.m[fresh.key]
	if p == nil {
		p = fresh
		p.waiters = p.oneWaiter[:0]
		s.m[p.key] = p
	}
	if a.caller != nil {
		p.waiters = append(p.waiters, a)
	} else {
		p.retry = true
	}
	return p
}

// remove removes a probe that has ended and returns its waiters, which do not change any more.
func (f *inFlight) remove(p *probe) []waiter {
	s := f.shard(&p.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.m, p.key)
	return p.waiters
}

// removeWaiter removes a caller from a probe's waiters. It drops a queued probe without waiters and reports that; for no caller, even
// one whose target was answered.
func (f *inFlight) removeWaiter(p *probe, c *caller) bool {
	s := f.shard(&p.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[p.key] != p {
		return false // it has ended
	}
	rest := p.waiters[:0]
	for _, a := range p.waiters {
		if a.caller != c {
			rest = append(rest, a)
		}
	}
	p.waiters = rest
	if len(rest) > 0 || p.retry {
		return false
	}
	if q := p.queue.Load(); q == nil || !q.withdraw(p, c == nil) {
		return false
	}
	delete(s.m, p.key)
	return true
}

package prober

import (
	"sync"

	"probity/store/cache"
)

// flight holds the addresses that are being verified, so that each is probed once at a time.
type flight struct{ shards [64]flightShard }

type flightShard struct {
	mu sync.Mutex // guards all and the askers of the probes in it
	m  map[cache.Key]*probe
}

func newFlight() *flight {
	f := &flight{}
	for i := range f.shards {
		f.shards[i].m = map[cache.Key]*probe{}
	}
	return f
}

// shard spreads by the address, not by the domain.
func (f *flight) shard(k *cache.Key) *flightShard { return &f.shards[k[len(k)-1]%64] }

// join lets an asker wait for the probe of its address: the one in flight, else fresh. It returns the one it waits for.
// An asker without a run is a retry: the probe goes on when all other askers leave.
func (f *flight) join(fresh *probe, a asker) *probe {
	s := f.shard(&fresh.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.m[fresh.key]
	if p == nil {
		p = fresh
		p.askers = p.one[:0]
		s.m[p.key] = p
	}
	if a.run != nil {
		p.askers = append(p.askers, a)
	} else {
		p.retry = true
	}
	return p
}

// end takes a probe that is over out, and returns who waited for it.
func (f *flight) end(p *probe) []asker {
	s := f.shard(&p.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.m[p.key] == p {
		delete(s.m, p.key)
	}
	askers := p.askers
	p.askers = nil
	return askers
}

// leave lets a run wait no longer. A queued probe that no caller waits for is dropped; true then.
func (f *flight) leave(p *probe, r *run) bool { return f.drop(p, r, false) }

// abandon drops a queued probe if no caller waits for it, even one whose target has answered. True then.
func (f *flight) abandon(p *probe) bool { return f.drop(p, nil, true) }

func (f *flight) drop(p *probe, r *run, paid bool) bool {
	s := f.shard(&p.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := p.askers[:0]
	for _, a := range p.askers {
		if a.run != r {
			rest = append(rest, a)
		}
	}
	p.askers = rest
	if len(rest) > 0 || p.retry || s.m[p.key] != p {
		return false
	}
	if l := p.lane.Load(); l == nil || !l.withdraw(p, paid) {
		return false
	}
	delete(s.m, p.key)
	return true
}

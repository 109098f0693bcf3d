package dns

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

// memo remembers values for a time, at most so many, and makes each one once at a time however many ask for it.
type memo[V any] struct {
	seed   maphash.Seed
	bound  int // kept entries a shard and generation
	shards [memoShards]memoShard[V]
}

const memoShards = 32

// memoShard keeps two generations: what is used moves to the young one, and when that is full, what lies in the old one since it
// became old goes at once. (To look for the least worthy entry each time was a twentieth of the work on a domain.)
type memoShard[V any] struct {
	mu         sync.Mutex            // guards all below
	young, old map[string]*flight[V] // those that have landed
	flights    map[string]*flight[V] // at most one a caller
}

// flight is a value being made, and then, in the same memory, what is kept of it. Its maker sets value and ok, then closes done.
type flight[V any] struct {
	done  chan struct{} // made by the first who waits; guarded by the shard's mutex
	value V
	until time.Time // how long it is kept; set before it is
	ok    bool      // false: the maker's own time was up, and no other caller's
}

func newMemo[V any](size int) *memo[V] {
	m := &memo[V]{seed: maphash.MakeSeed(), bound: max(size/memoShards/2, 1)}
	for i := range m.shards {
		m.shards[i].young, m.shards[i].old = map[string]*flight[V]{}, map[string]*flight[V]{}
		m.shards[i].flights = map[string]*flight[V]{}
	}
	return m
}

func (m *memo[V]) shard(key string) *memoShard[V] {
	return &m.shards[maphash.String(m.seed, key)%memoShards]
}

// get gives the value of key: kept, being made by another caller, or made now by calling ask in this goroutine.
// It reports false when ctx ended first; what ask made of a context that had ended is given to no caller and not kept.
func (m *memo[V]) get(ctx context.Context, key string, ask func() (V, time.Duration)) (V, bool) {
	s := m.shard(key)
	for {
		s.mu.Lock()
		if k := s.find(key, m.bound); k != nil && time.Now().Before(k.until) {
			s.mu.Unlock()
			return k.value, true
		}
		f, ok := s.flights[key]
		if !ok {
			f = &flight[V]{}
			s.flights[key] = f
			s.mu.Unlock()
			return m.lead(ctx, s, key, f, ask)
		}
		if f.done == nil {
			f.done = make(chan struct{})
		}
		done := f.done
		s.mu.Unlock()
		select {
		case <-done:
			if f.ok {
				return f.value, true
			}
		case <-ctx.Done():
			var none V
			return none, false
		}
	}
}

// lead makes the value of a flight and lets the others have it.
func (m *memo[V]) lead(ctx context.Context, s *memoShard[V], key string, f *flight[V], ask func() (V, time.Duration)) (V, bool) {
	var ttl time.Duration
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.flights, key)
		if f.ok && ttl > 0 {
			f.until = time.Now().Add(ttl)
			s.keep(key, f, m.bound) // what lies in the old one is out of date, and never seen again
		}
		if f.done != nil {
			close(f.done)
			f.done = nil
		}
	}()
	f.value, ttl = ask()
	f.ok = ctx.Err() == nil
	return f.value, f.ok
}

// find is what is kept of a key, nil for nothing; from now on it is young. s.mu is held.
func (s *memoShard[V]) find(key string, bound int) *flight[V] {
	if k := s.young[key]; k != nil {
		return k
	}
	k := s.old[key]
	if k != nil {
		delete(s.old, key)
		s.keep(key, k, bound)
	}
	return k
}

// keep keeps a value as young, at most bound in each generation. s.mu is held.
func (s *memoShard[V]) keep(key string, k *flight[V], bound int) {
	if len(s.young) >= bound {
		s.young, s.old = s.old, s.young
		clear(s.young)
	}
	s.young[key] = k
}

// forget drops what is kept of a key.
func (m *memo[V]) forget(key string) {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.young, key)
	delete(s.old, key)
}

func (m *memo[V]) len() int {
	n := 0
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		n += len(s.young) + len(s.old)
		s.mu.Unlock()
	}
	return n
}

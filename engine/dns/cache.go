package dns

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

// cache remembers values for a time, at most so many, and makes each one once at a time however many ask for it.
type cache[V any] struct {
	seed     maphash.Seed
	capacity int // kept entries a shard and generation
	shards   [cacheShards]cacheShard[V]
}

const cacheShards = 32

// cacheShard keeps two generations: what is used moves to the young one, and when that is full, what lies in the old one since it
// became old goes at once. (To look for the least worthy entry each time was a twentieth of the work on a domain.)
type cacheShard[V any] struct {
	mu         sync.Mutex                // guards all below
	young, old map[string]*cacheEntry[V] // those that have landed
	inFlight   map[string]*cacheEntry[V] // at most one a caller
}

// cacheEntry is a value being made, and then, in the same memory, what is kept of it. Its maker sets value and ok, then closes done.
type cacheEntry[V any] struct {
	done  chan struct{} // made by the first who waits; guarded by the shard's mutex
	value V
	until time.Time // how long it is kept; set before it is
	ok    bool      // false: the maker's own time was up, and no other caller's
}

func newCache[V any](size int) *cache[V] {
	m := &cache[V]{seed: maphash.MakeSeed(), capacity: max(size/cacheShards/2, 1)}
	for i := range m.shards {
		m.shards[i].young, m.shards[i].old = map[string]*cacheEntry[V]{}, map[string]*cacheEntry[V]{}
		m.shards[i].inFlight = map[string]*cacheEntry[V]{}
	}
	return m
}

func (m *cache[V]) shard(key string) *cacheShard[V] {
	return &m.shards[maphash.String(m.seed, key)%cacheShards]
}

// get gives the value of key: kept, being made by another caller, or made now by calling ask in this goroutine.
// It reports false when ctx ended first; what ask made of a context that had ended is given to no caller and not kept.
func (m *cache[V]) get(ctx context.Context, key string, fetch func() (V, time.Duration)) (V, bool) {
	s := m.shard(key)
	for {
		s.mu.Lock()
		if k := s.find(key, m.capacity); k != nil && time.Now().Before(k.until) {
			s.mu.Unlock()
			return k.value, true
		}
		f, ok := s.inFlight[key]
		if !ok {
			f = &cacheEntry[V]{}
			s.inFlight[key] = f
			s.mu.Unlock()
			return m.load(ctx, s, key, f, fetch)
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

// load makes the value of a flight and lets the others have it.
func (m *cache[V]) load(ctx context.Context, s *cacheShard[V], key string, f *cacheEntry[V], fetch func() (V, time.Duration)) (V, bool) {
	var ttl time.Duration
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.inFlight, key)
		if f.ok && ttl > 0 {
			f.until = time.Now().Add(ttl)
			s.put(key, f, m.capacity) // what lies in the old one is out of date, and never seen again
		}
		if f.done != nil {
			close(f.done)
			f.done = nil
		}
	}()
	f.value, ttl = fetch()
	f.ok = ctx.Err() == nil
	return f.value, f.ok
}

// find is what is kept of a key, nil for nothing; from now on it is young. s.mu is held.
func (s *cacheShard[V]) find(key string, capacity int) *cacheEntry[V] {
	if k := s.young[key]; k != nil {
		return k
	}
	k := s.old[key]
	if k != nil {
		delete(s.old, key)
		s.put(key, k, capacity)
	}
	return k
}

// put keeps a value as young, at most bound in each generation. s.mu is held.
func (s *cacheShard[V]) put(key string, k *cacheEntry[V], capacity int) {
	if len(s.young) >= capacity {
		s.young, s.old = s.old, s.young
		clear(s.young)
	}
	s.young[key] = k
}

// forget drops what is kept of a key.
func (m *cache[V]) forget(key string) {
	s := m.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.young, key)
	delete(s.old, key)
}

func (m *cache[V]) len() int {
	n := 0
	for i := range m.shards {
		s := &m.shards[i]
		s.mu.Lock()
		n += len(s.young) + len(s.old)
		s.mu.Unlock()
	}
	return n
}

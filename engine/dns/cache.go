package dns

import (
	"context"
	"hash/maphash"
	"sync"
	"time"
)

// cache keeps values for a time, up to a capacity. Concurrent callers of one key share one fetch.
type cache[V any] struct {
	seed   maphash.Seed
	shards [cacheShards]cacheShard[V]
}

const cacheShards = 32

type cacheShard[V any] struct {
	mu       sync.Mutex // guards all below
	fetched  generations[V]
	inFlight map[string]*cacheEntry[V] // being fetched
}

// generations keeps entries in two generations: a used entry moves to the young one. When that is full, it becomes the
// old one and the former old one is dropped at once. That is cheaper than finding the least recently used entry each
// time.
type generations[V any] struct {
	young, old map[string]*cacheEntry[V]
	capacity   int // entries of each
}

// cacheEntry is a value that is being fetched, and then the kept value. load sets value and ok, then closes done.
type cacheEntry[V any] struct {
	done  chan struct{} // made by the first caller that waits; guarded by the shard's mutex
	value V
	until time.Time // when it expires; set before it is kept
	ok    bool      // false: the context of the caller that fetched it had ended
}

func newCache[V any](size int) *cache[V] {
	c := &cache[V]{seed: maphash.MakeSeed()}
	for i := range c.shards {
		c.shards[i].fetched = generations[V]{young: map[string]*cacheEntry[V]{}, old: map[string]*cacheEntry[V]{},
			capacity: max(size/cacheShards/2, 1)}
		c.shards[i].inFlight = map[string]*cacheEntry[V]{}
	}
	return c
}

func (c *cache[V]) shard(key string) *cacheShard[V] {
	return &c.shards[maphash.String(c.seed, key)%cacheShards]
}

// get returns the value of key: kept, being fetched by another caller, or fetched now in this goroutine.
// It returns false when ctx ended first; what fetch returned after that is neither kept nor given to another caller.
func (c *cache[V]) get(ctx context.Context, key string, fetch func() (V, time.Duration)) (V, bool) {
	s := c.shard(key)
	for {
		s.mu.Lock()
		if k := s.fetched.find(key); k != nil && time.Now().Before(k.until) {
			s.mu.Unlock()
			return k.value, true
		}
		f, ok := s.inFlight[key]
		if !ok {
			f = &cacheEntry[V]{}
			s.inFlight[key] = f
			s.mu.Unlock()
			return c.load(ctx, s, key, f, fetch)
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

// kept returns the kept value of key, and false if there is none.
func (c *cache[V]) kept(key string) (v V, ok bool) {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.fetched.find(key); k != nil && time.Now().Before(k.until) {
		return k.value, true
	}
	return v, false
}

// load fetches the value of an entry and wakes the callers that wait for it.
func (c *cache[V]) load(ctx context.Context, s *cacheShard[V], key string, f *cacheEntry[V],
	fetch func() (V, time.Duration)) (V, bool) {
	var ttl time.Duration
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.inFlight, key)
		if f.ok && ttl > 0 {
			f.until = time.Now().Add(ttl)
			s.fetched.put(key, f) // an entry of the key in old has expired and is not found again
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

// find returns the kept entry of a key, nil for none, and moves it to young.
func (g *generations[V]) find(key string) *cacheEntry[V] {
	if k := g.young[key]; k != nil {
		return k
	}
	k := g.old[key]
	if k != nil {
		delete(g.old, key)
		g.put(key, k)
	}
	return k
}

// put adds an entry to young.
func (g *generations[V]) put(key string, k *cacheEntry[V]) {
	if len(g.young) >= g.capacity {
		g.young, g.old = g.old, g.young
		clear(g.young)
	}
	g.young[key] = k
}

// forget drops the kept entry of a key.
func (c *cache[V]) forget(key string) {
	s := c.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.fetched.young, key)
	delete(s.fetched.old, key)
}

func (c *cache[V]) len() int {
	n := 0
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		n += len(s.fetched.young) + len(s.fetched.old)
		s.mu.Unlock()
	}
	return n
}

package cache

import "sync"

// What is kept in memory is at most recentShards times verdictsPerShard verdicts, about half a kilobyte each, and as many times
// factsPerShard facts: most are the word that there is none, in about fifty bytes.
const (
	recentShards     = 64
	verdictsPerShard = 128
	factsPerShard    = 512
)

// recent keeps what was asked for last, read: the verdicts that singles were given, for a form that a visitor fills in asks again
// and again, and the facts about a domain, for each list asks for them again.
// BenchmarkGetHit, both slowed by a busy machine: 0.4 us and nothing allocated, 16 us and 250 bytes from the database.
type recent[T any] struct{ shards [recentShards]recentShard[T] }

type recentShard[T any] struct {
	capacity int

	mu      sync.Mutex // guards what follows
	writes  uint32     // to keys of the shard
	entries map[Key]*T
}

func newRecent[T any](capacity int) *recent[T] {
	r := &recent[T]{}
	for i := range r.shards {
		r.shards[i].capacity = capacity
	}
	return r
}

// shard is where what lies at a key is kept: by the HMAC in it, which is as good as chance.
func (r *recent[T]) shard(key *Key) *recentShard[T] { return &r.shards[key[len(key)-1]%recentShards] }

// get is what lies at a key, if it is kept; it is not to be changed. Where it is not, writes is what put needs to know
// whether what is read from the database meanwhile is still the last.
func (s *recentShard[T]) get(key *Key) (v *T, writes uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[*key], s.writes
}

// put keeps what was read after get gave writes, unless a key of the shard was written since. When the shard is full,
// any other gives way, as the order of a map will have it.
func (s *recentShard[T]) put(key *Key, v *T, writes uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes != writes {
		return
	}
	for other := range s.entries {
		if len(s.entries) < s.capacity {
			break
		}
		delete(s.entries, other)
	}
	if s.entries == nil {
		s.entries = make(map[Key]*T)
	}
	s.entries[*key] = v
}

// invalidate tells that the database has something else at a key now, or nothing.
func (s *recentShard[T]) invalidate(key *Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	delete(s.entries, *key)
}

// clear forgets everything, as the database has.
func (r *recent[T]) clear() {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		s.writes++
		clear(s.entries)
		s.mu.Unlock()
	}
}

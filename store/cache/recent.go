package cache

import "sync"

// Memory holds at most recentShards times verdictsPerShard verdicts, of about half a kilobyte each, and recentShards
// times factsPerShard facts: most of these are noFact, at about fifty bytes.
const (
	recentShards     = 64
	verdictsPerShard = 128
	factsPerShard    = 512
)

// recent keeps recently read values, decoded: verdicts, because a web form repeats its single call, and facts about
// domains, because each job asks for them again (BenchmarkGetHit).
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

// shard is the shard of a key, by a byte of its HMAC, which is uniformly distributed.
func (r *recent[T]) shard(key *Key) *recentShard[T] { return &r.shards[key[len(key)-1]%recentShards] }

// get returns the value of a key, nil if it is not in memory; do not change it. Pass writes to put, which then knows
// whether a value that was read from the database meanwhile is still current.
func (s *recentShard[T]) get(key *Key) (v *T, writes uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries[*key], s.writes
}

// put keeps a value that was read after get returned writes, unless a key of the shard was written since. If the shard
// is full, it drops any other entry.
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

// invalidate drops a key whose value in the database has changed.
func (s *recentShard[T]) invalidate(key *Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	delete(s.entries, *key)
}

// clear drops everything, for a new database.
func (r *recent[T]) clear() {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		s.writes++
		clear(s.entries)
		s.mu.Unlock()
	}
}

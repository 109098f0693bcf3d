package cache

import "sync"

// What is kept in memory is at most recentShards times recentEach verdicts, about half a kilobyte each, and as many times
// recentFacts facts: most are the word that there is none, in about fifty bytes.
const (
	recentShards = 64
	recentEach   = 128
	recentFacts  = 512
)

// recent keeps what was asked for last, read: the verdicts that singles were given, for a form that a visitor fills in asks again
// and again, and the facts about a domain, for each list asks for them anew.
// BenchmarkGetHit, both slowed by a busy machine: 0.4 us and nothing allocated, 16 us and 250 bytes from the database.
type recent[T any] struct{ shards [recentShards]recentShard[T] }

type recentShard[T any] struct {
	most int

	mu     sync.Mutex // guards what follows
	writes uint32     // to keys of the shard
	all    map[Key]*T
}

func newRecent[T any](each int) *recent[T] {
	r := &recent[T]{}
	for i := range r.shards {
		r.shards[i].most = each
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
	return s.all[*key], s.writes
}

// put keeps what was read after get gave writes, unless a key of the shard was written since. When the shard is full,
// any other gives way, as the order of a map will have it.
func (s *recentShard[T]) put(key *Key, v *T, writes uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes != writes {
		return
	}
	for other := range s.all {
		if len(s.all) < s.most {
			break
		}
		delete(s.all, other)
	}
	if s.all == nil {
		s.all = make(map[Key]*T)
	}
	s.all[*key] = v
}

// written tells that the database has something else at a key now, or nothing.
func (s *recentShard[T]) written(key *Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	delete(s.all, *key)
}

// clear forgets everything, as the database has.
func (r *recent[T]) clear() {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		s.writes++
		clear(s.all)
		s.mu.Unlock()
	}
}

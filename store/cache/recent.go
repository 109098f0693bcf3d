package cache

import (
	"sync"

	"probity/engine"
)

// The verdicts kept in memory are at most recentShards times recentEach, about half a kilobyte each.
const (
	recentShards = 64
	recentEach   = 128
)

// recent keeps the verdicts that singles were given last, read: a form that a visitor fills in asks again and again.
// BenchmarkGetHit, both slowed by a busy machine: 0.4 us and nothing allocated, 16 us and 250 bytes from the database.
type recent struct{ shards [recentShards]recentShard }

type recentShard struct {
	mu     sync.Mutex // guards what follows
	writes uint32     // to keys of the shard
	all    map[Key]*engine.Verdict
}

// shard is where a key's verdict is kept: by the HMAC of its address, which is as good as chance.
func (r *recent) shard(key *Key) *recentShard { return &r.shards[key[len(key)-1]%recentShards] }

// get is the verdict of a key, if it is kept; it is not to be changed. Where there is none, writes is what put needs to know
// whether the verdict that is read from the database meanwhile is still the last.
func (s *recentShard) get(key *Key) (v *engine.Verdict, writes uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[*key], s.writes
}

// put keeps a verdict that was read after get gave writes, unless a key of the shard was written since. When the shard is full,
// any other gives way, as the order of a map will have it.
func (s *recentShard) put(key *Key, v *engine.Verdict, writes uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writes != writes {
		return
	}
	for other := range s.all {
		if len(s.all) < recentEach {
			break
		}
		delete(s.all, other)
	}
	if s.all == nil {
		s.all = make(map[Key]*engine.Verdict)
	}
	s.all[*key] = v
}

// written tells that the database has another verdict of a key now, or none.
func (s *recentShard) written(key *Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writes++
	delete(s.all, *key)
}

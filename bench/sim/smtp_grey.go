package sim

import (
	"sync"
	"time"
)

// greyGeneration bounds one generation of remembered first contacts; the table
// holds two, at most about 80 MB, and forgets the older at once.
const greyGeneration = 1 << 20

// greylist remembers when something was first asked about. It is safe for
// concurrent use.
type greylist struct {
	mu         sync.Mutex // guards both maps
	young, old map[uint64]int64
}

func newGreylist() *greylist { return &greylist{young: map[uint64]int64{}} }

// passes tells whether key was first seen at least wait ago. The first contact
// never passes.
func (g *greylist) passes(key uint64, now time.Time, wait time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first, known := g.young[key]
	if !known {
		first, known = g.old[key]
	}
	if known {
		return now.UnixNano()-first >= int64(wait)
	}
	if len(g.young) >= greyGeneration {
		g.young, g.old = map[uint64]int64{}, g.young
	}
	g.young[key] = now.UnixNano()
	return false
}

// hashFold takes ASCII-folded bytes into a hash.
func hashFold(h uint64, b []byte) uint64 {
	for _, c := range b {
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		h = step(h, c)
	}
	return step(h, 0xff)
}

package smtpd

import (
	"hash/maphash"
	"sync"
	"time"
)

// maxGreyEntries bounds one generation of first contacts. The table holds two,
// at most about 80 MB, and drops the older one at once.
const maxGreyEntries = 1 << 20

// greylist remembers when a key was first seen. It is safe for concurrent
// use.
type greylist struct {
	seed              maphash.Seed // of the keys
	mu                sync.Mutex   // guards both maps
	current, previous map[uint64]int64
}

func newGreylist() *greylist { return &greylist{seed: maphash.MakeSeed(), current: map[uint64]int64{}} }

// passes reports whether key was first seen at least wait ago. The first contact
// never passes.
func (g *greylist) passes(key uint64, now time.Time, wait time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	first, known := g.current[key]
	if !known {
		first, known = g.previous[key]
	}
	if known {
		return now.UnixNano()-first >= int64(wait)
	}
	if len(g.current) >= maxGreyEntries {
		g.current, g.previous = map[uint64]int64{}, g.current
	}
	g.current[key] = now.UnixNano()
	return false
}

package prober

import (
	"sync"
	"time"
)

// slots are the connections that this node may have open over all lanes. A tenth of them bulk leaves to singles.
type slots struct {
	mu      sync.Mutex // guards what follows
	size    int
	used    int
	shut    time.Time               // since when no lane may take one (see Prober.SetAlone); zero: they may
	waiting [priorities]ring[*lane] // each lane at most once a priority
}

// take takes a slot, or remembers the lane to be kicked when there is one.
func (s *slots) take(l *lane, who priority) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used < s.room(who) {
		s.used++
		return true
	}
	if !l.waits[who] {
		l.waits[who] = true
		s.waiting[who].push(l)
	}
	return false
}

// free gives a slot back.
func (s *slots) free() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
}

// next is the lane whose turn it is to find a slot, singles first; nil when none waits or nothing is free.
func (s *slots) next() *lane {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, who := range [...]priority{single, short, bulk} {
		if s.waiting[who].n > 0 && s.used < s.room(who) {
			l := s.waiting[who].pop()
			l.waits[who] = false
			return l
		}
	}
	return nil
}

// room is how many slots a priority may fill.
func (s *slots) room(who priority) int {
	if !s.shut.IsZero() {
		return 0
	}
	if who.isBulk() {
		return s.size - s.size/10
	}
	return s.size
}

// scarce reports that idle sessions had better leave.
func (s *slots) scarce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 2*s.used > s.size
}

func (s *slots) inUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// close closes the slots, or opens them with the zero time.
func (s *slots) close(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = since
}

func (s *slots) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.shut.IsZero()
}

// closedFor reports that they have been closed for at least so long.
func (s *slots) closedFor(least time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.shut.IsZero() && now.Sub(s.shut) >= least
}

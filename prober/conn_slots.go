package prober

import (
	"sync"
	"time"

	"probity/prober/budget"
)

// connSlots counts the connections that this node may have open in all queues. Jobs leave a tenth of them to single calls.
type connSlots struct {
	mu          sync.Mutex // guards what follows
	size        int
	used        int
	closedSince time.Time                            // since when no queue may take one (see Prober.SetIsolated); zero: open
	waiting     [budget.NumClasses]ring[*readyQueue] // each queue at most once per priority
}

// acquire takes a slot, or adds the queue to those that wait for one.
func (s *connSlots) acquire(q *readyQueue, class budget.Class) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used < s.room(class) {
		s.used++
		return true
	}
	if !q.waitsForSlot[class] {
		q.waitsForSlot[class] = true
		s.waiting[class].push(q)
	}
	return false
}

// release returns a slot.
func (s *connSlots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
}

// nextWaiting removes the next queue that waits for a slot, single calls first; nil if none waits or no slot is free.
func (s *connSlots) nextWaiting() *readyQueue {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, class := range [...]budget.Class{budget.Single, budget.ShortJob, budget.LongJob} {
		if s.waiting[class].n > 0 && s.used < s.room(class) {
			q := s.waiting[class].pop()
			q.waitsForSlot[class] = false
			return q
		}
	}
	return nil
}

// room is how many slots a priority may use.
func (s *connSlots) room(class budget.Class) int {
	if !s.closedSince.IsZero() {
		return 0
	}
	if class.IsJob() {
		return s.size - s.size/10
	}
	return s.size
}

// scarce reports that more than half of the slots are used: idle sessions should close.
func (s *connSlots) scarce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 2*s.used > s.size
}

func (s *connSlots) inUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// close closes the slots; the zero time opens them.
func (s *connSlots) close(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closedSince = since
}

func (s *connSlots) closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closedSince.IsZero()
}

// closedFor reports that the slots have been closed for at least this long.
func (s *connSlots) closedFor(least time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closedSince.IsZero() && now.Sub(s.closedSince) >= least
}

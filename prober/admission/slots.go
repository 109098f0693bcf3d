package admission

import (
	"sync"
	"time"

	"probity/prober/budget"
)

// Slots counts the connections that a node may have open. Jobs leave a tenth of them to single calls.
type Slots struct {
	mu          sync.Mutex // guards what follows
	size        int
	used        int
	closedSince time.Time                       // since when none may be taken; zero: open
	waiting     [budget.NumPriorities][]*Waiter // oldest first; each at most once per priority
}

// NewSlots makes so many free slots.
func NewSlots(size int) *Slots { return &Slots{size: size} }

// Waiter takes slots and waits for them, in each priority at most once.
type Waiter struct {
	wake  func(now time.Time)
	waits [budget.NumPriorities]bool // guarded by the slots' mutex
}

// NewWaiter makes a waiter. wake is called without a lock when it waited and a slot is free; it may take it.
func NewWaiter(wake func(now time.Time)) Waiter { return Waiter{wake: wake} }

// Acquire takes a slot, or adds the waiter to those that wait for one.
func (s *Slots) Acquire(w *Waiter, priority budget.Priority) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.used < s.room(priority) {
		s.used++
		return true
	}
	if !w.waits[priority] {
		w.waits[priority] = true
		s.waiting[priority] = append(s.waiting[priority], w)
	}
	return false
}

// Release returns a slot. It reports whether others wait for one: WakeWaiting offers it to them.
func (s *Slots) Release() (awaited bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	return len(s.waiting[budget.Single])+len(s.waiting[budget.ShortJob])+len(s.waiting[budget.LongJob]) > 0
}

// WakeWaiting wakes those that wait, single calls first, until none waits or no slot is free.
func (s *Slots) WakeWaiting(now time.Time) {
	for w := s.nextWaiting(); w != nil; w = s.nextWaiting() {
		w.wake(now)
	}
}

// nextWaiting removes the next waiter that may take a slot; nil if there is none.
func (s *Slots) nextWaiting() *Waiter {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, priority := range [...]budget.Priority{budget.Single, budget.ShortJob, budget.LongJob} {
		if waiting := s.waiting[priority]; len(waiting) > 0 && s.used < s.room(priority) {
			w := waiting[0]
			waiting[0] = nil
			s.waiting[priority] = waiting[1:]
			w.waits[priority] = false
			return w
		}
	}
	return nil
}

// room returns how many slots a priority may use.
func (s *Slots) room(priority budget.Priority) int {
	if !s.closedSince.IsZero() {
		return 0
	}
	if priority.IsJob() {
		return s.size - s.size/10
	}
	return s.size
}

// Scarce reports whether more than half of the slots are used: idle sessions should close.
func (s *Slots) Scarce() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return 2*s.used > s.size
}

// InUse returns how many are taken.
func (s *Slots) InUse() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// Close closes the slots; the zero time opens them.
func (s *Slots) Close(since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closedSince = since
}

// Closed reports closed slots.
func (s *Slots) Closed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closedSince.IsZero()
}

// ClosedFor reports whether the slots have been closed for at least this long.
func (s *Slots) ClosedFor(least time.Duration, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closedSince.IsZero() && now.Sub(s.closedSince) >= least
}

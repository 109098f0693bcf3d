package rtt

import (
	"sync"
	"time"
)

// Estimate estimates how far hosts are: the least of many connections' fastest reply to a command of the greeting. A
// busy processor makes nearly all replies late, but hardly the fastest of many. The zero value has no samples.
type Estimate struct {
	least         time.Duration // of the n latest
	n             int
	previousLeast time.Duration // of the samples before those; 0 for none yet
}

const (
	highRoundTrip = 10 * time.Millisecond // of the fastest reply
	samples       = 32                    // latest connections that count, and as many before them
)

// Record counts a connection's round trip.
func (e *Estimate) Record(took time.Duration) {
	e.least = least(e.least, took)
	e.n++
	if e.n == samples {
		e.previousLeast, e.least, e.n = e.least, 0, 0
	}
}

// Known reports whether there are enough samples to tell.
func (e *Estimate) Known() bool { return e.previousLeast > 0 }

// IsHigh reports whether all recent connections had a high round-trip time; false until there are samples.
func (e *Estimate) IsHigh() bool {
	return e.previousLeast >= highRoundTrip && (e.n == 0 || e.least >= highRoundTrip)
}

// Shared is an estimate that goroutines share: that of a node over all hosts. It stands in for a queue that has too few
// samples.
type Shared struct {
	mu       sync.Mutex // guards estimate
	estimate Estimate
}

// IsHigh is that of the estimate.
func (s *Shared) IsHigh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.estimate.IsHigh()
}

// Record counts a connection's round trip.
func (s *Shared) Record(took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.estimate.Record(took)
}

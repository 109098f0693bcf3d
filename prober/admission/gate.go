package admission

import (
	linked "container/list"
	"context"
	runtimemetrics "runtime/metrics"
	"sync"
	"time"
)

// Gate bounds how many sessions connect or ask at one time to what the processor keeps up with. More sessions than that
// would only wait in Go's scheduler and delay all short work: a single call, a heartbeat. A session that waits here has
// reserved no recipients and keeps its connection. Sessions that wait for the reply of a high-latency host are not
// counted: they leave the gate meanwhile and reenter.
//
// The limit follows the number of runnable goroutines that do not run: a quarter down when they are many, a quarter up
// when they are few. Under load from single calls, one runnable goroutine is many: a processor that is always busy
// polls its sockets only every ten milliseconds. When that load begins, the limit drops to its minimum at once. The
// limit is adjusted when a session enters or leaves, and by a timer while one waits.
//
// The scheduler's count does not show what waits for the machine's processor or at a socket, but a timer that fires
// late does. So under load from single calls a timer runs all the time; after a late one, only one session per
// trickleEvery is admitted until a timer is on time again.
type Gate struct {
	runnable    func() int // runnable goroutines that do not run; one caller at a time
	procs       int
	maxLimit    int
	singleCalls *SingleCalls

	mu           sync.Mutex // guards what follows
	limit        int
	admitted     int
	waiting      linked.List // of *Ticket, at most one per session
	adjustedAt   time.Time
	dropToMin    bool        // the next decrease under load from single calls goes to the minimum at once
	lastAdmitted time.Time   // when a session was admitted last
	timer        *time.Timer // nil when not armed
	timerDue     time.Time   // when the timer should fire
	timerLate    bool        // the last timer fired late
}

// Ticket is a session's wait at the admission gate.
type Ticket struct {
	admitted chan struct{}   // closed on admission
	elem     *linked.Element // nil once admitted or withdrawn; guarded by the gate's mutex
}

const (
	adjustEvery    = 5 * time.Millisecond  // between two adjustments
	timerTolerance = 3 * time.Millisecond  // a timer is late beyond it; up to 1 ms is usual
	trickleEvery   = 20 * time.Millisecond // one session is admitted per this time, however late timers are
	// Per processor:
	initialLimit = 32 // sessions, before the first adjustment
	minLimit     = 2  // sessions, at any load
	manyRunnable = 8  // runnable goroutines
	fewRunnable  = 2
)

// NewGate makes a gate for at most so many sessions and a number of processors. runnable is RunnableGoroutines, but in
// tests.
func NewGate(most, procs int, runnable func() int, c *SingleCalls) *Gate {
	return &Gate{runnable: runnable, singleCalls: c, procs: procs, maxLimit: most, limit: min(initialLimit*procs, most)}
}

// RunnableGoroutines makes a function that reads from Go's scheduler how many goroutines are runnable and do not run.
func RunnableGoroutines() func() int {
	sample := []runtimemetrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	return func() int {
		runtimemetrics.Read(sample)
		if sample[0].Value.Kind() != runtimemetrics.KindUint64 {
			return 0
		}
		return int(sample[0].Value.Uint64())
	}
}

// Enter admits the caller at once and returns nil, or returns the admission to wait for.
func (gate *Gate) Enter() *Ticket {
	gate.mu.Lock()
	defer gate.mu.Unlock()
	now := time.Now()
	gate.adjust(now)
	if gate.hasRoom(now) {
		gate.admitted++
		gate.lastAdmitted = now
		gate.armTimer(now)
		return nil
	}
	t := &Ticket{admitted: make(chan struct{})}
	t.elem = gate.waiting.PushBack(t)
	gate.armTimer(now)
	return t
}

// hasRoom reports whether one more session may be admitted. The mutex is held.
func (gate *Gate) hasRoom(now time.Time) bool {
	return gate.admitted < gate.limit || gate.admitted == 0 && now.Sub(gate.lastAdmitted) >= trickleEvery
}

// Leave ends an admission and admits waiting sessions.
func (gate *Gate) Leave() {
	gate.mu.Lock()
	defer gate.mu.Unlock()
	gate.admitted--
	gate.admitWaiting(time.Now())
}

// Reenter undoes leave at once, even over the limit: a session finishes what it began before others begin.
func (gate *Gate) Reenter() {
	gate.mu.Lock()
	defer gate.mu.Unlock()
	gate.admitted++
}

// Wait returns on admission; false if ctx ended first.
func (gate *Gate) Wait(ctx context.Context, t *Ticket) bool {
	select {
	case <-t.admitted:
		return true
	case <-ctx.Done():
	}
	gate.mu.Lock()
	defer gate.mu.Unlock()
	if t.elem == nil {
		return true // admitted meanwhile
	}
	gate.waiting.Remove(t.elem)
	t.elem = nil
	return false
}

// Expedite admits a session before the others, even over the limit: a single call waits for it. False if it no longer
// waits.
func (gate *Gate) Expedite(t *Ticket) bool {
	gate.mu.Lock()
	defer gate.mu.Unlock()
	if t.elem == nil {
		return false
	}
	gate.admitOne(t, time.Now())
	return true
}

// admitOne admits a waiting session. The mutex is held.
func (gate *Gate) admitOne(t *Ticket, now time.Time) {
	gate.waiting.Remove(t.elem)
	t.elem = nil
	gate.admitted++
	gate.lastAdmitted = now
	close(t.admitted)
}

// admitWaiting adjusts the limit, and admits waiting sessions while there is room. The mutex is held.
func (gate *Gate) admitWaiting(now time.Time) {
	gate.adjust(now)
	for gate.waiting.Len() > 0 && gate.hasRoom(now) {
		gate.admitOne(gate.waiting.Front().Value.(*Ticket), now)
	}
	gate.armTimer(now)
}

// adjust adjusts the limit, at most once per adjustEvery. The mutex is held.
func (gate *Gate) adjust(now time.Time) {
	if now.Sub(gate.adjustedAt) < adjustEvery {
		return
	}
	gate.adjustedAt = now
	many, few, least := manyRunnable*gate.procs, fewRunnable*gate.procs, minLimit*gate.procs
	underLoad := gate.singleCalls.UnderLoad(now)
	gate.dropToMin = gate.dropToMin || !underLoad
	if underLoad {
		many, few, least = gate.procs-1, 1, 1
		if gate.timerLate {
			gate.limit = 0
			return
		}
	}
	switch n := gate.runnable(); {
	case n > many && underLoad && gate.dropToMin:
		gate.limit, gate.dropToMin = min(least, gate.maxLimit), false
	case n > many:
		gate.limit = max(min(gate.limit, gate.admitted)*3/4, min(least, gate.maxLimit))
	case n < few && gate.admitted >= gate.limit*3/4:
		gate.limit = min(gate.limit+gate.limit/4+1, gate.maxLimit)
	}
	gate.limit = max(gate.limit, min(least, gate.maxLimit)) // it may have been 0
}

// armTimer starts the timer while sessions wait, and under load from single calls to measure lateness. The mutex is
// held.
func (gate *Gate) armTimer(now time.Time) {
	if gate.timer != nil || gate.waiting.Len() == 0 && (gate.admitted == 0 || !gate.singleCalls.UnderLoad(now)) {
		return
	}
	gate.timerDue = now.Add(adjustEvery)
	gate.timer = time.AfterFunc(adjustEvery, gate.onTimer)
}

// onTimer runs when the timer fires.
func (gate *Gate) onTimer() {
	gate.mu.Lock()
	defer gate.mu.Unlock()
	now := time.Now()
	gate.timer, gate.timerLate = nil, now.Sub(gate.timerDue) > timerTolerance
	gate.admitWaiting(now)
}

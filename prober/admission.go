package prober

import (
	linked "container/list"
	"context"
	"runtime"
	runtimemetrics "runtime/metrics"
	"sync"
	"time"
)

// admissionGate bounds how many sessions connect or ask at one time to what the processor keeps up with. Where receivers are far,
// hundreds wait for replies and cost nothing; where they answer at once, each one more only stands in the scheduler's queue, and
// with it everything that is short to do: a single, a heartbeat. No budget is touched: a session that waits here has
// reserved nothing for what it will ask, and keeps its connection. What waits for a far host's reply is outside (round_trip.go).
//
// The bound follows the number of goroutines that are ready and do not run: down by a quarter when they are many, up by a
// quarter when they are few. Under load from single calls, one that waits for a processor is many: a processor that always has something
// to do looks at its sockets once in ten milliseconds. When load from single calls begins, many bring it to the least at once: by quarters
// it would take 60 ms. It is looked at when a session comes or goes, and by a timer only while one waits.
//
// What waits outside of our scheduler, for the machine's or at a socket, it does not count. But a timer that fires late tells of
// that too: what a timer waits for, a single waits for. So under load from single calls there is always a timer, and after one that was late
// only a trickle of sessions enters, until one is in time again.
type admissionGate struct {
	runnable    func() int // goroutines that are ready and do not run; for one caller at a time
	procs       int
	maxLimit    int
	singleCalls *singleCalls // of singles

	mu           sync.Mutex // guards what follows
	limit        int
	admitted     int
	waiting      linked.List // of *turn, at most one a session
	adjustedAt   time.Time
	dropToMin    bool        // the next time that the bound falls under load from single calls, it falls to the least
	lastAdmitted time.Time   // when somebody was let in last
	timer        *time.Timer // nil when not armed
	timerDue     time.Time   // the timer
	timerLate    bool        // it was, the last time
}

// admission is a session that waits at the admission gate.
type admission struct {
	admitted chan struct{}   // closed when it is let in
	elem     *linked.Element // nil when it was let in, or has gone; guarded by the gate's mutex
}

const (
	adjustEvery    = 5 * time.Millisecond  // between two looks
	timerTolerance = 3 * time.Millisecond  // of a timer; up to one is usual
	trickleEvery   = 20 * time.Millisecond // between two sessions, however late timers are
	// Of each processor:
	initialLimit = 32 // sessions, before anything is known
	minLimit     = 2  // sessions, at any load
	manyRunnable = 8  // goroutines that wait for it
	fewRunnable  = 2
)

func newAdmissionGate(most int, c *singleCalls) *admissionGate {
	procs := runtime.GOMAXPROCS(0)
	return &admissionGate{runnable: newRunnableCount(), singleCalls: c, procs: procs, maxLimit: most, limit: min(initialLimit*procs, most)}
}

// newRunnableCount reads the scheduler's own count.
func newRunnableCount() func() int {
	sample := []runtimemetrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	return func() int {
		runtimemetrics.Read(sample)
		if sample[0].Value.Kind() != runtimemetrics.KindUint64 {
			return 0
		}
		return int(sample[0].Value.Uint64())
	}
}

// enter lets the caller in at once, or gives the turn to wait for.
func (gate *admissionGate) enter() *admission {
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
	t := &admission{admitted: make(chan struct{})}
	t.elem = gate.waiting.PushBack(t)
	gate.armTimer(now)
	return t
}

// hasRoom reports that one more may be let in. The mutex is held.
func (gate *admissionGate) hasRoom(now time.Time) bool {
	return gate.admitted < gate.limit || gate.admitted == 0 && now.Sub(gate.lastAdmitted) >= trickleEvery
}

// leave makes room for the next.
func (gate *admissionGate) leave() {
	gate.mu.Lock()
	defer gate.mu.Unlock()
	gate.admitted--
	now := time.Now()
	gate.adjust(now)
	gate.admit(now)
}

// reenter is leave undone, at once and over the bound: who comes back finishes what was begun, before others begin.
func (gate *admissionGate) reenter() {
	gate.mu.Lock()
	defer gate.mu.Unlock()
	gate.admitted++
}

// wait returns when the turn has come; false when ctx ended first.
func (gate *admissionGate) wait(ctx context.Context, t *admission) bool {
	select {
	case <-t.admitted:
		return true
	case <-ctx.Done():
	}
	gate.mu.Lock()
	defer gate.mu.Unlock()
	if t.elem == nil {
		return true // just now
	}
	gate.waiting.Remove(t.elem)
	t.elem = nil
	return false
}

// expedite lets a turn in before the others and over the bound: a single waits for it. False when it was in already.
func (gate *admissionGate) expedite(t *admission) bool {
	gate.mu.Lock()
	defer gate.mu.Unlock()
	if t.elem == nil {
		return false
	}
	gate.admitOne(t, time.Now())
	return true
}

// admitOne lets a turn in that waits. The mutex is held.
func (gate *admissionGate) admitOne(t *admission, now time.Time) {
	gate.waiting.Remove(t.elem)
	t.elem = nil
	gate.admitted++
	gate.lastAdmitted = now
	close(t.admitted)
}

// admit lets in whom there is room for. The mutex is held.
func (gate *admissionGate) admit(now time.Time) {
	for gate.waiting.Len() > 0 && gate.hasRoom(now) {
		gate.admitOne(gate.waiting.Front().Value.(*admission), now)
	}
	gate.armTimer(now)
}

// adjust moves the bound, when the last look is not just now. The mutex is held.
func (gate *admissionGate) adjust(now time.Time) {
	if now.Sub(gate.adjustedAt) < adjustEvery {
		return
	}
	gate.adjustedAt = now
	many, few, least := manyRunnable*gate.procs, fewRunnable*gate.procs, minLimit*gate.procs
	underLoad := gate.singleCalls.underLoad(now)
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
	gate.limit = max(gate.limit, min(least, gate.maxLimit)) // it may have been none
}

// armTimer sees to it that waiting sessions are looked at when none comes or goes, and that lateness is known under load from single calls.
// The mutex is held.
func (gate *admissionGate) armTimer(now time.Time) {
	if gate.timer != nil || gate.waiting.Len() == 0 && (gate.admitted == 0 || !gate.singleCalls.underLoad(now)) {
		return
	}
	gate.timerDue = now.Add(adjustEvery)
	gate.timer = time.AfterFunc(adjustEvery, gate.onTimer)
}

// onTimer is the timer's call.
func (gate *admissionGate) onTimer() {
	gate.mu.Lock()
	defer gate.mu.Unlock()
	now := time.Now()
	gate.timer, gate.timerLate = nil, now.Sub(gate.timerDue) > timerTolerance
	gate.adjust(now)
	gate.admit(now)
}

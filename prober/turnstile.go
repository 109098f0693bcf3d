package prober

import (
	linked "container/list"
	"context"
	"runtime"
	runtimemetrics "runtime/metrics"
	"sync"
	"time"
)

// turnstile bounds how many sessions connect or ask at one time to what the processor keeps up with. Where receivers are far,
// hundreds wait for replies and cost nothing; where they answer at once, each one more only stands in the scheduler's queue, and
// with it everything that is short to do: a single, a heartbeat. No budget is touched: a session that waits here has
// reserved nothing for what it will ask, and keeps its connection. What waits for a far host's reply is outside (away.go).
//
// The bound follows the number of goroutines that are ready and do not run: down by a quarter when they are many, up by a
// quarter when they are few. While singles press, one that waits for a processor is many: a processor that always has something
// to do looks at its sockets once in ten milliseconds. When singles begin to press, many bring it to the least at once: by quarters
// it would take 60 ms. It is looked at when a session comes or goes, and by a timer only while one waits.
//
// What waits outside of our scheduler, for the machine's or at a socket, it does not count. But a timer that fires late tells of
// that too: what a timer waits for, a single waits for. So while singles press there is always a timer, and after one that was late
// only a trickle of sessions enters, until one is in time again.
type turnstile struct {
	ready func() int // goroutines that are ready and do not run; for one caller at a time
	procs int
	most  int
	calls *calls // of singles

	mu      sync.Mutex // guards what follows
	limit   int
	inside  int
	waiting linked.List // of *turn, at most one a session
	looked  time.Time
	sharp   bool        // the next time that the bound falls while singles press, it falls to the least
	let     time.Time   // when somebody was let in last
	timer   *time.Timer // nil when not armed
	due     time.Time   // the timer
	late    bool        // it was, the last time
}

// turn is a session that waits at the turnstile.
type turn struct {
	in chan struct{}   // closed when it is let in
	at *linked.Element // nil when it was let in, or has gone; guarded by the turnstile's mutex
}

const (
	lookEvery = 5 * time.Millisecond  // between two looks
	tooLate   = 3 * time.Millisecond  // of a timer; up to one is usual
	trickle   = 20 * time.Millisecond // between two sessions, however late timers are
	// Of each processor:
	firstInside = 32 // sessions, before anything is known
	leastInside = 2  // sessions, at any load
	manyReady   = 8  // goroutines that wait for it
	fewReady    = 2
)

func newTurnstile(most int, c *calls) *turnstile {
	procs := runtime.GOMAXPROCS(0)
	return &turnstile{ready: newReady(), calls: c, procs: procs, most: most, limit: min(firstInside*procs, most)}
}

// newReady reads the scheduler's own count.
func newReady() func() int {
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
func (ts *turnstile) enter() *turn {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now := time.Now()
	ts.look(now)
	if ts.roomy(now) {
		ts.inside++
		ts.let = now
		ts.arm(now)
		return nil
	}
	t := &turn{in: make(chan struct{})}
	t.at = ts.waiting.PushBack(t)
	ts.arm(now)
	return t
}

// roomy reports that one more may be let in. The mutex is held.
func (ts *turnstile) roomy(now time.Time) bool {
	return ts.inside < ts.limit || ts.inside == 0 && now.Sub(ts.let) >= trickle
}

// leave makes room for the next.
func (ts *turnstile) leave() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.inside--
	now := time.Now()
	ts.look(now)
	ts.admit(now)
}

// comeBack is leave undone, at once and over the bound: who comes back finishes what was begun, before others begin.
func (ts *turnstile) comeBack() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.inside++
}

// wait returns when the turn has come; false when ctx ended first.
func (ts *turnstile) wait(ctx context.Context, t *turn) bool {
	select {
	case <-t.in:
		return true
	case <-ctx.Done():
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.at == nil {
		return true // just now
	}
	ts.waiting.Remove(t.at)
	t.at = nil
	return false
}

// hurry lets a turn in before the others and over the bound: a single waits for it. False when it was in already.
func (ts *turnstile) hurry(t *turn) bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t.at == nil {
		return false
	}
	ts.admitOne(t, time.Now())
	return true
}

// admitOne lets a turn in that waits. The mutex is held.
func (ts *turnstile) admitOne(t *turn, now time.Time) {
	ts.waiting.Remove(t.at)
	t.at = nil
	ts.inside++
	ts.let = now
	close(t.in)
}

// admit lets in whom there is room for. The mutex is held.
func (ts *turnstile) admit(now time.Time) {
	for ts.waiting.Len() > 0 && ts.roomy(now) {
		ts.admitOne(ts.waiting.Front().Value.(*turn), now)
	}
	ts.arm(now)
}

// look moves the bound, when the last look is not just now. The mutex is held.
func (ts *turnstile) look(now time.Time) {
	if now.Sub(ts.looked) < lookEvery {
		return
	}
	ts.looked = now
	many, few, least := manyReady*ts.procs, fewReady*ts.procs, leastInside*ts.procs
	pressed := ts.calls.pressing(now)
	ts.sharp = ts.sharp || !pressed
	if pressed {
		many, few, least = ts.procs-1, 1, 1
		if ts.late {
			ts.limit = 0
			return
		}
	}
	switch n := ts.ready(); {
	case n > many && pressed && ts.sharp:
		ts.limit, ts.sharp = min(least, ts.most), false
	case n > many:
		ts.limit = max(min(ts.limit, ts.inside)*3/4, min(least, ts.most))
	case n < few && ts.inside >= ts.limit*3/4:
		ts.limit = min(ts.limit+ts.limit/4+1, ts.most)
	}
	ts.limit = max(ts.limit, min(least, ts.most)) // it may have been none
}

// arm sees to it that waiting sessions are looked at when none comes or goes, and that lateness is known while singles press.
// The mutex is held.
func (ts *turnstile) arm(now time.Time) {
	if ts.timer != nil || ts.waiting.Len() == 0 && (ts.inside == 0 || !ts.calls.pressing(now)) {
		return
	}
	ts.due = now.Add(lookEvery)
	ts.timer = time.AfterFunc(lookEvery, ts.tick)
}

// tick is the timer's call.
func (ts *turnstile) tick() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now := time.Now()
	ts.timer, ts.late = nil, now.Sub(ts.due) > tooLate
	ts.look(now)
	ts.admit(now)
}

package coordinator

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"probity/engine"
	"probity/prober/wire"
)

// The bounds of what is under way at the prober, over all jobs.
const (
	maxOpenRows = 128 << 10 // rows of chunks under way, answered or not: their memory
	maxAsked    = 64 << 10  // rows asked and not answered; of one class, no more than its budgets take meanwhile
	maxFlights  = 1024      // chunks under way
	narrowDepth = 2         // chunks under way of one route of a job: one is asked while the next is ready
	wideDepth   = 16        // of one provider that many sources ask, or of the tail
)

const classTail = "tail"

// desk decides which chunk goes out next: job by job, class by class, so that neither a long job nor a slow route
// keeps others waiting. It holds chunk records only; rows are read when a chunk goes.
type desk struct {
	wake chan struct{}

	mu      sync.Mutex // guards all below, and the queues of every live
	lives   []*live
	next    int
	open    int  // rows of chunks under way
	room    room // for those of them that are not answered
	turned  bool // nothing was sent for want of it
	idle    bool // no job had anything to send, though there was room
	flights int
}

// newDesk makes a desk that has at most so many rows asked that it sent lately.
func newDesk(lately int) *desk {
	return &desk{wake: make(chan struct{}, 1), room: room{lately: lately}}
}

// queue is the chunks of one class of one job.
type queue struct {
	class string
	ready []chunk
	rows  int       // of these
	out   int       // chunks under way
	sent  int       // their rows
	asked int       // those that are not answered
	held  wire.Held // of these, as probers told last: rows that no budget lets them ask
	depth int
	until time.Time // a prober said that the class's budget allows nothing before
	lined bool      // stands in the live's line
}

// due is a chunk, or a whole class, that waits for its time.
type due struct {
	at    time.Time
	chunk chunk
	queue *queue // set when the class waits
}

type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h dueHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(due)) }
func (h *dueHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// run sends chunks until ctx ends.
func (d *desk) run(ctx context.Context) {
	for ctx.Err() == nil {
		next, wait := d.pick(time.Now())
		if next.l != nil {
			next.l.send(next)
			continue
		}
		d.sleep(ctx, wait)
	}
}

func (d *desk) sleep(ctx context.Context, wait time.Duration) {
	if wait < 0 || wait > clockEvery { // whatever the clock does, or a lost word
		wait = clockEvery
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-d.wake:
	case <-t.C:
	case <-ctx.Done():
	}
}

func (d *desk) poke() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// picked is a chunk that may go, of a class of a job.
type picked struct {
	l *live // nil for none
	q *queue
	c chunk

	span int // of the room's, in which it goes
}

// pick takes the next chunk that may go, from the job whose turn it is; else how long until one may, -1 if unknown.
func (d *desk) pick(now time.Time) (picked, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.idle = false
	full, wait := d.room.full(now)
	if d.turned = full; full || d.open >= maxOpenRows || d.flights >= maxFlights {
		return picked{}, wait
	}
	for range d.lives {
		l := d.lives[d.next%len(d.lives)]
		d.next++
		l.ripen(now)
		if q := l.popLine(); q != nil {
			c := q.ready[0]
			q.ready = q.ready[1:]
			q.rows -= int(c.rows)
			q.sent += int(c.rows)
			q.asked += int(c.rows)
			q.out++
			l.enlist(q, now)
			l.paceOf(q.class, now)
			d.open += int(c.rows)
			d.flights++
			l.out.Add(1)
			return picked{l, q, c, d.room.send(int(c.rows), now)}, 0
		}
		l.hungry.Store(true)
		if len(l.dues) > 0 {
			if w := max(l.dues[0].at.Sub(now), time.Millisecond); wait < 0 || w < wait {
				wait = w
			}
		}
	}
	d.idle = true
	return picked{}, wait
}

// answered frees the room of rows of a chunk that a prober is done with.
func (d *desk) answered(f *flight, n int) {
	l, q := f.l, f.q
	d.mu.Lock()
	now := time.Now()
	d.room.answered(f.span, n)
	q.asked -= n
	full, _ := d.room.full(now)
	lined := q.lined
	l.enlist(q, now)
	wanted := d.turned && !full || !lined && q.lined
	d.mu.Unlock()
	if wanted {
		d.poke()
	}
}

// hold takes the prober's word on rows of a chunk that wait for a budget.
func (d *desk) hold(f *flight, held wire.Held) {
	d.mu.Lock()
	defer d.mu.Unlock()
	f.q.held.Rows += held.Rows - f.held.Rows
	if held.Rows > 0 {
		f.q.held.Until = held.Until
	}
	f.held = held
	f.l.enlist(f.q, time.Now())
	d.poke()
}

// landed frees the room of a chunk. Its class pauses for as long as the prober says.
func (d *desk) landed(f *flight) {
	l, q, left, until := f.l, f.q, f.unasked(), f.pause()
	d.mu.Lock()
	l.paceOf(q.class, time.Now()).answered += f.answered
	d.open -= int(f.chunk.rows)
	d.room.answered(f.span, left)
	d.flights--
	q.sent -= int(f.chunk.rows)
	q.asked -= left
	q.held.Rows -= f.held.Rows
	f.held = wire.Held{}
	q.out--
	now := time.Now()
	until = dueAt(until, longestWait(l.c.table.Load()), now)
	if q.depth == narrowDepth && until.After(now) && until.After(q.until) {
		q.until = until
		heap.Push(&l.dues, due{at: until, queue: q})
	}
	l.enlist(q, now)
	d.mu.Unlock()
	d.poke()
}

// add puts chunks of a job where they wait.
func (d *desk) add(l *live, chunks []chunk) {
	d.mu.Lock()
	now := time.Now()
	most := longestWait(l.c.table.Load())
	for _, c := range chunks {
		if c.notBefore = dueAt(c.notBefore, most, now); c.notBefore.After(now) {
			heap.Push(&l.dues, due{at: c.notBefore, chunk: c})
		} else {
			l.ready(c, now)
		}
	}
	l.hungry.Store(false)
	d.mu.Unlock()
	d.poke()
}

// longestWait is the longest that a row may have to wait: for a try after it was deferred, or for an hour's budget.
func longestWait(t *engine.Table) time.Duration {
	return max(time.Hour, slices.Max(append([]time.Duration{0}, t.Schedule...))) + time.Minute
}

// dueAt is a time with a monotonic reading: where the wall clock is set, what waits does not wait longer. A clock that was set
// while nothing ran shows as a wait longer than any.
func dueAt(at time.Time, most time.Duration, now time.Time) time.Time {
	if at.IsZero() {
		return at
	}
	return now.Add(min(at.Sub(now), most))
}

// enter and leave say which jobs have a place at the desk.
func (d *desk) enter(l *live) {
	d.mu.Lock()
	d.lives = append(d.lives, l)
	d.mu.Unlock()
	d.poke()
}

func (d *desk) leave(l *live) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.lives {
		if d.lives[i] == l {
			d.lives = append(d.lives[:i], d.lives[i+1:]...)
			return
		}
	}
}

// ripen moves what is due to its queue. The desk is locked.
func (l *live) ripen(now time.Time) {
	for len(l.dues) > 0 && !l.dues[0].at.After(now) {
		x := heap.Pop(&l.dues).(due)
		if x.queue != nil {
			l.enlist(x.queue, now)
		} else {
			l.ready(x.chunk, now)
		}
	}
}

// ready appends a chunk to its class. The desk is locked.
func (l *live) ready(c chunk, now time.Time) {
	q := l.queues[c.class]
	if q == nil {
		q = &queue{class: c.class, depth: narrowDepth}
		if c.class == classTail || l.shared(c.class) {
			q.depth = wideDepth
		}
		l.queues[c.class] = q
	}
	q.ready = append(q.ready, c)
	q.rows += int(c.rows)
	l.enlist(q, now)
}

// enlist puts a class in line if one of its chunks may go. The desk is locked.
func (l *live) enlist(q *queue, now time.Time) {
	if len(q.ready) == 0 && q.out == 0 && !q.lined && !q.until.After(now) {
		delete(l.queues, q.class)
	}
	if len(q.ready) == 0 || q.lined || q.out >= q.depth || q.until.After(now) {
		return
	}
	asked := q.asked
	if q.class == classTail {
		asked -= q.held.Rows // others of its routes have budgets of their own
	}
	if q.out > 0 && asked >= inHand*l.c.window(q.class) {
		return // more would only wait at the prober
	}
	q.lined = true
	l.line = append(l.line, q)
}

package prober

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
	"time"

	"probity/engine"
	"probity/prober/budget"
	"probity/prober/hostqueue"
	"probity/prober/wire"
	"probity/store/cache"
)

// retries holds the deferred single calls that wait for their next attempt, by key and by due time. At most max of
// them; what does not fit is not retried, and the next call is a first contact.
type retries struct {
	max     int
	changed chan struct{} // the earliest due time may have changed

	mu    sync.Mutex // guards what follows
	byKey map[cache.Key]*retry
	queue retryQueue
}

type retry struct {
	key       cache.Key
	ask       wire.SingleRequest
	attempts  int
	source    string
	due       time.Time
	verdict   engine.Verdict // what is answered meanwhile
	underWay  bool
	heapIndex int // in the queue; -1 when not there
}

func newRetries(limit int) *retries {
	return &retries{max: limit, changed: make(chan struct{}, 1), byKey: map[cache.Key]*retry{}}
}

// pending returns what is known of an address whose retry is planned or under way; nil when none is.
func (r *retries) pending(k cache.Key) (time.Time, *engine.Verdict) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e := r.byKey[k]; e != nil {
		return e.due, &e.verdict
	}
	return time.Time{}, nil
}

// settle records the outcome of a single call's probe: it is planned again if it was deferred, else its retry is
// dropped.
func (r *retries) settle(p *hostqueue.Probe, o *outcome) {
	if !o.deferred {
		r.forget(p.Key)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byKey[p.Key]
	if e == nil {
		if len(r.byKey) >= r.max {
			return
		}
		ask := wire.SingleRequest{Address: p.Ev.Address.Clone(), Flags: p.Ev.Flags, Route: p.Ev.Route,
			Batch: p.Priority == budget.ShortJob, Low: p.Priority == budget.LongJob}
		e = &retry{key: p.Key, ask: ask, heapIndex: -1}
		r.byKey[p.Key] = e
	}
	e.attempts = o.attempt
	e.source = o.source
	e.due = o.due
	e.verdict = o.verdict
	e.underWay = false
	if e.heapIndex < 0 {
		heap.Push(&r.queue, e)
	} else {
		heap.Fix(&r.queue, e.heapIndex)
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// forget drops the retry of an address.
func (r *retries) forget(k cache.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.byKey[k]
	if e == nil {
		return
	}
	delete(r.byKey, k)
	if e.heapIndex >= 0 {
		heap.Remove(&r.queue, e.heapIndex)
	}
}

// due takes the retries that are due now, and says when to look again.
func (r *retries) due(now time.Time) (ready []*retry, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.queue) > 0 {
		e := r.queue[0]
		if now.Before(e.due) {
			return ready, e.due.Sub(now)
		}
		heap.Pop(&r.queue)
		e.underWay = true
		ready = append(ready, e)
	}
	return ready, time.Hour
}

// retryLoop starts the retries that are due, until ctx ends. Those that wait then are forgotten: the next call is a
// first contact.
func (p *Prober) retryLoop(ctx context.Context) {
	t := time.NewTimer(time.Hour)
	defer t.Stop()
	for {
		now := time.Now()
		ready, wait := p.retries.due(now)
		for _, e := range ready {
			ask := e.ask
			ask.Egress = cmp.Or(e.source, ask.Egress)
			if o := p.startProbe(e.key, &ask, waiter{}, e.attempts, now); o != nil {
				p.retries.settle(&hostqueue.Probe{Key: e.key}, o)
			}
		}
		t.Reset(wait)
		select {
		case <-t.C:
		case <-p.retries.changed:
		case <-ctx.Done():
			return
		}
	}
}

// retryQueue is a heap by due time.
type retryQueue []*retry

func (q retryQueue) Len() int           { return len(q) }
func (q retryQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

func (q retryQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].heapIndex, q[j].heapIndex = i, j
}

// Push implements heap.Interface.
func (q *retryQueue) Push(x any) {
	e := x.(*retry)
	e.heapIndex = len(*q)
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *retryQueue) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	e.heapIndex = -1
	return e
}

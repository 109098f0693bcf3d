package readyqueue

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"probity/engine"
	"probity/prober/addresslimit"
	"probity/prober/admission"
	"probity/prober/budget"
	"probity/prober/conn"
	"probity/prober/hostqueue"
	"probity/prober/rtt"
	"probity/prober/source"
	"probity/store/cache"
)

// Env is what the ready queues of a node share. Its exported fields are set before the first queue is made.
type Env struct {
	Table   atomic.Pointer[engine.Table] // Queue.ApplyTable tells a queue that it has changed
	Cache   *cache.Cache
	Log     *slog.Logger
	Created time.Time // when the node's prober was made
	Opener  *conn.Opener
	Linger  time.Duration // how long an idle session waits for work

	MaxSessions      int // in all queues
	MaxQueueSessions int // of a queue whose receiver has no limit

	BudgetLog     *budget.Log
	AddressLimits *addresslimit.Registry
	Slots         *admission.Slots
	Gate          *admission.Gate
	SingleCalls   *admission.SingleCalls
	NodeRTT       rtt.Shared // over all hosts
	Metrics       Metrics

	// Start runs a function in a goroutine; false if the node does not run. When soft ends, nothing new should begin;
	// when hard ends, all must end.
	Start func(run func(soft, hard context.Context)) bool
	// Finish takes probes that have left their queue: see locked.unlock. No lock is held.
	Finish func(*Queue, []hostqueue.Finished, time.Time)
	// DropUnwanted withdraws the queue's probes that no caller waits for. No lock is held.
	DropUnwanted func(*Queue)
	Suspect      func(*source.Source) // a source could not connect: it may need reachability trials
	Blocklisted  func(*source.Source) // a source is quarantined everywhere from now on; no lock is held
	Delisted     func(*source.Source) // a source is no longer blocklisted; no lock is held

	connections atomic.Uint32 // ever made, to number them
	warned      sync.Once
}

// Metrics count what queues do. No label contains an address or a domain.
type Metrics struct {
	Connections, Transactions, Recipients, Replies, Decoys, AddressWaits prometheus.Counter

	Failures *prometheus.CounterVec // event
	Actions  *prometheus.CounterVec // action
	Sent     atomic.Uint64          // recipients, as in Recipients
}

// release passes on what is proven of what a session of a queue has found. No lock is held.
func (e *Env) release(q *Queue, unproven *hostqueue.Unproven) {
	for _, f := range unproven.Facts {
		if err := e.Cache.PutFact(f.Domain, f.Host, &f.Fact); err != nil {
			e.Log.Error("catch-all result not cached", "error", err)
		}
	}
	e.Finish(q, unproven.Finished, time.Now())
	clear(unproven.Finished)
	unproven.Finished, unproven.Facts = unproven.Finished[:0], unproven.Facts[:0]
}

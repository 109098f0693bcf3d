package readyqueue

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"time"

	"probity/engine"
	"probity/internal/ring"
	"probity/prober/admission"
	"probity/prober/budget"
	"probity/prober/conn"
	"probity/prober/hosthealth"
	"probity/prober/hostqueue"
	"probity/prober/rtt"
	"probity/prober/source"
	"probity/store/cache"
)

// Key names a ready queue: a route as asked from one source.
type Key struct{ Route, Source string }

// Queue holds the waiting probes, the connections and the budget of one route and source.
type Queue struct {
	Key      Key
	Provider *engine.Provider
	Source   *source.Source
	env      *Env
	hosts    []string         // of the first route that came
	slot     admission.Waiter // with it it waits for a connection slot

	mu              sync.Mutex // guards what follows
	budget          budget.Persisted
	unknownProvider bool // hosts of no known provider: address limits count too

	hostQueues           map[string]*hostQueue
	waiting              hostqueue.Set
	shared               sharedConnections
	ready                [budget.NumPriorities]ring.Ring[*hostQueue] // host queues that may need a session
	hostHealth           hosthealth.Hosts
	blocklisted          bool             // it is quarantined because a public blocklist names the source
	connectionTurns      budget.FairShare // of connections
	probes               int              // probes in queues, waiting for decoys, or being asked
	sessions             int
	working              []*session // those of them that have begun, in no order
	ended                uint32     // number of the last connection that EndSessions has ended
	idleCount            int        // sessions that wait for work
	waitingForConnection bool       // some host queue can get no connection: long sessions end
	singleWaiting        bool       // a single call waits for a connection of this queue
	latency              rtt.Hosts

	hold             budget.Hold
	blocked          []*hostQueue // whose address limit has no room
	timer            *time.Timer  // dispatches; nil when not armed
	timerAt          time.Time
	noSenderIdentity bool // no host here may be asked: see session.connect
	probingDisabled  bool // nor while the table says so: see ApplyTable
	removed          bool // out of the registry: look again

	lastAction cause // what last made it slower, for people
}

// New makes the ready queue of a route and a source under a provider table. Budgets per minute count as used up until quiet.
func New(env *Env, table *engine.Table, r *engine.Route, src *source.Source, quiet, now time.Time) *Queue {
	q := &Queue{Key: Key{r.Key, src.Name}, Provider: r.Provider, Source: src, env: env, hosts: r.Hosts, unknownProvider: r.Provider.ID == table.Unknown.ID,
		probingDisabled: conn.TableExcludes(table, r.Provider, r.Hosts)}
	if r.Provider.Limits.ConnectionsPerMinute > 0 || r.Provider.Limits.RecipientsPerMinute > 0 {
		q.hold.SendAt = quiet
	}
	q.shared.queue = q
	if !q.unknownProvider {
		q.shared.pools = map[netip.Addr]*addressPool{}
	}
	q.waiting = hostqueue.Set{Owner: owner{q}, Created: env.Created, AcceptsSilently: q.unknownProvider || r.Provider.AcceptsSilently,
		BlocksAsUnknown: q.unknownProvider || r.Provider.BlocksAsUnknown, Source: src.Name}
	wake := q.onWake
	q.slot = admission.NewWaiter(wake)
	// The name is stored: a budget that is not found counts as unused.
	q.budget = budget.NewPersisted("lane "+src.Name+" "+r.Key, budget.New(src.WarmUpLimits(r.Provider.Limits, now), env.SingleCalls, now), &q.mu, wake)
	if err := q.budget.Load(env.Cache, now); err != nil {
		env.logUnreadable(err)
	}
	if now.Before(q.budget.QuarantinedUntil) && r.Provider.Kind == engine.KindWide {
		src.QuarantineAt(r.Provider.ID, q.budget.QuarantinedUntil)
	}
	return q
}

// without takes a value out of a list in place; the others keep their order.
func without[T comparable](list []T, v T) []T {
	return slices.DeleteFunc(list, func(other T) bool { return other == v })
}

const (
	failureLife = 30 * time.Second // how long a host counts as down after a failure before RCPT
	// unconfirmedLife is how long a failure waits for a second one to confirm it: longer than any back-off between the two.
	unconfirmedLife = 2 * maxBackoff
	// minUnconfirmedLife is how long a failure lasts at any speed-up, in addition to the time of one more connection: were the first
	// forgotten before the second came, a host that refuses or is silent would be tried forever.
	minUnconfirmedLife = failureLife
	unresponsiveLife   = 10 * time.Minute
	minBackoff         = time.Second
	maxBackoff         = 5 * time.Minute
)

// scaled is how long a wait lasts under the current provider table.
func (q *Queue) scaled(d time.Duration) time.Duration { return q.env.Table.Load().Scaled(d) }

// advance moves a probe as far as it gets without asking a host. A probe that is finished is appended to out. The mutex is
// held.
func (q *Queue) advance(p *hostqueue.Probe, now time.Time, front bool, out []hostqueue.Finished) []hostqueue.Finished {
	p.Policy.NoSMTP = p.Policy.NoSMTP || q.noSenderIdentity || q.probingDisabled
	if p.Urgent() {
		p.Priority, p.Policy.CallerWaits = budget.Single, true
	}
	for {
		step := engine.Next(&p.Ev, p.Policy)
		switch step.Kind {
		case engine.StepAsk:
			down, isDown := q.hostHealth.Down(step.Host, now)
			switch {
			case p.Sends >= hostqueue.MaxSends:
				p.Ev.Append(engine.Sighting{Event: engine.EventInternal, Host: step.Host, At: now})
			case now.Before(q.budget.QuarantinedUntil) && !q.mayBeTrial(now), q.Source.AwaitingTrial(now):
				q.Source.RecordBlocked(p.Ev.Route, p.Ev.Address.Domain(), now)
				p.Ev.Append(engine.Sighting{Event: engine.EventSourceBlocked, Host: step.Host, At: now})
			case isDown:
				p.Ev.Append(down)
			default:
				q.domainOf(&p.Ev, step.Host).Enqueue(p, front)
				return out
			}
			continue
		case engine.StepDecoy:
			dq := q.domainOf(&p.Ev, step.Host)
			switch use := dq.UseDecoy(p, now); {
			case use == hostqueue.DecoyUsed:
			case q.quarantined(now):
				p.Ev.Append(engine.Sighting{Subject: engine.SubjectDecoy, Event: engine.EventSourceBlocked, Host: step.Host, At: now})
			case use == hostqueue.DecoyUnconfirmed:
				dq.LeaveUnconfirmed(p)
				return out
			default:
				dq.AwaitDecoy(p)
				return out
			}
			dq.RemoveIfEmpty()
			continue
		}
		q.probes--
		return append(out, hostqueue.Finished{Probe: p, Step: step})
	}
}

// Add adds probes. It returns false if the queue has left the registry.
func (q *Queue) Add(probes []*hostqueue.Probe, now time.Time) bool {
	q.mu.Lock()
	if q.removed {
		q.mu.Unlock()
		return false
	}
	var out []hostqueue.Finished
	for _, p := range probes {
		q.waiting.Adopt(p)
		q.probes++
		out = q.advance(p, now, false, out)
	}
	q.dispatch(now)
	q.mu.Unlock()
	q.env.Finish(q, out, now)
	return true
}

// RecordLongBacklog records that, as the coordinator says, rows for many hours of the queue's budget wait.
func (q *Queue) RecordLongBacklog(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.budget.Pacing.RecordLongBacklog(now)
}

// Promote moves a queued probe to a higher priority: a caller of that priority waits for it too.
func (q *Queue) Promote(p *hostqueue.Probe, priority budget.Priority, now time.Time) {
	q.mu.Lock()
	var out []hostqueue.Finished
	if p.Set() == &q.waiting && q.waiting.Promote(p, priority) {
		out = q.waiting.SettleOverdue(now, nil)
		q.dispatch(now)
	}
	q.mu.Unlock()
	q.env.Finish(q, out, now)
}

// Withdraw takes a probe without a caller out of its queue. It returns false if a session has it, or, without evenAnswered, if its target
// has answered and it waits for a decoy or a control: that is paid for, and its row comes again.
func (q *Queue) Withdraw(p *hostqueue.Probe, evenAnswered bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.Set() != &q.waiting || !q.waiting.Withdraw(p, evenAnswered) {
		return false
	}
	q.probes--
	return true
}

// drainQueues takes all probes out of the queues of a host queue, or of all host queues for nil, and advances each. The mutex
// is held.
func (q *Queue) drainQueues(hq *hostQueue, now time.Time, out []hostqueue.Finished) []hostqueue.Finished {
	var only *hostqueue.Host
	if hq != nil {
		only = &hq.Host
	}
	for _, p := range q.waiting.TakeQueued(only) {
		out = q.advance(p, now, false, out)
	}
	return out
}

// ApplyTable takes the limits of the current provider table. If the table disables probing here, every waiting probe goes on
// without SMTP, whatever table it came with. Replies to what is in flight still count, also to a decoy.
func (q *Queue) ApplyTable(now time.Time) {
	t := q.env.Table.Load()
	prov := cmp.Or(t.Provider(q.Provider.ID), t.Unknown)
	var out []hostqueue.Finished
	q.mu.Lock()
	q.budget.Limits = q.Source.WarmUpLimits(prov.Limits, now)
	q.probingDisabled = conn.TableExcludes(t, q.Provider, q.hosts)
	if q.probingDisabled {
		out = q.drain(now, nil)
	}
	q.dispatch(now)
	q.mu.Unlock()
	q.env.Finish(q, out, now)
}

// drain advances every waiting probe, except those whose decoy is in flight, drops the pending decoys, and closes the idle
// connections. The mutex is held.
func (q *Queue) drain(now time.Time, out []hostqueue.Finished) []hostqueue.Finished {
	out = q.drainQueues(nil, now, out)
	for _, hq := range q.hostQueues {
		hq.DropPendingDecoys()
		for len(hq.idle) > 0 {
			hq.idle[0].closing = true
			hq.idle[0].wakeIdle()
		}
	}
	return q.waiting.ReleaseWaiters(now, out)
}

// close takes the queue out of use. The mutex is held.
func (q *Queue) close() {
	q.removed = true
	if q.timer != nil {
		q.timer.Stop()
		q.timer = nil
	}
}

// BudgetAllowsAt is when the queue's budgets allow more to jobs of a priority, for rows that are returned unfinished. It is
// zero if no budget sets a time, and the rows may come again at once.
func (q *Queue) BudgetAllowsAt(priority budget.Priority, now time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	var due time.Time
	put := func(t time.Time) {
		if t.After(now) && t.After(due) {
			due = t
		}
	}
	if _, d := q.budget.Room(&budget.Conn{}, priority, now); d.Denied {
		put(d.Until)
	}
	if q.sessions > 0 {
		return due
	}
	put(q.hold.ConnectAllowedAt())
	put(q.budget.MayConnect(priority, now).Until)
	put(q.Source.BlockedUntil())
	// When the first address limit has room, if each that the queue waits for has a time.
	var roomAt time.Time
	for _, hq := range q.blocked {
		if !hq.untilKnown || hq.deniedPriority < priority {
			return due
		}
		if roomAt.IsZero() || hq.blockedUntil.Before(roomAt) {
			roomAt = hq.blockedUntil
		}
	}
	put(roomAt)
	return due
}

// ResumesAt is when a ready queue will ask again, if that is later than after wait. Zero otherwise.
func (q *Queue) ResumesAt(wait time.Duration, now time.Time) time.Time {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hold.SendAt.Sub(now) > wait {
		return q.hold.SendAt
	}
	return time.Time{}
}

// IsQueued reports a probe that no session has.
func (q *Queue) IsQueued(p *hostqueue.Probe) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return p.Queued()
}

// Unsent lists the probes that no session has.
func (q *Queue) Unsent() []*hostqueue.Probe {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.waiting.Unsent()
}

// CloseIdle settles what has waited too long. It takes the queue out of use if that is idle and its budgets are full; if there are many
// queues, also if its hourly budget is on disk. It returns false if the queue stays.
func (q *Queue) CloseIdle(crowded bool, now time.Time) bool {
	q.mu.Lock()
	overdue := q.waiting.SettleOverdue(now, nil)
	remembers := q.dropUnconfirmed(now) > 0 && !crowded
	unused := q.probes == 0 && q.sessions == 0 && q.budget.Open() == 0 && !q.budget.LeaseRequested()
	closes := unused && !remembers && now.After(q.hold.ConnectAllowedAt()) && (q.budget.Idle(now) || crowded && q.budget.MinuteBudgetsFull(now))
	if closes {
		q.close()
	}
	q.mu.Unlock()
	q.env.Finish(q, overdue, now)
	return closes
}

// Close takes the queue out of use and returns its budget without leases: none is used any more.
func (q *Queue) Close(now time.Time) cache.Budget {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.close()
	return q.budget.FinalState(now)
}

// RequestLease has the queue's budget written.
func (q *Queue) RequestLease() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.env.BudgetLog.RequestLease(&q.budget)
}

// AdvanceAll takes all probes out of the queue and moves them on: their source was quarantined.
func (q *Queue) AdvanceAll(now time.Time) {
	q.mu.Lock()
	out := q.drainQueues(nil, now, nil)
	q.mu.Unlock()
	q.env.Finish(q, out, now)
}

// SetUsedByOthers records what, as the coordinator says, other sources have used of the queue's budget, and until when that counts. A newer
// report replaces an older one. A narrow route has one source at a time in the whole cluster, and its hourly budget is the cluster's: when
// another source takes the route over, what the former ones have used is taken from its budget until it is an hour old.
func (q *Queue) SetUsedByOthers(used int, until time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.budget.UsedByOthers = budget.OthersUsage{Used: used, Until: until}
}

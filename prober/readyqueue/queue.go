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
	fixed
	slot admission.Waiter // with it it waits for a connection slot

	mu      sync.Mutex
	guarded locked // by mu: see lock
}

// fixed is what of a queue never changes; it needs no lock.
type fixed struct {
	Key             Key
	Provider        *engine.Provider
	Source          *source.Source
	env             *Env
	routeHosts      []string // of the first route that came
	unknownProvider bool     // hosts of no known provider: address limits count too
}

// lock locks the queue and returns what its mutex guards. Whatever has a *locked, as a receiver or parameter, runs with
// the mutex held.
func (q *Queue) lock() *locked {
	q.mu.Lock()
	return &q.guarded
}

// unlock unlocks the queue. The probes that have finished meanwhile go to Env.Finish, after the unlocking.
func (l *locked) unlock() {
	finished := l.finished
	l.finished = nil
	l.queue.mu.Unlock()
	if len(finished) > 0 {
		l.env.Finish(l.queue, finished, time.Now())
	}
}

// locked is what the mutex of a queue guards, with the hosts, pools and probes in it.
type locked struct {
	*fixed
	queue  *Queue
	budget budget.Persisted

	finished []hostqueue.Finished // since the queue was locked

	hosts                map[string]*mxHost
	waiting              hostqueue.Set
	shared               sharedConnections
	ready                [budget.NumPriorities]ring.Ring[*mxHost] // hosts that may need a session
	hostHealth           hosthealth.Hosts
	connectionTurns      budget.FairShare // of connections
	probes               int              // probes in queues, waiting for decoys, or being asked
	sessions             int
	working              []*session // those of them that have begun, in no order
	ended                uint32     // number of the last connection that EndSessions has ended
	idleCount            int        // sessions that wait for work
	waitingForConnection bool       // some host can get no connection: long sessions end
	singleWaiting        bool       // a single call waits for a connection of this queue
	latency              rtt.Hosts

	delay            budget.Delay
	denied           []*mxHost   // whose address limit has no room
	limitedAt        netip.Addr  // the address whose limit was asked for room last
	limitedUntil     time.Time   // it had none until then
	timer            *time.Timer // dispatches; nil when not armed
	timerAt          time.Time
	noSenderIdentity bool // no host here may be asked: see session.connect
	probingDisabled  bool // nor while the table says so: see ApplyTable
	removed          bool // out of the registry: look again

	lastAction cause // what last made it slower, for people
}

// New makes the ready queue of a route and a source under a provider table. Budgets per minute count as used up until
// quiet.
func New(env *Env, table *engine.Table, r *engine.Route, src *source.Source, quiet, now time.Time) *Queue {
	q := &Queue{fixed: fixed{Key: Key{r.Key, src.Name}, Provider: r.Provider, Source: src, env: env,
		routeHosts: r.Hosts, unknownProvider: r.Provider.ID == table.Unknown.ID}}
	wake := q.onWake
	q.slot = admission.NewWaiter(wake)
	l := q.lock()
	defer l.unlock()
	l.fixed, l.queue = &q.fixed, q
	l.probingDisabled = conn.TableExcludes(table, r.Provider, r.Hosts)
	if r.Provider.Limits.ConnectionsPerMinute > 0 || r.Provider.Limits.RecipientsPerMinute > 0 {
		l.delay.SendAt = quiet
	}
	l.shared.in = l
	if !q.unknownProvider {
		l.shared.pools = map[netip.Addr]*addressPool{}
	}
	l.waiting = hostqueue.Set{Owner: owner{l}, Created: env.Created, AcceptsSilently: q.unknownProvider ||
		r.Provider.AcceptsSilently,
		BlocksAsUnknown: q.unknownProvider || r.Provider.BlocksAsUnknown, Source: src.Name}
	// The name is stored: a budget that is not found counts as unused.
	limits := budget.New(src.WarmUpLimits(r.Provider.Limits, now), env.SingleCalls, now)
	l.budget = budget.NewPersisted("lane "+src.Name+" "+r.Key, limits, &q.mu, wake)
	if err := l.budget.Load(env.Cache, now); err != nil {
		budget.LogUnreadable(env.Log, err)
	}
	if l.budget.Blocklisted && src.DelistedSince(l.budget.WrittenAt()) {
		l.budget.QuarantinedUntil, l.budget.Blocklisted = time.Time{}, false
	}
	if l.budget.Blocklisted && now.Before(l.budget.QuarantinedUntil) {
		src.RestoreBlocklistReport(r.Key, l.budget.QuarantinedUntil)
	}
	if now.Before(l.budget.QuarantinedUntil) && r.Provider.Kind == engine.KindWide {
		src.QuarantineAt(r.Provider.ID, l.budget.QuarantinedUntil)
	}
	return q
}

// without takes a value out of a list in place; the others keep their order.
func without[T comparable](list []T, v T) []T {
	return slices.DeleteFunc(list, func(other T) bool { return other == v })
}

const (
	failureLife = 30 * time.Second // how long a host counts as down after a failure before RCPT
	// unconfirmedLife is how long a failure waits for a second one to confirm it: longer than any back-off between the
	// two.
	unconfirmedLife = 2 * maxBackoff
	// minUnconfirmedLife is how long a failure lasts at any speed-up, in addition to the time of one more connection:
	// were the first forgotten before the second came, a host that refuses or is silent would be tried forever.
	minUnconfirmedLife = failureLife
	unresponsiveLife   = 10 * time.Minute
	minBackoff         = time.Second
	maxBackoff         = 5 * time.Minute
)

// Scaled implements hostqueue.Owner: how long a wait lasts under the current provider table.
func (f *fixed) Scaled(d time.Duration) time.Duration { return f.env.Table.Load().Scaled(d) }

// Advance implements hostqueue.Owner: it moves a probe as far as it gets without asking a host.
func (l *locked) Advance(p *hostqueue.Probe, now time.Time, at hostqueue.Place) {
	p.Policy.NoSMTP = p.Policy.NoSMTP || l.noSenderIdentity || l.probingDisabled
	p.ApplyUrgency()
	for {
		step := engine.Next(&p.Ev, p.Policy)
		switch step.Kind {
		case engine.StepAsk:
			down, isDown := l.hostHealth.Down(step.Host, now)
			switch {
			case p.Sends >= hostqueue.MaxSends:
				p.Ev.Append(engine.Sighting{Event: engine.EventInternal, Host: step.Host, At: now})
			case l.blocked(now):
				l.Source.RecordBlocked(p.Ev.Route, p.Ev.Address.Domain(), now)
				p.Ev.Append(engine.Sighting{Event: engine.EventSourceBlocked, Host: step.Host, At: now})
			case isDown:
				p.Ev.Append(down)
			default:
				l.domainOf(&p.Ev, step.Host).Enqueue(p, at)
				return
			}
			continue
		case engine.StepDecoy:
			d := l.domainOf(&p.Ev, step.Host)
			switch {
			case d.UseDecoy(p, now):
			case l.quarantined(now):
				p.Ev.Append(engine.Sighting{Subject: engine.SubjectDecoy, Event: engine.EventSourceBlocked,
					Host: step.Host, At: now})
			default:
				d.AwaitDecoy(p, now)
				return
			}
			d.RemoveIfEmpty()
			continue
		}
		l.probes--
		l.finished = append(l.finished, hostqueue.Finished{Probe: p, Step: step})
		return
	}
}

// Add adds probes. It returns false if the queue has left the registry.
func (q *Queue) Add(probes []*hostqueue.Probe, now time.Time) bool {
	l := q.lock()
	defer l.unlock()
	if l.removed {
		return false
	}
	for _, p := range probes {
		l.waiting.Adopt(p)
		l.probes++
		l.Advance(p, now, hostqueue.Last)
	}
	l.dispatch(now)
	return true
}

// RecordLongBacklog records that, as the coordinator says, rows for many hours of the queue's budget wait.
func (q *Queue) RecordLongBacklog(now time.Time) {
	l := q.lock()
	defer l.unlock()
	l.budget.Pacing.RecordLongBacklog(now)
}

// Promote moves a queued probe to a higher priority: a caller of that priority waits for it too.
func (q *Queue) Promote(p *hostqueue.Probe, priority budget.Priority, now time.Time) {
	l := q.lock()
	defer l.unlock()
	if p.Set() == &l.waiting && l.waiting.Promote(p, priority) {
		l.waiting.SettleOverdue(now)
		l.dispatch(now)
	}
}

// Withdraw takes a probe without a caller out of its queue. It returns false if a session has it, or, without
// evenAnswered, if its target has answered and it waits for a decoy or a control: that is paid for, and its row comes
// again.
func (q *Queue) Withdraw(p *hostqueue.Probe, evenAnswered bool) bool {
	l := q.lock()
	defer l.unlock()
	if p.Set() != &l.waiting || !l.waiting.Withdraw(p, evenAnswered) {
		return false
	}
	l.probes--
	return true
}

// drainQueues takes all probes out of the queue of a host, or of all hosts for nil, and advances each.
func (l *locked) drainQueues(of *hostqueue.Queue, now time.Time) {
	for _, p := range l.waiting.TakeQueued(of) {
		l.Advance(p, now, hostqueue.Last)
	}
}

// ApplyTable takes the limits of the current provider table. If the table disables probing here, every waiting probe
// goes on without SMTP, whatever table it came with. Replies to what is in flight still count, also to a decoy.
func (q *Queue) ApplyTable(now time.Time) {
	t := q.env.Table.Load()
	prov := cmp.Or(t.Provider(q.Provider.ID), t.Unknown)
	l := q.lock()
	defer l.unlock()
	l.budget.Limits = q.Source.WarmUpLimits(prov.Limits, now)
	l.probingDisabled = conn.TableExcludes(t, q.Provider, q.routeHosts)
	if l.probingDisabled {
		l.drain(now)
	}
	l.dispatch(now)
}

// drain advances every waiting probe, except those whose decoy is in flight, drops the pending decoys, and closes the
// idle connections.
func (l *locked) drain(now time.Time) {
	l.drainQueues(nil, now)
	for _, m := range l.hosts {
		m.DropPendingDecoys()
		for len(m.idle) > 0 {
			m.idle[0].phase.close()
			m.idle[0].wakeIdle(l)
		}
	}
	l.waiting.ReleaseWaiters(now)
}

// close takes the queue out of use.
func (l *locked) close() {
	l.removed = true
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}

// BudgetAllowsAt returns the time at which the queue's budgets allow more to jobs of a priority, for rows that are
// returned unfinished. It is zero if no budget sets a time, and the rows may come again at once.
func (q *Queue) BudgetAllowsAt(priority budget.Priority, now time.Time) time.Time {
	l := q.lock()
	defer l.unlock()
	var due time.Time
	put := func(t time.Time) {
		if t.After(now) && t.After(due) {
			due = t
		}
	}
	if _, d := l.budget.Room(&budget.Conn{}, priority, now); d.Denied {
		put(d.Until)
	}
	if l.sessions > 0 {
		return due
	}
	put(l.delay.ConnectAllowedAt())
	put(l.budget.MayConnect(priority, now).Until)
	put(q.Source.BlockedUntil())
	// When the first address limit has room, if each that the queue waits for has a time.
	var roomAt time.Time
	for _, m := range l.denied {
		if !m.denial.untilKnown || m.denial.priority < priority {
			return due
		}
		if roomAt.IsZero() || m.denial.until.Before(roomAt) {
			roomAt = m.denial.until
		}
	}
	put(roomAt)
	return due
}

// ResumesAt returns the time at which a ready queue will ask again, if that is later than after wait. Zero otherwise.
func (q *Queue) ResumesAt(wait time.Duration, now time.Time) time.Time {
	l := q.lock()
	defer l.unlock()
	if l.delay.SendAt.Sub(now) > wait {
		return l.delay.SendAt
	}
	return time.Time{}
}

// IsQueued reports whether no session has p.
func (q *Queue) IsQueued(p *hostqueue.Probe) bool {
	l := q.lock()
	defer l.unlock()
	return p.Queued()
}

// Unsent lists the probes that no session has.
func (q *Queue) Unsent() []*hostqueue.Probe {
	l := q.lock()
	defer l.unlock()
	return l.waiting.Unsent(nil)
}

// CloseIdle settles what has waited too long. It takes the queue out of use if that is idle and its budgets, and those
// of its address, are full, and it knows no host that misleads; if there are many queues, also if its hourly budget is
// on disk. It returns false if the queue stays.
func (q *Queue) CloseIdle(crowded bool, now time.Time) bool {
	l := q.lock()
	defer l.unlock()
	l.waiting.SettleOverdue(now)
	remembers := (l.dropUnconfirmed(now) > 0 || l.hostHealth.DistrustsAny(now)) && !crowded
	unused := l.probes == 0 && l.sessions == 0 && l.budget.Open() == 0 && !l.budget.LeaseRequested()
	closes := unused && !remembers && now.After(l.delay.ConnectAllowedAt()) &&
		(l.budget.Idle(now) && !now.Before(l.limitedUntil) || crowded && l.budget.MinuteBudgetsFull(now))
	if closes {
		l.close()
	}
	return closes
}

// Close takes the queue out of use and returns its budget without leases: none is used any more.
func (q *Queue) Close(now time.Time) cache.Budget {
	l := q.lock()
	defer l.unlock()
	l.close()
	return l.budget.FinalState(now)
}

// RequestLease has the queue's budget written.
func (q *Queue) RequestLease() {
	l := q.lock()
	defer l.unlock()
	q.env.BudgetLog.RequestLease(&l.budget)
}

// AdvanceAll takes all probes out of the queue and moves them on: their source was quarantined.
func (q *Queue) AdvanceAll(now time.Time) {
	l := q.lock()
	defer l.unlock()
	l.drainQueues(nil, now)
}

// SetUsedByOthers records what, as the coordinator says, other sources have used of the queue's budget, and until when
// that counts. A newer report replaces an older one. A narrow route has one source at a time in the whole cluster, and
// its hourly budget is the cluster's: when another source takes the route over, what the former ones have used is taken
// from its budget until it is an hour old.
func (q *Queue) SetUsedByOthers(used int, until time.Time) {
	l := q.lock()
	defer l.unlock()
	l.budget.UsedByOthers = budget.OthersUsage{Used: used, Until: until}
}

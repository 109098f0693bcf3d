package prober

import (
	"net/netip"
	"time"

	"probity/engine"
)

// queueKey names a ready queue: a route as asked from one source.
type queueKey struct{ route, source string }

// readyQueue is the queue, the pool and the budget of one route and identity. Its budget's mutex guards all of it.
type readyQueue struct {
	persistedBudget
	prober          *Prober
	key             queueKey
	provider        *engine.Provider
	source          *source
	unknownProvider bool // hosts of no known provider: address limits count too

	hostQueues           map[string]*hostQueue
	domainQueues         map[domainQueueKey]*domainQueue
	pools                map[netip.Addr]*addressPool     // nil where hosts keep their connections apart
	lookupQueue          ring[*hostQueue]                // whose host is to be found
	resolvers            int                             // goroutines that look for those hosts
	sharedWaiters        ring[sharedWaiter]              // who left it to others to come, in the order of time
	ready                [numPriorities]ring[*hostQueue] // groups that may need a session
	down                 map[string]failure
	unconfirmedFailures  map[string]failedTries   // hosts that may have failed: see needsSecondFailure
	fastestReply         map[string]time.Duration // hosts, and how long a reply takes at best: see unstick
	answersSeen          uint64                   // answers, ever
	blocklisted          bool                     // it is quarantined for what a public blocklist says
	unresponsive         map[string]int           // hosts that took recipients and answered none, and how often in a row
	queued               [numPriorities]int       // probes in queues
	recipientTurns       fairShare                // of recipients between short and long jobs
	connectionTurns      fairShare                // of connections
	probes               int                      // probes in queues, waiting for decoys, or being asked
	sessions             int
	working              []*session // those of them that have begun, in no order
	idleCount            int        // sessions that wait for more
	waitingForConnection bool       // some host queue has no connection to be had: long sessions give way
	singleWaiting        bool       // and a single waits in it
	latency              latencyEstimate
	rtt                  rttEstimate

	notBefore        time.Time // nothing is sent before: a pause, or the minute after a restart
	tarpitPause      bool      // it is a pause that no reply asked for: those of a tarpit may close in it (tarpit.go)
	connectNotBefore time.Time // no connection is opened before: back-off
	backoff          time.Duration
	blocked          []*hostQueue // whose address limit has no room
	timer            *time.Timer  // dispatches; nil when not armed
	timerAt          time.Time
	hosts            []string // of the first route that came
	noSenderIdentity bool     // no host here may be asked: see session.stopUnidentified
	probingDisabled  bool     // nor while the table says so: see applyLimits
	removed          bool     // out of the registry: look again

	lastAction cause // what last made it slower, for people

	waitsForSlot [numPriorities]bool // in the ring of the slots of that priority; guarded by the slots' mutex
}

// set puts into a map that is made by its first entry: of 50,000 queues, few remember anything of that kind.
func set[K comparable, V any](m *map[K]V, key K, value V) {
	if *m == nil {
		*m = map[K]V{}
	}
	(*m)[key] = value
}

// failure is what a session with a host met before any recipient was named, and until when that is believed.
type failure struct {
	sighting engine.Sighting
	until    time.Time
}

// failedTries are connections to a host that failed, when the first was begun and when the last one failed.
type failedTries struct {
	tries                  int
	firstBegan, lastFailed time.Time
}

const (
	failureLife = 30 * time.Second
	// unconfirmedLife is how long a failure waits to be proved by another: longer than any back-off between the two.
	unconfirmedLife = 2 * maxBackoff
	// minUnconfirmedLife is what a failure lasts at any speed-up, next to the time of one more connection: were the first failure
	// forgotten before the second came, a host that refuses or is silent would be tried for ever.
	minUnconfirmedLife = failureLife
	maxUnresponsive    = 3
	unresponsiveLife   = 10 * time.Minute
	maxDown            = 1000 // hosts of one ready queue remembered as down
	minBackoff         = time.Second
	maxBackoff         = 5 * time.Minute
)

func newReadyQueue(p *Prober, k queueKey, provider *engine.Provider, src *source, now time.Time) *readyQueue {
	q := &readyQueue{
		prober: p, key: k, provider: provider, source: src, notBefore: p.quietUntil(provider.Limits)}
	table := p.table.Load()
	if q.unknownProvider = provider.ID == table.Unknown.ID; !q.unknownProvider {
		q.pools = map[netip.Addr]*addressPool{}
	}
	q.persistedBudget = persistedBudget{name: "lane " + k.source + " " + k.route, budget: newBudget(src.warmUpLimits(provider.Limits, now), now), onLease: q.onWake}
	q.budget.singleCalls = &p.singleCalls
	return q
}

// scaled is how long a wait lasts under the present table.
func (q *readyQueue) scaled(d time.Duration) time.Duration { return q.prober.table.Load().Scaled(d) }

// finishedProbe is a probe that leaves its queue, and why.
type finishedProbe struct {
	probe *probe
	step  engine.Step
}

// advance takes a probe as far as it goes without asking anyone. When it is over, it is appended to out. The mutex is held.
func (q *readyQueue) advance(p *probe, now time.Time, front bool, out []finishedProbe) []finishedProbe {
	p.policy.NoSMTP = p.policy.NoSMTP || q.noSenderIdentity || q.probingDisabled
	if p.urgent.Load() {
		p.priority, p.policy.CallerWaits = single, true
	}
	for {
		step := engine.Next(&p.ev, p.policy, now)
		switch step.Kind {
		case engine.StepAsk:
			if s, ok := q.skipSighting(p, step.Host, now); ok {
				p.ev.Append(s)
				continue
			}
			q.enqueue(p, q.domainQueueOf(&p.ev, step.Host), front)
			return out
		case engine.StepDecoy:
			dq := q.domainQueueOf(&p.ev, step.Host)
			dq.loadFact(p)
			known := dq.decoy.usableFor(targetMeaning(&p.ev), q.prober.firstWait(p), now)
			switch {
			case known && q.isConfirmed(p, dq, now):
				p.ev.Append(dq.decoy.sighting)
			case q.quarantined(now):
				p.ev.Append(engine.Sighting{Subject: engine.SubjectDecoy, Event: engine.EventSourceBlocked, Host: step.Host, At: now})
			case known:
				q.leaveUnconfirmed(p, dq)
				return out
			default:
				q.awaitDecoy(p, dq)
				return out
			}
			q.removeIfEmpty(dq)
			continue
		}
		q.probes--
		return append(out, finishedProbe{probe: p, step: step})
	}
}

// skipSighting is why a host will not be asked now.
func (q *readyQueue) skipSighting(p *probe, host string, now time.Time) (engine.Sighting, bool) {
	switch {
	case p.sends >= maxSends:
		return engine.Sighting{Event: engine.EventInternal, Host: host, At: now}, true
	case now.Before(q.budget.quarantinedUntil) && !q.mayBeTrial(now), q.source.awaitingTrial(now):
		q.source.recordBlocked(p.ev.Route, p.ev.Address.Domain(), now)
		return engine.Sighting{Event: engine.EventSourceBlocked, Host: host, At: now}, true
	}
	f, ok := q.down[host]
	if ok && !now.Before(f.until) {
		delete(q.down, host)
		ok = false
	}
	return f.sighting, ok
}

// targetMeaning is what the last reply to the target meant.
func targetMeaning(ev *engine.Evidence) engine.Meaning {
	for i := len(ev.Seen) - 1; i >= 0; i-- {
		if s := &ev.Seen[i]; s.Subject == engine.SubjectTarget && s.Event == engine.EventReply {
			return s.Finding.Meaning
		}
	}
	return engine.MeaningUnknown
}

// add takes probes in. It reports false when the queue has left the registry.
func (q *readyQueue) add(probes []*probe, now time.Time) bool {
	q.mu.Lock()
	if q.removed {
		q.mu.Unlock()
		return false
	}
	var out []finishedProbe
	for _, p := range probes {
		p.queue.Store(q)
		q.probes++
		out = q.advance(p, now, false, out)
	}
	q.dispatch(now)
	q.mu.Unlock()
	q.prober.finish(q, out, now)
	return true
}

// noteLongBacklog takes the coordinator's word that rows for many hours of the queue's budget wait.
func (q *readyQueue) noteLongBacklog(now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.budget.pacing.until = now.Add(longBacklogLife)
}

// noteShortJob has the long jobs' pacing heed short ones that wait. The mutex is held.
func (q *readyQueue) noteShortJob(now time.Time) {
	if q.queued[short] > 0 {
		q.budget.pacing.recordShortJob(now)
	}
}

// promote moves a queued probe to those of a higher priority: one of them waits for it too.
func (q *readyQueue) promote(p *probe, class priority, now time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.queue.Load() != q || p.priority >= class || p.inList == nil {
		return
	}
	dq := p.domainQueue
	if p.inList == &dq.decoy.waiting {
		p.priority = class
		q.expediteDecoy(dq, class)
	} else {
		q.dequeue(p)
		p.priority = class
		q.enqueue(p, dq, false)
	}
	q.dispatch(now)
}

// withdraw takes a probe that no caller waits for any more out of its queue; false when a session has it, or when its target has
// answered and it waits for a decoy or a refusal: it was paid for, and its row comes again. With paid it goes all the same.
func (q *readyQueue) withdraw(p *probe, evenAnswered bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if p.queue.Load() != q || p.inList == nil || p.inList == &p.domainQueue.decoy.waiting && !evenAnswered {
		return false
	}
	q.dequeue(p)
	q.probes--
	q.removeIfEmpty(p.domainQueue)
	return true
}

// drainQueues takes all probes out of the queues of a host queue, or of all host queues for nil, and moves each on. The mutex is held.
func (q *readyQueue) drainQueues(hq *hostQueue, now time.Time, out []finishedProbe) []finishedProbe {
	var all []*probe
	for _, dq := range q.domainQueues {
		if hq != nil && dq.hostQueue != hq {
			continue
		}
		for _, class := range [...]priority{single, short, bulk} {
			for list := &dq.queues[class]; list.n > 0; {
				p := list.first
				q.dequeue(p)
				all = append(all, p)
			}
		}
	}
	for _, other := range q.hostQueues {
		for (hq == nil || hq == other) && other.retryFirst.n > 0 {
			p := other.retryFirst.first
			q.dequeue(p)
			all = append(all, p)
		}
	}
	for _, p := range all {
		out = q.advance(p, now, false, out)
	}
	return out
}

// applyLimits takes the limits of the table in force. If the table says that no host here is to be asked, all waiting probes, for a
// decoy too, go on without, whatever table they came with. What is being asked right now is heard, a decoy as well.
func (q *readyQueue) applyLimits(now time.Time) {
	t := q.prober.table.Load()
	prov := t.Unknown
	if q := t.Provider(q.provider.ID); q != nil {
		prov = q
	}
	var out []finishedProbe
	q.mu.Lock()
	q.budget.limits = q.source.warmUpLimits(prov.Limits, now)
	q.budget.lease.needed = q.budget.limits.RefusalsPerHour > 0
	if q.probingDisabled = q.prober.probingDisabled(q.provider, q.hosts); q.probingDisabled {
		out = q.drain(now, nil)
	}
	q.dispatch(now)
	q.mu.Unlock()
	q.prober.finish(q, out, now)
}

// drain moves on all probes that wait in the queue, for a decoy too unless it is being asked right now, drops the decoys that were to
// be asked, and hangs up where nothing is under way. The mutex is held.
func (q *readyQueue) drain(now time.Time, out []finishedProbe) []finishedProbe {
	out = q.drainQueues(nil, now, out)
	for _, hq := range q.hostQueues {
		hq.dropPendingDecoys()
		for len(hq.idle) > 0 {
			q.closeIdle(hq.idle[0])
		}
	}
	for _, dq := range q.domainQueues {
		if dq.decoy.state != decoyAsking {
			out = q.releaseWaiters(dq, now, out)
		}
		q.removeIfEmpty(dq)
	}
	return out
}

// releaseWaiters moves on all probes that wait for a decoy that will not be asked. The mutex is held.
func (q *readyQueue) releaseWaiters(dq *domainQueue, now time.Time, out []finishedProbe) []finishedProbe {
	d := &dq.decoy
	d.tries, d.unresolvedTries, d.asked = 0, 0, 0
	for n := d.waiting.n; n > 0; n-- {
		out = q.advance(d.waiting.pop(), now, false, out)
	}
	return out
}

// connectDisabled reports a ready queue in which no connection is opened for anybody now. The mutex is held.
func (q *readyQueue) connectDisabled(now time.Time) bool {
	return q.probingDisabled || q.noSenderIdentity || q.quarantined(now)
}

// quarantined reports a ready queue whose receiver wants nothing of this source for a time. Of a source that is quarantined everywhere the trial connection is
// the word: see begin.
func (q *readyQueue) quarantined(now time.Time) bool {
	return now.Before(q.budget.quarantinedUntil) && !(q.blocklisted && q.source.quarantined(now))
}

// idle reports a ready queue that holds nothing but its budgets. The mutex is held.
func (q *readyQueue) idle() bool {
	return q.probes == 0 && q.sessions == 0 && q.budget.openConns == 0 && !q.leaseRequested
}

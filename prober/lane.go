package prober

import (
	"net/netip"
	"time"

	"probity/engine"
)

// laneKey names a lane: a route as asked from one identity.
type laneKey struct{ route, egress string }

// lane is the queue, the pool and the pace of one route and identity. Its account's mutex guards all of it.
type lane struct {
	account
	prober   *Prober
	key      laneKey
	provider *engine.Provider
	egress   *egress
	shared   bool // hosts of no known provider: destinations count too

	groups   map[string]*group
	places   map[placeKey]*place
	sites    map[netip.Addr]*site     // nil where hosts keep their connections apart
	sought   ring[*group]             // whose host is to be found
	finders  int                      // goroutines that look for those hosts
	joined   ring[joined]             // who left it to others to come, in the order of time
	ready    [priorities]ring[*group] // groups that may need a session
	down     map[string]failure
	unproven map[string]refusals      // hosts that may have failed: see confirms
	quick    map[string]time.Duration // hosts, and how long a reply takes at best: see unstick
	heard    uint64                   // answers, ever
	listed   bool                     // it rests for what a public blocklist says
	mute     map[string]int           // hosts that took recipients and answered none, and how often in a row
	queued   [priorities]int          // probes in queues
	served   turns                    // of recipients between short and long jobs
	opened   turns                    // of connections
	held     int                      // probes in queues, waiting for decoys, or being asked
	sessions int
	working  []*session // those of them that have begun, in no order
	idlers   int        // sessions that wait for more
	starved  bool       // some group has no connection to be had: long sessions give way
	hungry   bool       // and a single waits in it
	far      distance
	echoes   echoes

	notBefore time.Time // nothing is sent before: a pause, or the minute after a restart
	stuck     bool      // it is a pause that no reply asked for: those of a tarpit may take leave in it (sticky.go)
	noConnect time.Time // no connection is opened before: back-off
	backoff   time.Duration
	blocked   []*group    // whose destination has no room
	timer     *time.Timer // kicks the lane; nil when not armed
	timerAt   time.Time
	hosts     []string // of the first route that came
	barred    bool     // no host here may be asked: see session.bar
	off       bool     // nor while the table says so: see heedTable
	dead      bool     // out of the registry: look again

	heeded cause // what last made it slower, for people

	waits [priorities]bool // in the ring of the slots of that priority; guarded by the slots' mutex
}

// set puts into a map that is made by its first entry: of 50,000 lanes, few remember anything of that kind.
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

// refusals are connections to a host that failed, when the first was begun and when the last one failed.
type refusals struct {
	tries     int
	began, at time.Time
}

const (
	failureLife = 30 * time.Second
	// unprovenLife is how long a failure waits to be proved by another: longer than any back-off between the two.
	unprovenLife = 2 * maxBackoff
	// unprovenLeast is what a failure lasts at any speed-up, next to the time of one more connection: were the first failure
	// forgotten before the second came, a host that refuses or is silent would be tried for ever.
	unprovenLeast = failureLife
	maxMute       = 3
	muteLife      = 10 * time.Minute
	maxDown       = 1000 // hosts of one lane remembered as down
	minBackoff    = time.Second
	maxBackoff    = 5 * time.Minute
)

func newLane(p *Prober, k laneKey, provider *engine.Provider, e *egress, now time.Time) *lane {
	l := &lane{
		prober: p, key: k, provider: provider, egress: e, notBefore: p.quietUntil(provider.Limits)}
	table := p.table.Load()
	if l.shared = provider.ID == table.Unknown.ID; !l.shared {
		l.sites = map[netip.Addr]*site{}
	}
	l.account = account{name: "lane " + k.egress + " " + k.route, pace: newPace(e.scaled(provider.Limits, now), now), wake: l.kicked}
	l.pace.calls = &p.calls
	return l
}

// scaled is how long a wait lasts under the present table.
func (l *lane) scaled(d time.Duration) time.Duration { return l.prober.table.Load().Scaled(d) }

// ended is a probe that leaves its lane, and why.
type ended struct {
	p    *probe
	step engine.Step
}

// move takes a probe as far as it goes without asking anyone. When it is over, it is appended to out. The mutex is held.
func (l *lane) move(p *probe, now time.Time, front bool, out []ended) []ended {
	p.policy.NoSMTP = p.policy.NoSMTP || l.barred || l.off
	if p.urgent.Load() {
		p.who, p.policy.Hasty = single, true
	}
	for {
		step := engine.Next(&p.ev, p.policy, now)
		switch step.Kind {
		case engine.StepAsk:
			if s, ok := l.refusal(p, step.Host, now); ok {
				p.ev.Append(s)
				continue
			}
			l.enqueue(p, l.placeOf(&p.ev, step.Host), front)
			return out
		case engine.StepDecoy:
			pl := l.placeOf(&p.ev, step.Host)
			pl.recall(p)
			known := pl.decoy.answers(meaningOf(&p.ev), l.prober.firstWait(p), now)
			switch {
			case known && l.believes(p, pl, now):
				p.ev.Append(pl.decoy.sighting)
			case l.sentAway(now):
				p.ev.Append(engine.Sighting{Subject: engine.SubjectDecoy, Event: engine.EventSourceBlocked, Host: step.Host, At: now})
			case known:
				l.doubt(p, pl)
				return out
			default:
				l.awaitDecoy(p, pl)
				return out
			}
			l.tidy(pl)
			continue
		}
		l.held--
		return append(out, ended{p: p, step: step})
	}
}

// refusal is why a host will not be asked now.
func (l *lane) refusal(p *probe, host string, now time.Time) (engine.Sighting, bool) {
	switch {
	case p.asked >= maxAsked:
		return engine.Sighting{Event: engine.EventInternal, Host: host, At: now}, true
	case now.Before(l.pace.rest) && !l.mayBeCanary(now), l.egress.resting(now):
		l.egress.missed(p.ev.Route, p.ev.Address.Domain(), now)
		return engine.Sighting{Event: engine.EventSourceBlocked, Host: host, At: now}, true
	}
	f, ok := l.down[host]
	if ok && !now.Before(f.until) {
		delete(l.down, host)
		ok = false
	}
	return f.sighting, ok
}

// meaningOf is what the last reply to the target meant.
func meaningOf(ev *engine.Evidence) engine.Meaning {
	for i := len(ev.Seen) - 1; i >= 0; i-- {
		if s := &ev.Seen[i]; s.Subject == engine.SubjectTarget && s.Event == engine.EventReply {
			return s.Finding.Meaning
		}
	}
	return engine.MeaningUnknown
}

// add takes probes in. It reports false when the lane has left the registry.
func (l *lane) add(probes []*probe, now time.Time) bool {
	l.mu.Lock()
	if l.dead {
		l.mu.Unlock()
		return false
	}
	var out []ended
	for _, p := range probes {
		p.lane.Store(l)
		l.held++
		out = l.move(p, now, false, out)
	}
	l.kick(now)
	l.mu.Unlock()
	l.prober.finish(l, out, now)
	return true
}

// steady takes the coordinator's word that rows for many hours of the lane's budget wait.
func (l *lane) steady(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pace.even.until = now.Add(steadyFor)
}

// heedShort has the long jobs' pace heed short ones that wait. The mutex is held.
func (l *lane) heedShort(now time.Time) {
	if l.queued[short] > 0 {
		l.pace.even.short(now)
	}
}

// promote moves a queued probe to those of a higher priority: one of them waits for it too.
func (l *lane) promote(p *probe, who priority, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.lane.Load() != l || p.who >= who || p.in == nil {
		return
	}
	pl := p.place
	if p.in == &pl.decoy.waiting {
		p.who = who
		l.hastenDecoy(pl, who)
	} else {
		l.dequeue(p)
		p.who = who
		l.enqueue(p, pl, false)
	}
	l.kick(now)
}

// withdraw takes a probe that no caller waits for any more out of its queue; false when a session has it, or when its target has
// answered and it waits for a decoy or a refusal: it was paid for, and its row comes again. With paid it goes all the same.
func (l *lane) withdraw(p *probe, paid bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.lane.Load() != l || p.in == nil || p.in == &p.place.decoy.waiting && !paid {
		return false
	}
	l.dequeue(p)
	l.held--
	l.tidy(p.place)
	return true
}

// emptyOut takes all probes out of the queues of a group, or of all groups for nil, and moves each on. The mutex is held.
func (l *lane) emptyOut(g *group, now time.Time, out []ended) []ended {
	var all []*probe
	for _, pl := range l.places {
		if g != nil && pl.group != g {
			continue
		}
		for _, who := range [...]priority{single, short, bulk} {
			for q := &pl.queues[who]; q.n > 0; {
				p := q.first
				l.dequeue(p)
				all = append(all, p)
			}
		}
	}
	for _, other := range l.groups {
		for (g == nil || g == other) && other.again.n > 0 {
			p := other.again.first
			l.dequeue(p)
			all = append(all, p)
		}
	}
	for _, p := range all {
		out = l.move(p, now, false, out)
	}
	return out
}

// heedTable takes the limits of the table in force. If the table says that no host here is to be asked, all waiting probes, for a
// decoy too, go on without, whatever table they came with. What is being asked right now is heard, a decoy as well.
func (l *lane) heedTable(now time.Time) {
	t := l.prober.table.Load()
	prov := t.Unknown
	if q := t.Provider(l.provider.ID); q != nil {
		prov = q
	}
	var out []ended
	l.mu.Lock()
	l.pace.limits = l.egress.scaled(prov.Limits, now)
	l.pace.lease.needed = l.pace.limits.RefusalsPerHour > 0
	if l.off = l.prober.off(l.provider, l.hosts); l.off {
		out = l.leave(now, nil)
	}
	l.kick(now)
	l.mu.Unlock()
	l.prober.finish(l, out, now)
}

// leave moves on all probes that wait in the lane, for a decoy too unless it is being asked right now, drops the decoys that were to
// be asked, and hangs up where nothing is under way. The mutex is held.
func (l *lane) leave(now time.Time, out []ended) []ended {
	out = l.emptyOut(nil, now, out)
	for _, g := range l.groups {
		g.unwant()
		for len(g.idle) > 0 {
			l.dismiss(g.idle[0])
		}
	}
	for _, pl := range l.places {
		if pl.decoy.state != decoyAsking {
			out = l.moveOn(pl, now, out)
		}
		l.tidy(pl)
	}
	return out
}

// moveOn moves on all probes that wait for a decoy that will not be asked. The mutex is held.
func (l *lane) moveOn(pl *place, now time.Time, out []ended) []ended {
	d := &pl.decoy
	d.tries, d.nameless, d.asked = 0, 0, 0
	for n := d.waiting.n; n > 0; n-- {
		out = l.move(d.waiting.pop(), now, false, out)
	}
	return out
}

// shut reports a lane in which no connection is opened for anybody now. The mutex is held.
func (l *lane) shut(now time.Time) bool { return l.off || l.barred || l.sentAway(now) }

// sentAway reports a lane whose receiver wants nothing of this source for a time. Of a source that rests everywhere the canary is
// the word: see begin.
func (l *lane) sentAway(now time.Time) bool {
	return now.Before(l.pace.rest) && !(l.listed && l.egress.rested(now))
}

// idle reports a lane that holds nothing but its budgets. The mutex is held.
func (l *lane) idle() bool { return l.held == 0 && l.sessions == 0 && l.pace.open == 0 && !l.asked }

package prober

import (
	"slices"
	"time"

	"probity/engine"
	"probity/prober/wire"
)

// cause is the reply that a lane last heeded.
type cause struct {
	at         time.Time
	host, rule string
	reply      string // redacted
}

// heedEvery is how often the words of a reply that asks for the same again are kept anew.
const heedEvery = time.Second

// heed keeps what a reply said that makes the lane slower. The mutex is held.
func (l *lane) heed(s *session, r engine.Reply, f engine.Finding, now time.Time) {
	if l.heeded.rule == f.Rule && now.Sub(l.heeded.at) < heedEvery {
		return
	}
	text := engine.Redact(r.Text(), engine.Address{})
	for _, to := range s.rcpts {
		if a, err := engine.ParseTrimmed(to.Local + "@" + to.Domain); err == nil {
			text = engine.Redact(text, a)
		}
	}
	l.heeded = cause{at: now, host: s.group.host, rule: f.Rule, reply: text}
}

var _ wire.Sight = (*Prober)(nil)

// Lanes implements wire.Sight.
func (p *Prober) Lanes() []wire.Lane {
	now := time.Now()
	var all []wire.Lane
	for _, e := range p.egress.list {
		all = e.show(all, now)
	}
	for _, l := range p.allLanes() {
		all = append(all, l.show(now))
	}
	slices.SortFunc(all, func(a, b wire.Lane) int { return wire.CompareLanes(&a, &b) })
	return all[:min(len(all), wire.MaxSight)]
}

// show appends the identity as all its routes, where it rests everywhere.
func (e *egress) show(dst []wire.Lane, now time.Time) []wire.Lane {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !now.Before(e.rests) {
		return dst
	}
	return append(dst, wire.Lane{Egress: e.name, State: "quarantined", Until: e.rests, Reply: "Three routes refuse this source as blocklisted."})
}

// show is the lane as people see it.
func (l *lane) show(now time.Time) wire.Lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := &l.pace
	v := wire.Lane{Route: l.key.route, Egress: l.key.egress, Provider: l.provider.Name, Queued: l.held,
		Connections: wire.Use{Used: p.open, Limit: p.limits.Connections},
		PerMinute:   p.rcpts.use(p.limits.RecipientsPerMinute, now),
		Refusals:    p.refuse.use(p.limits.RefusalsPerHour, now)}
	v.State, v.Until = l.stateNow(now)
	if held := v.State == "quarantined" || v.State == "paused" || v.State == "slowed"; held {
		v.Since, v.Host, v.Rule, v.Reply = l.heeded.at, l.heeded.host, l.heeded.rule, l.heeded.reply
	}
	return v
}

// use is what of a window's limit is used or reserved now.
func (w *window) use(limit int, now time.Time) wire.Use {
	if limit == 0 {
		return wire.Use{}
	}
	return wire.Use{Used: limit - w.room(limit, now), Limit: limit}
}

// stateNow is what holds the lane back, and until when where that is known. The mutex is held.
func (l *lane) stateNow(now time.Time) (string, time.Time) {
	_, d := l.pace.room(&connPace{}, short, now)
	switch {
	case now.Before(l.pace.rest):
		return "quarantined", l.pace.rest
	case now.Before(l.notBefore):
		return "paused", l.notBefore
	case now.Before(l.pace.slow):
		return "slowed", l.pace.slow
	case d.denied && !d.lease:
		return "spent", d.until
	case now.Before(l.noConnect) && l.held > 0:
		return "waiting", l.noConnect
	case l.held > 0:
		return "busy", time.Time{}
	}
	return "idle", time.Time{}
}

// Release implements wire.Sight: an operator has settled it with the receiver. What of the budgets is used stays used.
func (p *Prober) Release(egress, route string) bool {
	now := time.Now()
	was := false
	for _, e := range p.egress.list {
		if route == "" && e.name == egress {
			if was = e.release(now); was {
				p.delisted(e) // what rested for the lists alone goes on as well
			}
		}
	}
	for _, l := range p.allLanes() {
		if l.key.egress == egress && l.key.route == route {
			was = l.release(now)
		}
	}
	return was
}

func (e *egress) release(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	was := now.Before(e.rests)
	e.rests = time.Time{}
	clear(e.votes)
	return was // who asked writes it down
}

func (l *lane) release(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !now.Before(l.pace.rest) {
		return false
	}
	l.pace.rest, l.listed = time.Time{}, false
	l.egress.restAt(l.provider.ID, time.Time{})
	l.prober.ledger.ask(&l.account) // a restart must not find it again
	l.prober.cfg.Log.Warn("an operator ended a quarantine", "provider", l.provider.ID, "egress", l.key.egress)
	l.kick(now)
	return true
}

// Traces implements wire.Sight.
func (p *Prober) Traces(q wire.Query) ([]wire.Trace, error) {
	if q.Limit <= 0 || q.Limit > wire.MaxSight {
		q.Limit = wire.MaxSight
	}
	return p.traces(q)
}

// traces are the probes that a query takes, the newest first, with the sources of their rules. A limit of 0 takes all.
func (p *Prober) traces(q wire.Query) ([]wire.Trace, error) {
	if err := q.Check(); err != nil {
		return nil, err
	}
	list := p.recent.all()
	if a, err := engine.ParseTrimmed(q.Email); err == nil {
		list = ofKey(list, p.cfg.Cache.Key(a))
	}
	sources, found := p.sources(), []wire.Trace{}
	for _, t := range list {
		if q.Limit > 0 && len(found) == q.Limit {
			break
		}
		if (q.Status == "" || q.Status == t.Status) && (q.Provider == "" || q.Provider == t.Provider) {
			found = append(found, t.shown(sources))
		}
	}
	return found, nil
}

// shown is a copy with the sources of the rules.
func (t *trace) shown(sources map[string]string) wire.Trace {
	one := t.Trace
	one.Source = sources[one.Rule]
	if t.Decoy != nil {
		decoy := *t.Decoy
		decoy.Source = sources[decoy.Rule]
		one.Decoy = &decoy
	}
	return one
}

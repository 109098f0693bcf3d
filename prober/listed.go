package prober

import (
	"context"
	"slices"
	"strings"
	"time"

	"probity/engine"
	"probity/prober/wire"
)

// The canary of a source that rests everywhere is an errand. Rows go home at once while it rests, and the next list may come hours
// later. So at its canary's time the source asks about a decoy, a made-up address: its answer says as much about the source as any.
// Only where that cannot be, a row that is at hand a moment later is the canary. The decoy is asked of receivers that refused the
// source as listed, in turn, those that the table knows first: they answer, and a source that they list is on a list that counts.
// After a restart, which forgets them, it is asked of the receiver that was to be asked last. Where none was to be asked since the
// source rests, no errand is sent.

// errand is where a decoy may be asked about.
type errand struct {
	route  engine.Route
	domain string
	hosts  []string // of the domain's MX set, be they asked or not
}

// forbids reports where this node asks nothing: whose owner wished so, or whom the present table says not to ask, whatever was
// held when work for it was begun.
func (p *Prober) forbids(o *errand) bool {
	return p.cfg.Suppressed(o.domain, o.hosts) || p.off(o.route.Provider, o.hosts)
}

// off reports whom the present table says not to ask, whichever provider an older one took them for.
func (p *Prober) off(was *engine.Provider, hosts []string) bool {
	t := p.table.Load()
	if was != nil {
		if now := t.Provider(was.ID); now != nil && !now.Probe {
			return true
		}
	}
	return !t.Match(hosts).Probe
}

// missed notes where a source was to ask, if it rests everywhere.
func (e *egress) missed(route *engine.Route, domain string, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Before(e.rests) {
		e.miss = errand{*route, strings.Clone(domain), route.Hosts} // not the rows whose text it shares
	}
}

// namedBy notes who refused the source as listed, once for each route: receivers that the table knows come first. Bounded as votes are.
func (e *egress) namedBy(who errand) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if who.domain == "" || len(e.named) >= maxVotes || slices.ContainsFunc(e.named, func(o errand) bool { return o.route.Key == who.route.Key }) {
		return
	}
	at := len(e.named)
	if who.route.Key == who.route.Provider.ID {
		at = 0
	}
	e.named = slices.Insert(e.named, at, who)
}

// errand is some place of the group. The mutex is held.
func (l *lane) errand(g *group) errand {
	return errand{engine.Route{Fact: engine.FactMX, Key: l.key.route, Provider: l.provider, Hosts: []string{g.host}}, g.domain, hostsOf(g.key)}
}

// nextErrand is where the canary goes; the domain is empty when no receiver was to be asked.
func (e *egress) nextErrand() errand {
	e.mu.Lock()
	defer e.mu.Unlock()
	to := e.miss
	if e.miss.domain != "" && len(e.named) > 0 {
		to = e.named[0]
		e.named = append(e.named[1:], to)
	}
	e.sent = to.route.Key
	return to
}

// forgo drops a place that is not to be asked any more.
func (e *egress) forgo(not *errand) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.named = slices.DeleteFunc(e.named, func(o errand) bool { return o.route.Key == not.route.Key && o.domain == not.domain })
	if e.miss.domain == not.domain {
		e.miss = errand{}
	}
}

// canaryAt is when the next canary may go; the zero time when the source rests no more, which ends the caller's care of it.
func (e *egress) canaryAt(now time.Time) time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	if now.Before(e.rests) {
		return e.canary
	}
	e.tended, e.miss, e.named = false, errand{}, nil
	return time.Time{}
}

// adopt reports a source that rests and is not looked after: the caller looks after it from now on.
func (e *egress) adopt(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.tended || !now.Before(e.rests) {
		return false
	}
	e.tended = true
	return true
}

// canaryLook is how often it is looked whether a canary that may go has a place to go to, or has gone.
const canaryLook = time.Minute

// lookAfter has a source's canaries sent while it rests.
func (p *Prober) lookAfter(e *egress) {
	if !e.adopt(time.Now()) {
		return
	}
	p.spawn(func(soft, _ context.Context) {
		for at := e.canaryAt(time.Now()); !at.IsZero(); at = e.canaryAt(time.Now()) {
			if wait := time.Until(at); wait > 0 {
				if !sleep(soft, wait) {
					return
				}
				continue // a row may have gone, or the source be well: asked at one place alone, since the answer may end this care
			}
			to := e.nextErrand()
			for to.domain != "" && p.forbids(&to) {
				e.forgo(&to)
				to = e.nextErrand()
			}
			p.sendCanary(e, to)
			if !sleep(soft, p.table.Load().Scaled(canaryLook)) {
				return
			}
		}
	})
}

// sendCanary asks about a decoy, as if somebody had asked who does not wait for the answer.
func (p *Prober) sendCanary(e *egress, to errand) {
	now, k := time.Now(), p.cfg.Cache.Keyer()
	if to.domain == "" {
		return
	}
	a, err := engine.Parse(decoyLocal(k, to.domain, now) + "@" + to.domain)
	if err != nil {
		return
	}
	p.launch(k.Key(a), &wire.Ask{Address: a, Route: &to.route, Low: true, Egress: e.name}, asker{}, 0, now)
}

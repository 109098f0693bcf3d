package prober

import (
	"context"
	"slices"
	"strings"
	"time"

	"probity/engine"
	"probity/prober/wire"
)

// The trial connection of a source that is quarantined everywhere is a delisting trial. Rows are returned at once while it is quarantined, and the next list may come hours
// later. So at its trial connection's time the source asks about a decoy, a made-up address: its answer says as much about the source as any.
// Only where that cannot be, a row that is at hand a moment later is the trial connection. The decoy is asked of receivers that refused the
// source as blocklisted, in turn, those that the table knows first: they answer, and a source that they list is on a list that counts.
// After a restart, which forgets them, it is asked of the receiver that was to be asked last. Where none was to be asked since the
// source is quarantined, no delisting trial is sent.

// delistingTrial is where a decoy may be asked about.
type delistingTrial struct {
	route  engine.Route
	domain string
	hosts  []string // of the domain's MX set, be they asked or not
}

// mustNotAsk reports where this node asks nothing: whose owner wished so, or whom the present table says not to ask, whatever was
// held when work for it was begun.
func (p *Prober) mustNotAsk(o *delistingTrial) bool {
	return p.cfg.Suppressed(o.domain, o.hosts) || p.probingDisabled(o.route.Provider, o.hosts)
}

// probingDisabled reports whom the present table says not to ask, whichever provider an older one took them for.
func (p *Prober) probingDisabled(was *engine.Provider, hosts []string) bool {
	t := p.table.Load()
	if was != nil {
		if now := t.Provider(was.ID); now != nil && !now.Probe {
			return true
		}
	}
	return !t.Match(hosts).Probe
}

// recordBlocked notes where a source was to ask, if it is quarantined everywhere.
func (src *source) recordBlocked(route *engine.Route, domain string, now time.Time) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if now.Before(src.quarantinedUntil) {
		src.lastBlocked = delistingTrial{*route, strings.Clone(domain), route.Hosts} // not the rows whose text it shares
	}
}

// recordBlocklistedBy notes who refused the source as blocklisted, once for each route: receivers that the table knows come first. Bounded as the reports are.
func (src *source) recordBlocklistedBy(class delistingTrial) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if class.domain == "" || len(src.blocklistedBy) >= maxBlocklistReports || slices.ContainsFunc(src.blocklistedBy, func(o delistingTrial) bool { return o.route.Key == class.route.Key }) {
		return
	}
	at := len(src.blocklistedBy)
	if class.route.Key == class.route.Provider.ID {
		at = 0
	}
	src.blocklistedBy = slices.Insert(src.blocklistedBy, at, class)
}

// delistingTrialAt is some place of the group. The mutex is held.
func (q *readyQueue) delistingTrialAt(hq *hostQueue) delistingTrial {
	return delistingTrial{engine.Route{Fact: engine.FactMX, Key: q.key.route, Provider: q.provider, Hosts: []string{hq.host}}, hq.domain, mxSetOf(hq.key)}
}

// nextDelistingTrial is where the trial connection goes; the domain is empty when no receiver was to be asked.
func (src *source) nextDelistingTrial() delistingTrial {
	src.mu.Lock()
	defer src.mu.Unlock()
	to := src.lastBlocked
	if src.lastBlocked.domain != "" && len(src.blocklistedBy) > 0 {
		to = src.blocklistedBy[0]
		src.blocklistedBy = append(src.blocklistedBy[1:], to)
	}
	src.trialRoute = to.route.Key
	return to
}

// dropTarget drops a domain queue that is not to be asked any more.
func (src *source) dropTarget(not *delistingTrial) {
	src.mu.Lock()
	defer src.mu.Unlock()
	src.blocklistedBy = slices.DeleteFunc(src.blocklistedBy, func(o delistingTrial) bool { return o.route.Key == not.route.Key && o.domain == not.domain })
	if src.lastBlocked.domain == not.domain {
		src.lastBlocked = delistingTrial{}
	}
}

// nextTrial is when the next trial connection may go; the zero time when the source is quarantined no more, which ends the caller's care of it.
func (src *source) nextTrial(now time.Time) time.Time {
	src.mu.Lock()
	defer src.mu.Unlock()
	if now.Before(src.quarantinedUntil) {
		return src.trialAt
	}
	src.watched, src.lastBlocked, src.blocklistedBy = false, delistingTrial{}, nil
	return time.Time{}
}

// startWatch reports a source that is quarantined and is not watched: the caller watches it from now on.
func (src *source) startWatch(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.watched || !now.Before(src.quarantinedUntil) {
		return false
	}
	src.watched = true
	return true
}

// trialCheckInterval is how often it is looked whether a trial connection that may go has a place to go to, or has gone.
const trialCheckInterval = time.Minute

// watchQuarantine has a source's trial connections sent while it is quarantined.
func (p *Prober) watchQuarantine(src *source) {
	if !src.startWatch(time.Now()) {
		return
	}
	p.spawn(func(soft, _ context.Context) {
		for at := src.nextTrial(time.Now()); !at.IsZero(); at = src.nextTrial(time.Now()) {
			if wait := time.Until(at); wait > 0 {
				if !sleep(soft, wait) {
					return
				}
				continue // a row may have gone, or the source be well: asked at one domain queue alone, since the answer may end this care
			}
			to := src.nextDelistingTrial()
			for to.domain != "" && p.mustNotAsk(&to) {
				src.dropTarget(&to)
				to = src.nextDelistingTrial()
			}
			p.sendDelistingTrial(src, to)
			if !sleep(soft, p.table.Load().Scaled(trialCheckInterval)) {
				return
			}
		}
	})
}

// sendDelistingTrial asks about a decoy, as if somebody had asked who does not wait for the answer.
func (p *Prober) sendDelistingTrial(src *source, to delistingTrial) {
	now, k := time.Now(), p.cfg.Cache.Keyer()
	if to.domain == "" {
		return
	}
	a, err := engine.Parse(decoyLocalPart(k, to.domain, now) + "@" + to.domain)
	if err != nil {
		return
	}
	p.startProbe(k.Key(a), &wire.SingleRequest{Address: a, Route: &to.route, Low: true, Egress: src.name}, waiter{}, 0, now)
}

package prober

import (
	"context"
	"slices"
	"strings"
	"time"

	"probity/engine"
	"probity/prober/wire"
)

// The trial connection of a source that is quarantined everywhere is a delisting trial. It needs no row: rows are returned at
// once while the source is quarantined, and the next job may come hours later. The source sends a decoy (a random recipient),
// whose reply says as much about the source as any. Only if that is impossible, a row that waits a moment later is the trial.
// The decoy goes to the receivers that refused the source as blocklisted, in turn, known providers first: they reply, and a
// blocklist that they use matters. After a restart the trial goes to the receiver of the last blocked row. Without such a row
// no trial is made.

// delistingTrial is a target for a decoy.
type delistingTrial struct {
	route  engine.Route
	domain string
	hosts  []string // the domain's MX set
}

// mustNotAsk reports that the suppression list or the current provider table excludes this target.
func (p *Prober) mustNotAsk(o *delistingTrial) bool {
	return p.cfg.Suppressed(o.domain, o.hosts) || p.probingDisabled(o.route.Provider, o.hosts)
}

// probingDisabled reports that the current table excludes these hosts, or the provider that an older table gave them.
func (p *Prober) probingDisabled(was *engine.Provider, hosts []string) bool {
	t := p.table.Load()
	if was != nil {
		if now := t.Provider(was.ID); now != nil && !now.Probe {
			return true
		}
	}
	return !t.Match(hosts).Probe
}

// recordBlocked records the target of a row that a source cannot ask because it is quarantined everywhere.
func (src *source) recordBlocked(route *engine.Route, domain string, now time.Time) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if now.Before(src.quarantinedUntil) {
		src.lastBlocked = delistingTrial{*route, strings.Clone(domain), route.Hosts} // cloned: the row's text is shared
	}
}

// recordBlocklistedBy records a target that refused the source as blocklisted, once per route, known providers first. At most
// maxBlocklistReports are kept.
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

// delistingTrialAt is a target at a host queue: its last domain. The mutex is held.
func (q *readyQueue) delistingTrialAt(hq *hostQueue) delistingTrial {
	return delistingTrial{engine.Route{Fact: engine.FactMX, Key: q.key.route, Provider: q.provider, Hosts: []string{hq.host}}, hq.domain, mxSetOf(hq.key)}
}

// nextDelistingTrial is the target of the next trial connection; the domain is empty if there is none.
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

// dropTarget drops a target that must not be asked any more.
func (src *source) dropTarget(not *delistingTrial) {
	src.mu.Lock()
	defer src.mu.Unlock()
	src.blocklistedBy = slices.DeleteFunc(src.blocklistedBy, func(o delistingTrial) bool { return o.route.Key == not.route.Key && o.domain == not.domain })
	if src.lastBlocked.domain == not.domain {
		src.lastBlocked = delistingTrial{}
	}
}

// nextTrial is when the next trial connection may go; the zero time if the quarantine is over, which ends the caller's watch.
func (src *source) nextTrial(now time.Time) time.Time {
	src.mu.Lock()
	defer src.mu.Unlock()
	if now.Before(src.quarantinedUntil) {
		return src.trialAt
	}
	src.watched, src.lastBlocked, src.blocklistedBy = false, delistingTrial{}, nil
	return time.Time{}
}

// startWatch reports a quarantined source that is not watched: the caller watches it from now on.
func (src *source) startWatch(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.watched || !now.Before(src.quarantinedUntil) {
		return false
	}
	src.watched = true
	return true
}

// trialCheckInterval is how often a watched source is checked for a trial connection that is due.
const trialCheckInterval = time.Minute

// watchQuarantine sends a source's trial connections while it is quarantined.
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
				continue // a row may have been the trial, or the quarantine be over: nextTrial tells, and may end this watch
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

// sendDelistingTrial probes a decoy; no caller waits for the result.
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

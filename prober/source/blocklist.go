package source

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"probity/engine"
	"probity/store/cache"
)

// A source that is on blocklists is quarantined everywhere, and makes a trial connection from time to time. The trial needs no row: it
// goes to a Target that refused the source as blocklisted, in turn, or else to that of the last row that it could not ask.

// Target is a domain of a route, which a trial connection may be made for.
type Target struct {
	Route  engine.Route
	Domain string
	Hosts  []string // the domain's MX set
}

// DelistingInterval is how often a source that is quarantined everywhere is tried.
const DelistingInterval = time.Hour

// TrialCheckInterval is how often a quarantined source is checked for a trial connection that is due.
const TrialCheckInterval = time.Minute

// AwaitingTrial reports a source that must not be used now: it is quarantined everywhere, and its trial connection is not due.
func (src *Source) AwaitingTrial(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	return now.Before(src.quarantinedUntil) && now.Before(src.trialAt)
}

// Quarantined reports a source that is quarantined everywhere, whether or not its trial connection is due.
func (src *Source) Quarantined(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	return now.Before(src.quarantinedUntil)
}

// mayProbe reports that a provider may be asked from this source.
func (src *Source) mayProbe(provider string, now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	if now.Before(src.quarantinedUntil) {
		return !now.Before(src.trialAt) // a ready queue that a blocklist quarantined may make the trial connection
	}
	return !now.Before(src.providerQuarantines[provider])
}

// QuarantineAt records that a wide provider quarantined the source. The map is bounded by the providers of the table.
func (src *Source) QuarantineAt(provider string, until time.Time) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.providerQuarantines == nil {
		src.providerQuarantines = map[string]time.Time{}
	}
	src.providerQuarantines[provider] = until
}

// TryAt is when a connection may be tried, if not now. For a quarantined source, the caller that may connect now makes the
// trial connection, and nextTrial is when the next one is due. A reachability trial waits for the end of the quarantine: it
// must not take the place of the trial connection, which is for the blocklists.
func (src *Source) TryAt(route string, isReachTrial bool, again time.Duration, now time.Time) (wait, nextTrial time.Time) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if wait = src.mayAskAt(route, isReachTrial, now); now.Before(wait) {
		return wait, time.Time{}
	}
	if wait = src.Health.tryAt(isReachTrial, now); now.Before(wait) || !now.Before(src.quarantinedUntil) {
		return wait, time.Time{}
	}
	src.trialAt, src.trialRoute = now.Add(again), ""
	return wait, src.trialAt
}

// mayAskAt is when a route may be asked from a source that is quarantined everywhere: when its trial connection is due; for a
// reachability trial, when the quarantine ends. Other routes leave the trial connection to the delisting trial for trialGrace:
// else probes at hosts that never answer would use up every trial connection. The mutex is held.
func (src *Source) mayAskAt(route string, isReachTrial bool, now time.Time) time.Time {
	switch {
	case isReachTrial || !now.Before(src.quarantinedUntil):
		return src.quarantinedUntil
	case src.watched && route != src.trialRoute && src.lastBlocked.Domain != "":
		return src.trialAt.Add(TrialGrace)
	}
	return src.trialAt
}

// ReturnTrial gives back a trial connection for which no host was dialled, unless another was planned since; nextTrial is what
// TryAt returned, zero if the connection was no trial. The next one may start at the given time from the named route, if there is
// one, and from others trialGrace later.
func (src *Source) ReturnTrial(nextTrial time.Time, route string, at time.Time) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if !nextTrial.IsZero() && src.trialAt.Equal(nextTrial) {
		src.trialAt, src.trialRoute = at, route
	}
}

// LeaveQuarantine ends the quarantine of a source that got a reply about a recipient. It reports whether it was quarantined.
func (src *Source) LeaveQuarantine(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	was := now.Before(src.quarantinedUntil)
	if was {
		src.quarantinedUntil = time.Time{}
		clear(src.blocklistReports)
	}
	return was
}

// OtherAvailable reports that a wide provider may be asked from another source of this node.
func (s *Set) OtherAvailable(p *engine.Provider, except *Source, now time.Time) bool {
	if p.Kind != engine.KindWide {
		return false
	}
	for _, src := range s.List {
		if src != except && src.mayProbe(p.ID, now) {
			return true
		}
	}
	return false
}

// SaveQuarantine writes until when the source is quarantined everywhere.
func (src *Source) SaveQuarantine(c *cache.Cache) error {
	src.mu.Lock()
	until := src.quarantinedUntil
	src.mu.Unlock()
	b := cache.Budget{Name: quarantineKey(src.Name)}
	if !until.IsZero() {
		b.State, b.Until = binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli())), until
	}
	return c.PutBudgets([]cache.Budget{b})
}

// LoadQuarantine reads whether the source is quarantined everywhere. The time of the trial connection is not kept: it is due `again`
// after a start. A source whose entry cannot be read is quarantined until then, because all its hourly budgets count as used up.
func (src *Source) LoadQuarantine(c *cache.Cache, again time.Duration, now time.Time) error {
	state, ok, err := c.Budget(quarantineKey(src.Name))
	src.mu.Lock()
	defer src.mu.Unlock()
	if err != nil {
		src.quarantinedUntil = now.Add(again)
		src.trialAt = src.quarantinedUntil
	}
	if ok && len(state) == 8 {
		src.quarantinedUntil, src.trialAt = now.Add(time.UnixMilli(int64(binary.BigEndian.Uint64(state))).Sub(now)), now.Add(again)
	}
	return err
}

func quarantineKey(sourceName string) string { return "rest " + sourceName }

// QuarantinedUntil is when the quarantine everywhere ends; a time that is over if there is none.
func (src *Source) QuarantinedUntil() time.Time {
	src.mu.Lock()
	defer src.mu.Unlock()
	return src.quarantinedUntil
}

// EndQuarantine ends the quarantine, as an operator says, and forgets what was reported for it. It reports whether it was quarantined;
// the caller records it.
func (src *Source) EndQuarantine(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	was := now.Before(src.quarantinedUntil)
	src.quarantinedUntil = time.Time{}
	clear(src.blocklistReports)
	return was
}

// RecordBlocked records the target of a row that a source cannot ask because it is quarantined everywhere.
func (src *Source) RecordBlocked(route *engine.Route, domain string, now time.Time) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if now.Before(src.quarantinedUntil) {
		src.lastBlocked = Target{*route, strings.Clone(domain), route.Hosts} // cloned: the row's text is shared
	}
}

// RecordBlocklistedBy records a target that refused the source as blocklisted, once per route, known providers first. At most
// maxBlocklistReports are kept.
func (src *Source) RecordBlocklistedBy(to Target) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if to.Domain == "" || len(src.blocklistedBy) >= maxBlocklistReports || slices.ContainsFunc(src.blocklistedBy, func(o Target) bool { return o.Route.Key == to.Route.Key }) {
		return
	}
	at := len(src.blocklistedBy)
	if to.Route.Key == to.Route.Provider.ID {
		at = 0
	}
	src.blocklistedBy = slices.Insert(src.blocklistedBy, at, to)
}

// NextTarget is the target of the next trial connection; the domain is empty if there is none.
func (src *Source) NextTarget() Target {
	src.mu.Lock()
	defer src.mu.Unlock()
	to := src.lastBlocked
	if src.lastBlocked.Domain != "" && len(src.blocklistedBy) > 0 {
		to = src.blocklistedBy[0]
		src.blocklistedBy = append(src.blocklistedBy[1:], to)
	}
	src.trialRoute = to.Route.Key
	return to
}

// DropTarget drops a target that must not be asked any more.
func (src *Source) DropTarget(not *Target) {
	src.mu.Lock()
	defer src.mu.Unlock()
	src.blocklistedBy = slices.DeleteFunc(src.blocklistedBy, func(o Target) bool { return o.Route.Key == not.Route.Key && o.Domain == not.Domain })
	if src.lastBlocked.Domain == not.Domain {
		src.lastBlocked = Target{}
	}
}

// NextTrial is when the next trial connection may go; the zero time if the quarantine is over, which ends the caller's watch.
func (src *Source) NextTrial(now time.Time) time.Time {
	src.mu.Lock()
	defer src.mu.Unlock()
	if now.Before(src.quarantinedUntil) {
		return src.trialAt
	}
	src.watched, src.lastBlocked, src.blocklistedBy = false, Target{}, nil
	return time.Time{}
}

// StartWatch reports a quarantined source that is not watched: the caller watches it from now on.
func (src *Source) StartWatch(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	if src.watched || !now.Before(src.quarantinedUntil) {
		return false
	}
	src.watched = true
	return true
}

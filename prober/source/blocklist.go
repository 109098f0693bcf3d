package source

import (
	"encoding/binary"
	"maps"
	"time"

	"probity/engine"
	"probity/store/cache"
)

// A source that is on blocklists is quarantined everywhere, and makes a trial connection from time to time.
const (
	reportsToQuarantine = 3   // routes whose blocklist refusals quarantine a source everywhere
	maxBlocklistReports = 100 // routes whose reports are remembered
)

// AddBlocklistReport records that a route wants the source to be quarantined everywhere; true when enough of them do.
// The first trial connection is then due after `again`.
func (src *Source) AddBlocklistReport(route string, until time.Time, again time.Duration, now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	maps.DeleteFunc(src.blocklistReports, func(_ string, end time.Time) bool { return !now.Before(end) })
	if len(src.blocklistReports) < maxBlocklistReports {
		src.blocklistReports[route] = until
	}
	if len(src.blocklistReports) < reportsToQuarantine || !until.After(src.quarantinedUntil) {
		return false
	}
	src.quarantinedUntil, src.trials[Delisting].at = until, now.Add(again)
	return true
}

// RestoreBlocklistReport counts a report again that was made before a restart; it quarantines nothing.
func (src *Source) RestoreBlocklistReport(route string, until time.Time) {
	src.mu.Lock()
	defer src.mu.Unlock()
	if len(src.blocklistReports) < maxBlocklistReports {
		src.blocklistReports[route] = until
	}
}

// AwaitingTrial reports whether src must not be used now: it is quarantined everywhere, and its trial connection is
// not due.
func (src *Source) AwaitingTrial(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	return now.Before(src.quarantinedUntil) && now.Before(src.trials[Delisting].at)
}

// Quarantined reports whether src is quarantined everywhere, whether or not its trial connection is due.
func (src *Source) Quarantined(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	return now.Before(src.quarantinedUntil)
}

// mayProbe reports whether a provider may be asked from this source.
func (src *Source) mayProbe(provider string, now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	if now.Before(src.quarantinedUntil) {
		// a ready queue that a blocklist quarantined may make the trial connection
		return !now.Before(src.trials[Delisting].at)
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

// LeaveQuarantine ends the quarantine of a source that got a reply about a recipient. It reports whether it was
// quarantined.
func (src *Source) LeaveQuarantine(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	was := now.Before(src.quarantinedUntil)
	if was {
		src.delist(now)
	}
	return was
}

// delist ends the quarantine and forgets what was reported for it. The mutex is held.
func (src *Source) delist(now time.Time) {
	src.quarantinedUntil, src.delistedAt = time.Time{}, now
	clear(src.blocklistReports)
}

// DelistedSince reports whether the source's quarantine everywhere has ended since a time because it is off the
// blocklists: what they caused before is over, also at receivers that were not asked meanwhile.
func (src *Source) DelistedSince(t time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	return src.delistedAt.After(t)
}

// OtherAvailable reports whether a wide provider may be asked from another source of this node.
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
	b, until := cache.Budget{Name: quarantineKey(src.Name)}, src.QuarantinedUntil()
	if !until.IsZero() {
		b.State, b.Until = binary.BigEndian.AppendUint64(nil, uint64(until.UnixMilli())), until
	}
	return c.PutBudgets([]cache.Budget{b})
}

// LoadQuarantine reads whether the source is quarantined everywhere. The time of the trial connection is not kept: it
// is due `again` after a start. A source whose entry cannot be read is quarantined until then, because all its hourly
// budgets count as used up.
func (src *Source) LoadQuarantine(c *cache.Cache, again time.Duration, now time.Time) error {
	state, ok, err := c.Budget(quarantineKey(src.Name))
	src.mu.Lock()
	defer src.mu.Unlock()
	if err != nil {
		src.quarantinedUntil = now.Add(again)
		src.trials[Delisting].at = src.quarantinedUntil
	}
	if ok && len(state) == 8 {
		until := time.UnixMilli(int64(binary.BigEndian.Uint64(state)))
		src.quarantinedUntil, src.trials[Delisting].at = now.Add(until.Sub(now)), now.Add(again)
	}
	return err
}

func quarantineKey(sourceName string) string { return "rest " + sourceName }

// QuarantinedUntil returns the time at which the quarantine everywhere ends; a time that is over if there is none.
func (src *Source) QuarantinedUntil() time.Time {
	src.mu.Lock()
	defer src.mu.Unlock()
	return src.quarantinedUntil
}

// EndQuarantine ends the quarantine, as an operator says, and forgets what was reported for it. It reports whether it
// was quarantined; the caller records it.
func (src *Source) EndQuarantine(now time.Time) bool {
	src.mu.Lock()
	defer src.mu.Unlock()
	was := now.Before(src.quarantinedUntil)
	src.delist(now)
	return was
}

package prober

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"probity/engine"
	"probity/engine/smtp"
	"probity/store/cache"
)

// Receivers distrust an address that was silent yesterday and asks for thousands of recipients today. So a new source has
// a tenth of every budget on its first day, and twice as much on each day after, until it has all of it.
const (
	firstShare = 0.1
	warmAfter  = 4 * 24 * time.Hour // 0.1, 0.2, 0.4, 0.8, 1
	sinceKept  = 10 * 365 * 24 * time.Hour
)

// warm finds out since when each source is used, and remembers it of those that are new. What cannot be read is new.
func (p *Prober) warm(now time.Time) error {
	for _, e := range p.egress.list {
		if p.cfg.Warm || p.cfg.AllowPrivate || !e.mayBePublic() {
			continue
		}
		since, err := firstUse(p.cfg.Cache, e.name, now)
		if err != nil {
			return fmt.Errorf("warm-up of %s: %w", e.name, err)
		}
		e.since = since
	}
	return nil
}

func firstUse(c *cache.Cache, name string, now time.Time) (time.Time, error) {
	state, ok, err := c.Budget(sinceName(name))
	if err == nil && ok && len(state) == 8 {
		return time.UnixMilli(int64(binary.BigEndian.Uint64(state))), nil
	}
	return now, keepFirstUse(c, name, now)
}

func keepFirstUse(c *cache.Cache, name string, since time.Time) error {
	state := binary.BigEndian.AppendUint64(nil, uint64(since.UnixMilli()))
	return c.PutBudgets([]cache.Budget{{Name: sinceName(name), State: state, Until: since.Add(sinceKept)}})
}

func sinceName(egress string) string { return "since " + egress }

// mayBePublic reports a source that receivers on the internet may see: only an address that is known not to be one is none.
func (i Identity) mayBePublic() bool {
	for _, a := range [...]netip.Addr{i.Public, i.Local} {
		if a.IsValid() {
			return smtp.ClassOf(a) == smtp.Public
		}
	}
	return true
}

// share is the part of every budget that the source may use.
func (e *egress) share(now time.Time) float64 {
	if e.since.IsZero() || now.Sub(e.since) >= warmAfter {
		return 1
	}
	days := max(0, int(now.Sub(e.since)/(24*time.Hour)))
	return min(1, firstShare*float64(int(1)<<days))
}

// scaled is the part of limits that the source may use now; a limit that is one stays above zero.
func (e *egress) scaled(l engine.Limits, now time.Time) engine.Limits {
	share := e.share(now)
	if share == 1 {
		return l
	}
	for _, v := range [...]*int{&l.Connections, &l.ConnectionsPerMinute, &l.RecipientsPerMinute, &l.RefusalsPerHour} {
		if *v > 0 {
			*v = max(1, int(float64(*v)*share))
		}
	}
	return l
}

// warming reports that a source is not warm yet: its budgets grow each day.
func (p *Prober) warming(now time.Time) bool {
	for _, e := range p.egress.list {
		if e.share(now) < 1 {
			return true
		}
	}
	return false
}

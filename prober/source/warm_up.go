package source

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"probity/engine"
	"probity/engine/smtp"
	"probity/store/cache"
)

// Receivers distrust an address that was silent yesterday and asks for thousands of recipients today. So a new source
// has a tenth of every budget on its first day, and twice as much on each day after, until it has all of it.
const (
	firstDayShare = 0.1
	warmUpTime    = 4 * 24 * time.Hour // 0.1, 0.2, 0.4, 0.8, 1
	firstUseLife  = 10 * 365 * 24 * time.Hour
)

// LoadFirstUses loads since when each source is used, and saves it for new ones. A source whose entry cannot be read is
// new. Sources that are not on the internet are warm.
func (s *Set) LoadFirstUses(c *cache.Cache, now time.Time) error {
	for _, src := range s.List {
		if !src.mayBePublic() {
			continue
		}
		since, err := loadFirstUse(c, src.Name, now)
		if err != nil {
			return fmt.Errorf("warm-up of %s: %w", src.Name, err)
		}
		src.firstUsed = since
	}
	return nil
}

// SaveFirstUse saves since when the source is used, if it is not warm from the start.
func (src *Source) SaveFirstUse(c *cache.Cache) error {
	if src.firstUsed.IsZero() {
		return nil
	}
	return saveFirstUse(c, src.Name, src.firstUsed)
}

func loadFirstUse(c *cache.Cache, name string, now time.Time) (time.Time, error) {
	state, ok, err := c.Budget(firstUseKey(name))
	if err == nil && ok && len(state) == 8 {
		return time.UnixMilli(int64(binary.BigEndian.Uint64(state))), nil
	}
	if err := saveFirstUse(c, name, now); !errors.Is(err, syscall.ENOSPC) {
		return now, err
	}
	return now, nil // without room the source is new at the next start too
}

func saveFirstUse(c *cache.Cache, name string, since time.Time) error {
	state := binary.BigEndian.AppendUint64(nil, uint64(since.UnixMilli()))
	return c.PutBudgets([]cache.Budget{{Name: firstUseKey(name), State: state, Until: since.Add(firstUseLife)}})
}

func firstUseKey(sourceName string) string { return "since " + sourceName }

// mayBePublic reports whether i is a source that receivers on the internet may see: any but an address that is known
// not to be public.
func (i Identity) mayBePublic() bool {
	for _, a := range [...]netip.Addr{i.Public, i.Local} {
		if a.IsValid() {
			return smtp.ClassOf(a) == smtp.Public
		}
	}
	return true
}

// warmUpShare is the part of every budget that the source may use.
func (src *Source) warmUpShare(now time.Time) float64 {
	if src.firstUsed.IsZero() || now.Sub(src.firstUsed) >= warmUpTime {
		return 1
	}
	days := max(0, int(now.Sub(src.firstUsed)/(24*time.Hour)))
	return min(1, firstDayShare*float64(int(1)<<days))
}

// WarmUpLimits is the part of limits that the source may use now; a limit that is set stays above zero.
func (src *Source) WarmUpLimits(l engine.Limits, now time.Time) engine.Limits {
	share := src.warmUpShare(now)
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

// WarmingUp reports whether a source is not warm yet: its budgets grow each day.
func (s *Set) WarmingUp(now time.Time) bool {
	for _, src := range s.List {
		if src.warmUpShare(now) < 1 {
			return true
		}
	}
	return false
}

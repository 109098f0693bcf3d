package prober

import (
	"time"

	"probity/engine"
)

// verdictFits reports a cached verdict that will do, and fills what the row knows of it: young enough, of the provider that the
// route leads to now, judged under flags that count the same: those of free and alias domains decide nothing.
func verdictFits(v *engine.Verdict, flags engine.Flags, r *engine.Route, maxAge time.Duration, now time.Time) bool {
	if now.Sub(v.VerifiedAt) > maxAge || v.ProviderID != r.Provider.ID || (v.Flags^flags)&^(engine.FlagFree|engine.FlagAlias) != 0 {
		return false
	}
	v.Flags, v.MX, v.ProviderName, v.FromCache = flags, r.MX, orElseName(r.Provider.Name), true
	v.Score = engine.Score(v, now)
	return true
}

func orElseName(name string) string {
	if name == "" {
		return "other"
	}
	return name
}

package prober

import (
	"cmp"
	"time"

	"probity/engine"
)

// verdictFits reports whether v can be used, and fills in what the row knows. It must be young enough, of
// the route's current provider, and judged under equal flags; the flags for free and alias domains decide nothing.
func verdictFits(v *engine.Verdict, flags engine.Flags, r *engine.Route, maxAge time.Duration, now time.Time) bool {
	if now.Sub(v.VerifiedAt) > maxAge || v.ProviderID != r.Provider.ID ||
		(v.Flags^flags)&^(engine.FlagFree|engine.FlagAlias) != 0 {
		return false
	}
	v.Flags = flags
	v.MX = r.MX
	v.ProviderName = cmp.Or(r.Provider.Name, "other")
	v.FromCache = true
	v.Score = engine.Score(v, now)
	return true
}

package prober

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// TestCachedVerdictIsUsedWhereFlagsDecideNothing: flags for free mail and aliases change no verdict, so they cost no
// new probe.
func TestCachedVerdictIsUsedWhereFlagsDecideNothing(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	route := &engine.Route{Provider: &engine.Provider{}}
	for flags, want := range map[engine.Flags]bool{
		0: true, engine.FlagFree: true, engine.FlagAlias: true, engine.FlagFree | engine.FlagAlias: true,
		engine.FlagDisposable: false, engine.FlagRole: false, engine.FlagTypo: false,
		engine.FlagAlias | engine.FlagRole: false,
	} {
		v := engine.VerdictFor(engine.ReasonCatchAll, "decoy/accepted", 0, at)
		require.Equal(t, want, verdictFits(&v, flags, route, time.Hour, at.Add(time.Minute)), "%b", flags)
		if want {
			require.Equal(t, flags, v.Flags, "the row's own")
		}
	}
}

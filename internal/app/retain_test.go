package app

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPeriodsAreParsedAndPrinted: days and Go's durations are parsed, and /debug/config shows them in a form that can
// be parsed.
func TestPeriodsAreParsedAndPrinted(t *testing.T) {
	for text, want := range map[string]time.Duration{"7d": 7 * day, "0d": 0, "36h": 36 * time.Hour, "48h": 2 * day,
		"1h30m": 90 * time.Minute} {
		var p, again Period
		require.NoError(t, p.UnmarshalText([]byte(text)))
		require.Equal(t, want, time.Duration(p), text)
		require.NoError(t, again.UnmarshalText([]byte(p.String())))
		require.Equal(t, p, again)
	}
	for _, text := range []string{"", "7", "d", "-1d", "-3h", "7days", "1.5d"} {
		var p Period
		require.ErrorContains(t, p.UnmarshalText([]byte(text)), "write days such as 7d", text)
	}
	for text, want := range map[string]string{"1h": "1h", "36h": "36h", "1h30m": "1h30m", "10m": "10m",
		"1h0m5s": "1h0m5s", "48h": "2d"} {
		var p Period
		require.NoError(t, p.UnmarshalText([]byte(text)))
		require.Equal(t, want, p.String())
	}
	require.ErrorContains(t, (&RetainCacheFlag{RetainCache: Period(32 * day)}).check(),
		"--retain-cache 32d: give 1h to 31d")
	shown, err := json.Marshal(ServeFlags{RetainFlags: RetainFlags{RetainResults: Period(30 * day)}})
	require.NoError(t, err)
	require.Contains(t, string(shown), `"RetainResults":"30d"`)
}

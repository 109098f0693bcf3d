package results

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// TestAliasIsShownOnlyInDetails: without details, the bytes of a result do not change.
func TestAliasIsShownOnlyInDetails(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	plain := Single{Email: "ann@mask.example", Verdict: engine.VerdictFor(engine.ReasonCatchAll, "decoy/accepted",
		engine.FlagFree, at)}
	alias := plain
	alias.Verdict.Flags |= engine.FlagAlias
	require.Equal(t, string(plain.AppendJSON(nil, at)), string(alias.AppendJSON(nil, at)))

	row := func(v engine.Verdict) []byte {
		c := cells{delimiter: ','}
		return c.append(nil, &answer{v: v})
	}
	require.True(t, bytes.Equal(row(plain.Verdict), row(alias.Verdict)), "in CSV neither")

	for _, r := range []*Single{&plain, &alias} {
		r.Details = true
		var withDetails struct {
			Details struct {
				IsAlias *bool `json:"is_alias"`
			}
		}
		require.NoError(t, json.Unmarshal(r.AppendJSON(nil, at), &withDetails))
		require.NotNil(t, withDetails.Details.IsAlias)
		require.Equal(t, r == &alias, *withDetails.Details.IsAlias)
	}
}

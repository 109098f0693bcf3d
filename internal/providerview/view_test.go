package providerview

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/internal/console"
)

func TestViewHasTheWholeTable(t *testing.T) {
	table := engine.DefaultTable()
	v := New(table)
	require.Len(t, v.Providers, len(table.Providers))
	require.Len(t, v.Rules, len(table.Generic))
	for i, p := range v.Providers {
		require.Len(t, p.Rules, len(table.Providers[i].Rules))
	}
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NotContains(t, string(text), `"stage":null`)
	require.NotContains(t, string(text), `"aliases":null`)
	require.NotContains(t, string(text), `"rules":null`)
}

func TestViewOfOneProviderOrRule(t *testing.T) {
	table := engine.DefaultTable()
	one, err := New(table).ForProvider(table, "gmail")
	require.NoError(t, err)
	require.Len(t, one.Providers, 1)
	require.Equal(t, "google", one.Providers[0].ID)
	require.Empty(t, one.Rules)
	rule, err := New(table).ForProvider(table, "google/no-such-user")
	require.NoError(t, err)
	require.Empty(t, rule.Providers)
	require.Len(t, rule.Rules, 1)
	generic, err := New(table).ForProvider(table, "generic")
	require.NoError(t, err)
	require.Empty(t, generic.Providers)
	require.Len(t, generic.Rules, len(table.Generic))
	require.Equal(t, New(table).Hash, generic.Hash)

	var out bytes.Buffer
	require.NoError(t, rule.Print(&out, true))
	require.Contains(t, out.String(), "google/no-such-user\n  means   no_mailbox")
	for asked, hint := range map[string]string{"gogle": "did you mean google?",
		"google/no-such-usr": "did you mean google/no-such-user?", "session/timeout": "the program's own"} {
		_, err := New(table).ForProvider(table, asked)
		require.ErrorIs(t, err, console.ErrUsage)
		require.ErrorContains(t, err, hint)
	}
	require.LessOrEqual(t, len(Suggest(table, "a", 10)), maxSuggestions)
	require.Empty(t, DidYouMean(nil))
}

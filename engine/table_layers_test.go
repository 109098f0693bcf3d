package engine

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A table is sent as its layers: made from them again, it has the same hash, rules and limits.
func TestTableRoundTripsThroughLayers(t *testing.T) {
	table, err := DefaultTable().Override([]byte("retry_schedule = [\"2m\"]\n[defaults.limits]\nconnections = 7\n"))
	require.NoError(t, err)
	require.False(t, table.RespectsTerms())
	table, err = table.RespectTerms()
	require.NoError(t, err)
	require.Len(t, table.Layers(), 3)

	again, err := ReadLayers(table.Hash(), table.Layers())
	require.NoError(t, err)
	require.Equal(t, table.Hash(), again.Hash())
	require.Equal(t, table.Schedule, again.Schedule)
	require.Equal(t, table.Unknown.Limits, again.Unknown.Limits)
	require.True(t, again.RespectsTerms())
	for i, p := range table.Providers {
		require.Equal(t, []any{p.ID, p.Limits, p.Probe, len(p.Rules)},
			[]any{again.Providers[i].ID, again.Providers[i].Limits, again.Providers[i].Probe,
				len(again.Providers[i].Rules)})
		require.Equal(t, again.Hash(), again.Providers[i].Table())
	}
}

func TestInvalidLayersAreRefused(t *testing.T) {
	shipped := DefaultTable()
	for words, layers := range map[string][][]byte{
		"0 layers":               nil,
		"9 layers":               slices.Repeat(shipped.Layers(), 9),
		"at most 1048576":        {make([]byte, maxTableBytes+1)},
		`unknown key "newest"`:   append(slices.Clone(shipped.Layers()), []byte("newest = 1")),
		"provider \"\": id:":     append(slices.Clone(shipped.Layers()), []byte("[[provider]]\nname = \"x\"")),
		"expected '='":           {termsLayer},
		"damaged on its way: it": {[]byte("x")},
	} {
		hash := hashOf(layers)
		if words == "damaged on its way: it" {
			hash[0]++
		}
		_, err := ReadLayers(hash, layers)
		require.ErrorContains(t, err, words)
	}
}

// smallTable has a provider with a rule, which RespectTerms changes, and one that it does not change.
const smallTable = `
[[provider]]
id = "forbids"
name = "Forbids"
mx = [".forbids.example"]
terms = "Forbids verification."
terms_forbid = true
terms_source = "expectation: it says so"
[[provider.rule]]
id = "unknown"
text = "no such user"
meaning = "no_mailbox"
source = "expectation: its words"
[[provider]]
id = "mail"
name = "Mail"
mx = [".mail.example"]
`

// FuzzReadLayers reads layers over a small table: the shipped one takes some 200 times as long to build.
func FuzzReadLayers(f *testing.F) {
	f.Add([]byte("retry_schedule = [\"1m\"]"), []byte("respect terms"))
	f.Add([]byte("[[provider]]\nid = \"mail\"\nprobe = \"off\"\n"), []byte("respect terms"))
	base, err := ParseTable([]byte(smallTable))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, one, two []byte) {
		layers := append(slices.Clip(base.Layers()), one, two)
		if table, err := ReadLayers(hashOf(layers), layers); err == nil {
			require.Equal(t, hashOf(layers), table.Hash())
		}
	})
}

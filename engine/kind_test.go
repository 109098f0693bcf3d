package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const kindsFile = `
[[provider]]
id = "narrow"
name = "Narrow"
mx = [".narrow.example"]
[[provider]]
id = "wide"
name = "Wide"
mx = [".wide.example"]
wide = true
[[provider]]
id = "tenants"
name = "Tenants"
mx = [".tenants.example"]
tenants = true
terms = "Customers may not verify addresses."
terms_forbid = true
terms_source = "Terms of use, 2026"
[[provider]]
id = "capped"
name = "Capped"
mx = [".capped.example"]
tenants = true
fleet_sources = 3
`

func TestKinds(t *testing.T) {
	table, err := ParseTable([]byte(kindsFile))
	require.NoError(t, err)
	for id, want := range map[string]struct {
		kind    Kind
		word    string
		sources [3]int // of a fleet of 0, 2 and 8
	}{
		"narrow":  {KindNarrow, "narrow", [3]int{0, 1, 1}},
		"wide":    {KindWide, "wide", [3]int{0, 2, 8}},
		"tenants": {KindTenants, "tenants", [3]int{0, 2, 8}},
		"capped":  {KindTenants, "tenants", [3]int{0, 2, 3}},
	} {
		p := table.Provider(id)
		require.Equal(t, want.kind, p.Kind, id)
		require.Equal(t, want.word, p.Kind.String(), id)
		require.Equal(t, want.kind != KindNarrow, p.Shared(), id)
		require.Equal(t, want.sources, [3]int{p.Sources(0), p.Sources(2), p.Sources(8)}, id)
	}
	require.Equal(t, KindNarrow, table.Unknown.Kind)
}

// The kind in an override replaces the shipped one: the operator need not know the row's old kind.
func TestOverlayReplacesTheKind(t *testing.T) {
	table, err := ParseTable([]byte(kindsFile))
	require.NoError(t, err)
	for _, tt := range []struct {
		id, keys string
		want     Kind
	}{
		{"tenants", "wide = true", KindWide},
		{"wide", "tenants = true", KindTenants},
		{"wide", "tenants = true\nfleet_sources = 2", KindTenants},
		{"wide", "wide = false", KindNarrow},
		{"wide", "wide = false\ntenants = true", KindTenants},
		{"tenants", "tenants = false", KindNarrow},
		{"tenants", "name = \"Others\"", KindTenants},
		{"capped", "wide = true\nfleet_sources = 0", KindWide},
		{"capped", "wide = true", KindWide},
		{"wide", "fleet_sources = 2", KindWide},
	} {
		over, err := table.Override([]byte("[[provider]]\nid = \"" + tt.id + "\"\n" + tt.keys))
		require.NoError(t, err, tt)
		require.Equal(t, tt.want, over.Provider(tt.id).Kind, tt)
	}
	for file, want := range map[string]string{
		"id = \"narrow\"\nwide = true\ntenants = true":   "a provider is of one kind",
		"id = \"narrow\"\nfleet_sources = 2":             "fleet_sources limits a provider with wide or tenants",
		"id = \"tenants\"\nfleet_sources = -1":           "from 0 (no limit)",
		"id = \"tenants\"\nterms_forbid = \"certainly\"": "terms_forbid",
	} {
		_, err := table.Override([]byte("[[provider]]\n" + file))
		require.ErrorContains(t, err, want, file)
	}
}

func TestRespectTerms(t *testing.T) {
	table, err := ParseTable([]byte(kindsFile))
	require.NoError(t, err)
	table, err = table.Override([]byte("[[provider]]\nid = \"tenants\"\nprobe = \"on\"\n"))
	require.NoError(t, err)
	kind, err := table.RespectTerms()
	require.NoError(t, err)
	for _, p := range kind.Providers {
		require.Equal(t, p.ID != "tenants", p.Probe, p.ID)
	}
	require.Equal(t, "Terms of use, 2026", kind.Provider("tenants").TermsSource)
	require.True(t, table.Provider("tenants").Probe, "the table itself is not changed")
	require.NotEqual(t, table.Hash(), kind.Hash(), "nodes that differ in this know it")
}

// TestShippedTerms: a row that forbids verification has the terms and their source.
func TestShippedTerms(t *testing.T) {
	var forbid []string
	for _, p := range DefaultTable().Providers {
		if p.TermsSource != "" {
			require.NotEmpty(t, p.Terms, p.ID)
		}
		if p.TermsForbid {
			require.NotEmpty(t, p.TermsSource, p.ID)
			forbid = append(forbid, p.ID)
		}
	}
	require.Equal(t, []string{"outlook"}, forbid)
}

// TestShippedTenants: gateways and hosters are shared services; receivers with mailboxes of their own are not.
func TestShippedTenants(t *testing.T) {
	table := DefaultTable()
	for _, id := range []string{"mimecast", "proofpoint", "barracuda", "cisco", "messagelabs", "trendmicro", "sophos",
		"hornetsecurity", "godaddy", "ionos", "ovh", "rackspace"} {
		require.Equal(t, KindTenants, table.Provider(id).Kind, id)
	}
	require.Equal(t, KindNarrow, table.Provider("facebook").Kind)
	for id, sources := range map[string]int{"orange": 8, "laposte": 8, "comcast": 8, "tonline": 8, "docomo": 8,
		"libero": 8, "nifty": 4} {
		p := table.Provider(id) // people's mailboxes: a few sources share each
		require.Equal(t, KindWide, p.Kind, id)
		require.NotEmpty(t, p.ByAddress, id)
		require.Equal(t, sources, p.Sources(64), id)
	}
}

package ingest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"probity/coordinator/jobdir"
	"probity/coordinator/plan"
	"probity/engine"
	"probity/store"
)

// The default max_hours is 24, or 1.5 times the least time that the budgets allow if that is more.
func TestDefaultMaxHoursFollowThePlan(t *testing.T) {
	disk, table := vfs.NewMem(), engine.DefaultTable()
	state, err := store.Open(disk, "data/state")
	require.NoError(t, err)
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	r := New(Config{
		Store: state, Files: jobdir.New(state, disk, "data", 1), Encoder: encoder, Workers: 1,
		Table: func() *engine.Table { return table }, Sources: func() int { return 1 },
	})
	hours := func(o Options, list ...string) int {
		j, err := r.Accept(t.Context(), Upload{Body: strings.NewReader("email\n" + strings.Join(list, "")), Options: o})
		require.NoError(t, err)
		return j.MaxHours
	}
	people := func(n int, domain string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "u%d@%s\n", i, domain)
		}
		return b.String()
	}
	outlook := func(addresses int) int {
		var tally plan.Tally
		tally.AddUnrouted(table, "hotmail.com", plan.Expect(addresses, plan.DefaultRefused))
		return int(1.5*tally.Plan(1).MinTime.Hours() + 0.5)
	}
	require.Equal(t, 24, hours(Options{}, people(50, "hotmail.com")))
	want := outlook(5_000)
	require.Greater(t, want, 60)
	require.Less(t, want, MaxHours)
	require.Equal(t, want, hours(Options{}, people(5_000, "hotmail.com")))
	require.InDelta(t, want, hours(Options{}, people(5_000, "hotmail.com"), people(5_000, "Hotmail.com")), 1,
		"duplicates are asked once")
	require.InDelta(t, want, hours(Options{}, people(2_500, "hotmail.com"), people(2_500, "live.com")), 1,
		"one receiver")
	require.Equal(t, want, hours(Options{}, people(1, "first.example"), oneAddressPerDomain(maxCounted),
		people(5_000, "hotmail.com")), "behind many others")
	require.Greater(t, hours(Options{}, people(5_000, "shop.example")), 24, "a host of its own")
	require.Equal(t, 24, hours(Options{}, people(5_000, "yahoo.com")), "it accepts anything, and is not asked")
	require.Equal(t, MaxHours, hours(Options{}, people(100_000, "hotmail.com")))
	require.Equal(t, 3, hours(Options{MaxHours: 3}, people(5_000, "hotmail.com")))
	require.Equal(t, 24, hours(Options{NoSMTP: true}, people(5_000, "hotmail.com")))
	require.NoError(t, state.Close())
}

// oneAddressPerDomain is an address at each of n domains.
func oneAddressPerDomain(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "a@d%d.example\n", i)
	}
	return b.String()
}

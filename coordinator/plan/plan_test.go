package plan

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/engine"
)

// provider is a receiver with a limit of refusals per hour.
func provider(id string, kind engine.Kind, perHour int) *engine.Provider {
	return &engine.Provider{ID: id, Name: "The " + id, Kind: kind, Probe: true, ByAddress: []string{id + ".com"},
		Limits: engine.Limits{RefusalsPerHour: perHour}}
}

func routeTo(p *engine.Provider) *engine.Route {
	return &engine.Route{Fact: engine.FactMX, Key: p.ID, Provider: p}
}

func TestFirstWindowTakesNoTime(t *testing.T) {
	for due, want := range map[float64]time.Duration{0: 0, 1: 0, 20: 0, 20.5: time.Hour, 21: time.Hour, 40: time.Hour,
		41: 2 * time.Hour} {
		require.Equal(t, want, minTimeOf(&engine.Limits{RefusalsPerHour: 20}, Load{Refused: due}).span, "%v refused",
			due)
	}
	require.Zero(t, minTimeOf(&engine.Limits{}, Load{1e6, 1e6}).span, "no limit")
}

// A source that probes whenever its sliding window has room needs exactly the planned time.
func TestNoScheduleIsFaster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		budget, due := rapid.IntRange(1, 30).Draw(t, "budget"), rapid.IntRange(1, 400).Draw(t, "due")
		at := make([]time.Duration, due)
		for i := budget; i < due; i++ {
			at[i] = at[i-budget] + time.Hour // when the event budget places earlier has left the window
		}
		planned := minTimeOf(&engine.Limits{RefusalsPerHour: budget}, Load{Refused: float64(due)})
		require.Equal(t, at[due-1], planned.span)
	})
}

func TestSlowestLimitBinds(t *testing.T) {
	limits := engine.Limits{RefusalsPerHour: 20, RecipientsPerMinute: 60, ConnectionsPerMinute: 10,
		RecipientsPerConnection: 2, RefusalsPerConnection: 1}
	for _, want := range []struct {
		due Load
		binding
	}{
		{Load{100, 41}, binding{2 * time.Hour, "refusals_per_hour", 20}},
		{Load{400, 20}, binding{19 * time.Minute, "connections_per_minute", 10}},
		{Load{10, 0}, binding{}},
	} {
		require.Equal(t, want.binding, minTimeOf(&limits, want.due), "%v", want.due)
	}
	limits.RecipientsPerConnection, limits.RecipientsPerTransaction, limits.TransactionsPerConnection = 0, 50, 2
	require.Equal(t, binding{6 * time.Minute, "recipients_per_minute", 60}, minTimeOf(&limits, Load{400, 20}))
}

// The kinds: a narrow route has one source; a wide provider has all, by domain, and by address at the domains that its
// row names; a provider with tenants has all, or as many as its row allows, by domain.
func TestWorkIsSplitByKind(t *testing.T) {
	narrow, wide, tenants := provider("narrow", engine.KindNarrow, 10), provider("wide", engine.KindWide, 10),
		provider("tenants", engine.KindTenants, 10)
	capped := provider("capped", engine.KindTenants, 10)
	capped.FleetSources = 2
	var tally Tally
	for i := range 8 {
		tally.Add(routeTo(narrow), fmt.Sprintf("n%d.example", i), Load{20, 10})
		tally.Add(routeTo(wide), fmt.Sprintf("w%d.example", i), Load{20, 10})
		tally.Add(routeTo(tenants), fmt.Sprintf("t%d.example", i), Load{20, 10})
		tally.Add(routeTo(capped), fmt.Sprintf("c%d.example", i), Load{20, 10})
	}
	p := tally.Plan(8)
	require.Equal(t, 7*time.Hour, p.MinTime)
	require.Equal(t, Load{640, 320}, p.Asked)
	require.Equal(t, []Receiver{
		{Route: "narrow", Provider: "The narrow", Kind: engine.KindNarrow, Sources: 1, Due: Load{160, 80},
			MinTime: 7 * time.Hour, Limit: "refusals_per_hour", Budget: 10},
		{Route: "capped", Provider: "The capped", Kind: engine.KindTenants, Sources: 2, Due: Load{160, 80},
			MinTime: 3 * time.Hour, Limit: "refusals_per_hour", Budget: 10},
		{Route: "tenants", Provider: "The tenants", Kind: engine.KindTenants, Sources: 8, Due: Load{160, 80}},
		{Route: "wide", Provider: "The wide", Kind: engine.KindWide, Sources: 8, Due: Load{160, 80}},
	}, p.Receivers)
	require.Zero(t, p.MoreToHalve, "no source helps a narrow route")

	for p, domain := range map[*engine.Provider]string{wide: "large.example", tenants: "tenants.com"} {
		var large Tally
		large.Add(routeTo(p), domain, Load{100, 50})
		large.Add(routeTo(p), "small.example", Load{10, 5})
		require.Equal(t, 4*time.Hour, large.Plan(8).MinTime, "a domain of %s is asked from one source", p.ID)
		require.Equal(t, 5*time.Hour, large.Plan(1).MinTime)
		require.Zero(t, large.Plan(8).MoreToHalve)
	}
	var consumers Tally
	consumers.Add(routeTo(wide), "wide.com", Load{160, 80})
	require.Zero(t, consumers.Plan(8).MinTime, "a consumer domain is asked from all")
	require.Equal(t, 7*time.Hour, consumers.Plan(1).MinTime)
	require.Equal(t, 1, consumers.Plan(1).MoreToHalve, "two sources take three hours")
}

func TestMoreSourcesNeverTakeLonger(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var tally Tally
		for i := range rapid.IntRange(1, 20).Draw(t, "domains") {
			kind := rapid.SampledFrom([]engine.Kind{engine.KindNarrow, engine.KindWide, engine.KindTenants}).Draw(t,
				"kind")
			p := provider(fmt.Sprintf("p%d-%s", i%5, kind), kind, 1+i%5)
			domain := rapid.SampledFrom([]string{p.ID + ".com", fmt.Sprintf("d%d.example", i)}).Draw(t, "domain")
			n := rapid.IntRange(1, 500).Draw(t, "addresses")
			tally.Add(routeTo(p), domain, Expect(n, rapid.Float64Range(0, 1).Draw(t, "refused")))
		}
		sources := rapid.IntRange(1, 64).Draw(t, "sources")
		p := tally.Plan(sources)
		require.LessOrEqual(t, tally.Plan(sources+1).MinTime, p.MinTime)
		if p.MoreToHalve == 0 {
			require.True(t, p.MinTime == 0 || tally.Plan(MaxSources).MinTime > p.MinTime/2)
			return
		}
		require.LessOrEqual(t, tally.Plan(sources+p.MoreToHalve).MinTime, p.MinTime/2)
		require.Greater(t, tally.Plan(sources+p.MoreToHalve-1).MinTime, p.MinTime/2, "one fewer")
	})
}

func TestOneDecoyForEachDomain(t *testing.T) {
	require.Equal(t, Load{101, 21}, round(Expect(100, 0.2)))
	require.Equal(t, Load{1.8, 1}, round(Expect(1, 0.2)), "none where the only address is refused")
	require.Equal(t, Load{5, 5}, Expect(5, 1))
	require.Equal(t, Load{6, 1}, Expect(5, 0))
}

func round(l Load) Load {
	rounded := func(x float64) float64 { return float64(int(x*1e6+0.5)) / 1e6 }
	return Load{rounded(l.Recipients), rounded(l.Refused)}
}

func TestUnaskedReceiversNeedNoTime(t *testing.T) {
	var tally Tally
	disabled, all, open := provider("off", engine.KindNarrow, 10), provider("all", engine.KindNarrow, 10),
		provider("open", engine.KindNarrow, 10)
	disabled.Probe, all.AcceptAll = false, true
	require.False(t, tally.Add(routeTo(disabled), "a.example", Load{1, 1}))
	require.False(t, tally.Add(routeTo(all), "b.example", Load{1, 1}))
	require.False(t, tally.Add(&engine.Route{Fact: engine.FactNoDomain, Provider: open}, "c.example", Load{1, 1}))
	require.Equal(t, Plan{Sources: 3, Receivers: []Receiver{}}, tally.Plan(3))
	require.Equal(t, 1, tally.Plan(0).Sources)
	require.True(t, tally.Add(routeTo(open), "d.example", Load{1, 1}))
}

// When a list is accepted, only its domains are known. Consumer domains have a provider; that of the others is unknown.
func TestPlanFromDomainNames(t *testing.T) {
	var tally Tally
	table := engine.DefaultTable()
	require.True(t, tally.AddUnrouted(table, "hotmail.com", Load{1000, 200}))
	require.True(t, tally.AddUnrouted(table, "live.com", Load{1000, 200}))
	require.True(t, tally.AddUnrouted(table, "shop.example", Load{100, 30}))
	require.False(t, tally.AddUnrouted(table, "yahoo.com", Load{1, 1}), "it accepts anything")
	p := tally.Plan(2)
	require.Equal(t, []string{"outlook", "shop.example"}, []string{p.Receivers[0].Route, p.Receivers[1].Route})
	require.Equal(t, 9*time.Hour, p.MinTime, "400 at 20 an hour from two sources")
	require.Equal(t, time.Hour, p.Receivers[1].MinTime)
}

func TestPlanNamesTheSlowestReceivers(t *testing.T) {
	var tally Tally
	for i := range 30 {
		tally.Add(routeTo(provider(fmt.Sprintf("p%02d", i), engine.KindNarrow, 10)), "a.example",
			Load{Refused: float64(10 * i)})
	}
	p := tally.Plan(1)
	require.Len(t, p.Receivers, maxReceivers)
	require.Equal(t, "p29", p.Receivers[0].Route)
	require.Equal(t, 28*time.Hour, p.MinTime)
}

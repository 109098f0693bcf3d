package why

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/dispatch"
	"probity/coordinator/fleet"
	"probity/coordinator/plan"
	"probity/engine"
	"probity/prober/wire"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func in(d time.Duration) time.Time { return now.Add(d) }

// queue is a ready queue of a node.
func queue(route, source, state string, until time.Duration) fleet.ReadyQueueReport {
	q := fleet.ReadyQueueReport{Node: "n1", ReadyQueue: wire.ReadyQueue{Route: route, Egress: source, State: state}}
	if until > 0 {
		q.Until = in(until)
	}
	return q
}

func routeOf(hosts ...string) *engine.Route {
	var records []engine.MX
	for i, h := range hosts {
		records = append(records, engine.MX{Preference: uint16(i), Host: h})
	}
	r := engine.DefaultTable().NewRoute(records)
	return &r
}

func TestReceiversHaveNamesAndTheirRowsCountOnce(t *testing.T) {
	small, google := routeOf("mx2.small.example", "mx1.small.example"), routeOf("aspmx.l.google.com")
	got := Explain(&Facts{Table: engine.DefaultTable(), Sources: 1, Now: now, Unresolved: 3, Waits: []dispatch.Wait{
		{Class: "tail", Route: small, Kind: dispatch.WaitAnswer, Rows: 5, AtProber: true},
		{Class: "tail", Route: small, Kind: dispatch.WaitRetry, Rows: 2, At: in(time.Hour), Source: "s1"},
		{Class: google.Key, Kind: dispatch.WaitTurn, Rows: 100},
		{Class: "mx1.big.example,mx2.big.example", Kind: dispatch.WaitBudget, Rows: 40, At: in(20 * time.Minute)},
		{Class: "tail", Kind: dispatch.WaitTurn, Rows: 7},
	}})
	rows := map[string]int64{}
	for _, r := range got {
		rows[r.Name] = r.Rows
		var waiting int64
		for _, w := range r.Waits {
			waiting += w.Rows
		}
		require.Equal(t, r.Rows, r.Asking+r.Queued+waiting, r.Name)
	}
	require.Equal(t, map[string]int64{"mx2.small.example": 7, google.Provider.Name: 100, "mx1.big.example": 40,
		NameOthers: 7, NameDNS: 3}, rows)
}

func TestWaitsSayWhatHoldsThem(t *testing.T) {
	route := routeOf("mx.shop.example")
	spent := queue(route.Key, "s1", "exhausted", 30*time.Minute)
	spent.Refusals = wire.Usage{Used: 20, Limit: 20}
	partly := queue(route.Key, "s1", "busy", 0)
	partly.Refusals = wire.Usage{Used: 16, Limit: 20}
	refused := queue(route.Key, "s1", "quarantined", 5*time.Hour)
	refused.Reply, refused.Rule = "554 blocked", "generic/blocked"
	forBudget := dispatch.Wait{Class: "tail", Route: route, Kind: dispatch.WaitBudget, Rows: 9, At: in(time.Minute)}
	for name, c := range map[string]struct {
		wait   dispatch.Wait
		queues []fleet.ReadyQueueReport
		away   time.Time
		want   Wait
	}{
		"a budget that is used up": {forBudget, []fleet.ReadyQueueReport{spent}, time.Time{},
			Wait{For: ForBudget, Rows: 9, Opens: in(30 * time.Minute), Last: in(30 * time.Minute),
				Limit: "refusals_per_hour", Source: "s1", Node: "n1"}},
		"a budget of which the rest is kept": {forBudget, []fleet.ReadyQueueReport{partly}, time.Time{},
			Wait{For: ForBudget, Rows: 9, Opens: in(time.Minute), Last: in(time.Minute), Limit: "refusals_per_hour",
				Source: "s1", Node: "n1"}},
		"a quarantine": {forBudget, []fleet.ReadyQueueReport{refused}, time.Time{},
			Wait{For: ForQuarantine, Rows: 9, Opens: in(5 * time.Hour), Last: in(time.Minute), Source: "s1",
				Node: "n1", Reply: "554 blocked", Rule: "generic/blocked"}},
		"a node that is away": {forBudget, nil, in(10 * time.Minute),
			Wait{For: ForNode, Rows: 9, Opens: in(10 * time.Minute), Last: in(10 * time.Minute)}},
		"another queue": {forBudget, []fleet.ReadyQueueReport{queue("mx.other.example", "s1", "exhausted", time.Hour)},
			time.Time{},
			Wait{For: ForBudget, Rows: 9, Opens: in(time.Minute), Last: in(time.Minute)}},
		"rows at the node": {dispatch.Wait{Class: "tail", Route: route, Kind: dispatch.WaitAnswer, Rows: 9,
			AtProber: true},
			[]fleet.ReadyQueueReport{queue(route.Key, "s1", "paused", 2*time.Minute)}, time.Time{},
			Wait{For: ForPause, Rows: 9, Opens: in(2 * time.Minute), Last: in(2 * time.Minute), Source: "s1",
				Node: "n1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Explain(&Facts{Table: engine.DefaultTable(), Sources: 1, Now: now, Waits: []dispatch.Wait{c.wait},
				Queues: c.queues, Awaited: c.away})
			require.Len(t, got, 1)
			require.Equal(t, []Wait{c.want}, got[0].Waits)
			require.Equal(t, c.want.Opens, got[0].Opens)
			if c.want.For == ForQuarantine {
				require.Equal(t, c.want.Last, got[0].DoneBy)
				return
			}
			require.False(t, got[0].DoneBy.Before(got[0].Opens))
		})
	}
}

// TestQuarantinedRowsAreGivenUpWhenTheirTurnComes: they do not wait for the end of the quarantine, nor for budgets; a
// wide provider's need the budgets of its other sources.
func TestQuarantinedRowsAreGivenUpWhenTheirTurnComes(t *testing.T) {
	narrow, wide := routeOf("mx.shop.example"), routeOf("aspmx.l.google.com")
	many := plan.Load{Recipients: 5000, Refused: 500}
	doneBy := func(route *engine.Route, waits ...dispatch.Wait) time.Time {
		for i := range waits {
			waits[i].Class, waits[i].Route, waits[i].Due = "tail", route, many
		}
		got := Explain(&Facts{Table: engine.DefaultTable(), Sources: 2, Now: now, Waits: waits,
			Queues: []fleet.ReadyQueueReport{queue(route.Key, "s1", "quarantined", 13*time.Hour)}})
		require.Len(t, got, 1)
		return got[0].DoneBy
	}
	retry := dispatch.Wait{Kind: dispatch.WaitRetry, Rows: 10, At: in(time.Hour), Source: "s1"}
	turn := dispatch.Wait{Kind: dispatch.WaitTurn, Rows: 5000}
	paused := dispatch.Wait{Kind: dispatch.WaitBudget, Rows: 5000, At: in(20 * time.Minute)}
	require.Equal(t, in(time.Hour), doneBy(narrow, retry))
	require.Equal(t, in(20*time.Minute), doneBy(narrow, turn, paused))
	require.Equal(t, in(time.Hour), doneBy(narrow, turn, paused, retry))
	at := doneBy(wide, turn)
	require.True(t, at.After(in(time.Hour)), at)
	require.True(t, at.Before(in(13*time.Hour)), at)
}

// TestNothingIsDoneAfterTheJobGivesUp, whatever the budgets say.
func TestNothingIsDoneAfterTheJobGivesUp(t *testing.T) {
	route := routeOf("mx.shop.example")
	f := Facts{Table: engine.DefaultTable(), Sources: 1, Now: now, Waits: []dispatch.Wait{{Class: "tail", Route: route,
		Kind: dispatch.WaitBudget, Rows: 5000, At: in(time.Hour), Due: plan.Load{Recipients: 5000, Refused: 500}}}}
	require.True(t, Explain(&f)[0].DoneBy.After(in(5*time.Hour)))
	f.Deadline = in(2 * time.Hour)
	require.Equal(t, f.Deadline, Explain(&f)[0].DoneBy)
}

// A retry that is due before a budget allows more waits for both.
func TestRetryWaitsForTheBudgetToo(t *testing.T) {
	route := routeOf("mx.shop.example")
	got := Explain(&Facts{Table: engine.DefaultTable(), Sources: 1, Now: now, Waits: []dispatch.Wait{
		{Class: "tail", Route: route, Kind: dispatch.WaitRetry, Rows: 1, At: in(time.Minute), Source: "s1"},
		{Class: "tail", Route: route, Kind: dispatch.WaitBudget, Rows: 50, At: in(40 * time.Minute)},
	}})
	require.Equal(t, in(40*time.Minute), got[0].Opens)
}

// TestReceiversOfOneAddressShareItsBudget: two hosts that lead to one address are done when its budget allowed all of
// their rows.
func TestReceiversOfOneAddressShareItsBudget(t *testing.T) {
	table := engine.DefaultTable()
	limit := table.Unknown.Limits.RefusalsPerHour
	due := plan.Load{Recipients: 50, Refused: float64(2*limit) / (1 + controlsOfOwnHosts)}
	explain := func(address string) []Receiver {
		f := Facts{Table: table, Sources: 1, Now: now}
		for _, host := range []string{"mx.shop.example", "mx.club.example"} {
			route := routeOf(host)
			f.Waits = append(f.Waits, dispatch.Wait{Class: "tail", Route: route, Kind: dispatch.WaitBudget, Rows: 50,
				Due: due, At: in(time.Hour)})
			q := queue(route.Key, "s1", "exhausted", time.Hour)
			q.Refusals = wire.Usage{Used: limit / 2, Limit: limit}
			if address != "" {
				q.Address, q.AddressRefusals = address, wire.Usage{Used: limit, Limit: limit}
			}
			f.Queues = append(f.Queues, q)
		}
		return Explain(&f)
	}
	shared := explain("198.51.100.7")
	require.Equal(t, shared[0].DoneBy, shared[1].DoneBy)
	require.Equal(t, in(time.Hour+3*(time.Hour+time.Minute)), shared[0].DoneBy, "four windows for both")
	require.Equal(t, "refusals_per_hour", shared[0].Waits[0].Limit)
	require.Equal(t, shared[0].DoneBy, explain("")[0].DoneBy, "four windows of half the budget for each")
}

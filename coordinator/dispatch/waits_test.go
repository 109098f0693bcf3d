package dispatch

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/plan"
	"probity/engine"
	"probity/prober/wire"
)

// TestBudgetWaitsOfSeveralRoutesAreTold: where all rows of a chunk wait for a budget, those of each route do.
func TestBudgetWaitsOfSeveralRoutesAreTold(t *testing.T) {
	job := start(eightSources(0), 100)
	rows := rowsOf(t, 10, "shop.example", "club.example")
	waiting := func(n int64) (all int64) {
		for _, w := range job.byRoute(Wait{Kind: WaitAnswer, Rows: 20, ForBudget: n}, rows, 0.5) {
			all += w.ForBudget
		}
		return all
	}
	require.EqualValues(t, 20, waiting(20))
	require.Zero(t, waiting(19), "one is being asked, and which is not told")
}

// rowsOf is so many rows of each domain.
func rowsOf(t *testing.T, each int, domains ...string) (rows []wire.Row) {
	t.Helper()
	table := engine.DefaultTable()
	for _, domain := range domains {
		route := table.NewRoute([]engine.MX{{Host: "mx." + domain}})
		for i := range each {
			address, err := engine.Parse(fmt.Sprintf("user%d@%s", i, domain))
			require.NoError(t, err)
			rows = append(rows, wire.Row{Address: address, Route: &route})
		}
	}
	return rows
}

// TestADecoyIsExpectedOnce: rows of a domain whose decoy was answered need budgets for themselves only.
func TestADecoyIsExpectedOnce(t *testing.T) {
	job := start(eightSources(0), 100)
	rows := rowsOf(t, 10, "shop.example", "club.example")
	due := func() map[string]plan.Load {
		found := map[string]plan.Load{}
		for _, w := range job.byRoute(Wait{Rows: 20}, rows, 0.5) {
			found[w.Route.Key] = w.Due
		}
		return found
	}
	both := due()
	require.Equal(t, plan.Expect(10, 0.5), both["mx.shop.example"])
	refused := engine.VerdictFor(engine.ReasonMailboxNotFound, "test", 0, time.Time{})
	job.decoys.record("shop.example", &refused)
	require.Equal(t, both, due(), "a refusal needs no decoy")
	job.decoys.record("shop.example", &engine.Verdict{SMTPValid: true})
	require.Equal(t, plan.Load{Recipients: 10, Refused: 5}, due()["mx.shop.example"])
	require.Equal(t, both["mx.club.example"], due()["mx.club.example"])
}

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

// TestADecoyIsExpectedOnce: rows of a domain whose decoy was answered need budgets for themselves only.
func TestADecoyIsExpectedOnce(t *testing.T) {
	table := engine.DefaultTable()
	job := start(eightSources(0), 100)
	var rows []wire.Row
	for _, domain := range []string{"shop.example", "club.example"} {
		route := table.NewRoute([]engine.MX{{Host: "mx." + domain}})
		for i := range 10 {
			address, err := engine.Parse(fmt.Sprintf("user%d@%s", i, domain))
			require.NoError(t, err)
			rows = append(rows, wire.Row{Address: address, Route: &route})
		}
	}
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

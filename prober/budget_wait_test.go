package prober

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// While a batch is held, its sender learns how many rows wait for a budget, and until when; rows that a session has do
// not count.
func TestRowsThatWaitForABudgetAreReported(t *testing.T) {
	h := &fakeServer{rcpt: acceptsOnly("ann")}
	withTestNode(t, tableWith("refusals_per_hour = 0", "refusals_per_hour = 20"), nil,
		map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
			require.Equal(t, "VALID", verdictText(b.single(time.Minute, mxA, "ann@a.example")))
			var addrs []string
			for i := range 60 {
				addrs = append(addrs, fmt.Sprintf("nobody%d@a.example", i))
			}
			start, answered := time.Now(), 0
			var waits []wire.BudgetWait
			batch := &wire.Batch{Job: "j", Rows: b.rows(mxA, addrs...), MaxAge: time.Hour, Started: start}
			require.NoError(t, b.prober.Verify(context.Background(), batch, 30*time.Second, func(r wire.Results) {
				for i := range r.Rows {
					if r.Rows[i].Outcome == wire.Settled {
						answered++
					}
				}
				waits = append(waits, r.BudgetWait)
				require.True(t, r.Done || r.BudgetWait.Rows <= 60-answered)
			}))
			require.Positive(t, answered)
			require.Less(t, answered, 60)
			most := wire.BudgetWait{}
			for _, x := range waits {
				if x.Rows > most.Rows {
					most = x
				}
			}
			require.Equal(t, 60-answered, most.Rows, "%v", waits)
			require.Greater(t, most.Until, start.Add(50*time.Minute))
			require.Zero(t, waits[len(waits)-1].Rows, "a row with a result waits no more")
		})
}

// If no budget holds rows, none are reported as waiting for one.
func TestRowsAtASlowHostDoNotWaitForABudget(t *testing.T) {
	slow := &fakeServer{rcpt: func(string) string { return "-" }}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": slow}, func(b *testNode) {
		batch := &wire.Batch{Job: "j", Rows: b.rows(mxA, "ann@a.example", "bob@a.example"), MaxAge: time.Hour,
			Started: time.Now()}
		require.NoError(t, b.prober.Verify(context.Background(), batch, 10*time.Second,
			func(r wire.Results) { require.Zero(t, r.BudgetWait) }))
	})
}

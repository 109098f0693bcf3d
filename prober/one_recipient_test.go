package prober

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// TestRecipientsOfAConnectionAreBounded: a host that answers only so many recipients of a connection tells the truth
// about each, in a list and in single calls. What is over the bound goes to a connection of its own, decoys too.
func TestRecipientsOfAConnectionAreBounded(t *testing.T) {
	for _, most := range []int{1, 2} {
		for _, tooMany := range []string{"452 4.5.3 one recipient a session, please",
			"452 too many recipients on this connection", "451 4.5.3 enough for today's session"} {
			h := &fakeServer{connection: func() rcptScript {
				n := 0
				return func(local, _ string) string {
					n++
					if n > most {
						return tooMany
					}
					return acceptsOnly("ann", "bob")(local)
				}
			}}
			withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
				rows := b.rows(mxA, "ann@a.example", "eve@a.example", "bob@a.example")
				results := map[uint32]wire.Result{}
				for range 4 { // as the schedule of a job sends deferred rows again
					var open []wire.Row
					for _, r := range rows {
						if got, asked := results[r.Number]; !asked || got.Outcome != wire.Settled {
							open = append(open, r)
						}
					}
					if len(open) == 0 {
						break
					}
					for n, r := range b.verify(time.Minute, open...) {
						results[n] = r
					}
					time.Sleep(time.Minute)
				}
				got := fmt.Sprint(verdictText(results[rows[0].Number].Verdict), "; ",
					verdictText(results[rows[1].Number].Verdict), "; ", verdictText(results[rows[2].Number].Verdict))
				require.Equal(t, "VALID; INVALID mailbox_not_found; VALID", got, "%d, %s: %v", most, tooMany,
					h.snapshot().log)
			})
		}
	}
}

package prober

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// Every host here answers at least one recipient of each connection: then every row is answered, in whatever order rows come.
func TestRowsCutOffByADisconnectGoFirst(t *testing.T) {
	for name, h := range map[string]*fakeServer{
		"closes at the second":         {maxAnswered: 1},
		"closes at the third":          {maxAnswered: 2},
		"421 at the third":             {maxAnswered: 2, lastReply: "421 4.7.0 closing"},
		"closes at the third, in step": {maxAnswered: 2, noPipelining: true},
		"421 at the second, in step":   {maxAnswered: 1, noPipelining: true, lastReply: "421 4.7.0 closing"},
		"closes at the ninth":          {maxAnswered: 8},
	} {
		t.Run(name, func(t *testing.T) {
			var addrs []string
			want := map[string]string{}
			for i := range 40 {
				domain := fmt.Sprintf("d%d.example", i%7)
				addrs = append(addrs, fmt.Sprintf("ann%d@%s", i, domain), fmt.Sprintf("eve%d@%s", i, domain))
				want[addrs[2*i]], want[addrs[2*i+1]] = "VALID", "INVALID mailbox_not_found"
			}
			for run := range 2 {
				seen := &fakeServer{maxAnswered: h.maxAnswered, lastReply: h.lastReply, noPipelining: h.noPipelining, rcpt: func(local string) string {
					if local[:3] == "ann" {
						return "250 2.1.5 ok"
					}
					return "550 5.1.1 User unknown"
				}}
				withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": seen}, func(b *testNode) {
					order := append([]string(nil), addrs...)
					rand.New(rand.NewPCG(uint64(run), 1)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
					rows := b.rows(mxA, order...)
					got := b.verify(48*time.Hour, rows...)
					for i, r := range rows {
						x := got[r.Number]
						require.Equal(t, wire.Settled, x.Outcome, order[i])
						require.Equal(t, want[order[i]], verdictText(x.Verdict), order[i])
					}
				})
			}
		})
	}
}

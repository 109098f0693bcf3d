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
func TestWhoIsCutOffComesFirst(t *testing.T) {
	for name, h := range map[string]*host{
		"closes at the second":         {most: 1},
		"closes at the third":          {most: 2},
		"421 at the third":             {most: 2, last: "421 4.7.0 closing"},
		"closes at the third, in step": {most: 2, noPipe: true},
		"421 at the second, in step":   {most: 1, noPipe: true, last: "421 4.7.0 closing"},
		"closes at the ninth":          {most: 8},
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
				seen := &host{most: h.most, last: h.last, noPipe: h.noPipe, rcpt: func(local string) string {
					if local[:3] == "ann" {
						return "250 2.1.5 ok"
					}
					return "550 5.1.1 User unknown"
				}}
				inLab(t, labTable, nil, map[string]*host{"mx.a.example": seen}, func(b *lab) {
					order := append([]string(nil), addrs...)
					rand.New(rand.NewPCG(uint64(run), 1)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
					rows := b.rows(mxa, order...)
					got := b.verify(48*time.Hour, rows...)
					for i, r := range rows {
						x := got[r.Number]
						require.Equal(t, wire.Settled, x.Outcome, order[i])
						require.Equal(t, want[order[i]], spell(x.Verdict), order[i])
					}
				})
			}
		})
	}
}

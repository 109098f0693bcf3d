package prober

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every host here answers at least one recipient of each connection: then every row is answered, in whatever order rows
// come.
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
				seen := &fakeServer{maxAnswered: h.maxAnswered, lastReply: h.lastReply, noPipelining: h.noPipelining,
					rcpt: func(local string) string {
						if local[:3] == "ann" {
							return "250 2.1.5 ok"
						}
						return "550 5.1.1 User unknown"
					}}
				withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": seen}, func(b *testNode) {
					for addr, v := range b.verifyList(uint64(run), addrs) {
						require.Equal(t, want[addr], verdictText(v), addr)
					}
				})
			}
		})
	}
}

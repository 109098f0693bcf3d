package prober

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
)

// TestCatchAllIsKnownWithoutAsking: what a catch-all check of a domain found is in the details of an answer that asks
// no server.
func TestCatchAllIsKnownWithoutAsking(t *testing.T) {
	checks := &fakeServer{rcpt: acceptsOnly("ann")}
	takesAll := &fakeServer{rcpt: func(string) string { return "250 2.1.5 ok" }}
	mxB := []string{"mx.b.example"}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": checks, "mx.b.example": takesAll},
		func(b *testNode) {
			known := func(mx []string, address string) engine.Tri {
				row := b.rows(mx, address)[0]
				answer, err := b.prober.Single(t.Context(),
					wire.SingleRequest{Address: row.Address, Route: row.Route, NoSMTP: true})
				require.NoError(t, err)
				require.Equal(t, "UNKNOWN smtp_not_checked", verdictText(answer.Verdict))
				return answer.Verdict.Details.CatchAll
			}
			require.Equal(t, engine.NotKnown, known(mxA, "x@a.example"))
			require.Equal(t, engine.NotKnown, known(mxB, "x@b.example"))
			b.single(10*time.Second, mxA, "ann@a.example")
			b.single(10*time.Second, mxB, "ann@b.example")
			asked := checks.count("RCPT") + takesAll.count("RCPT")
			require.Equal(t, engine.No, known(mxA, "x@a.example"))
			require.Equal(t, engine.Yes, known(mxB, "x@b.example"))
			require.Equal(t, asked, checks.count("RCPT")+takesAll.count("RCPT"))
		})
}

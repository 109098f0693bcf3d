package prober

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// TestUnconfirmedRowsDoNotWaitTwice: an acceptance that nothing could confirm any more while its host was paused need
// not wait again.
func TestUnconfirmedRowsDoNotWaitTwice(t *testing.T) {
	table := strings.NewReplacer("connections = 2", "connections = 1", "refusals_per_hour = 0",
		"refusals_per_hour = 20",
		"recipients_per_transaction = 0", "recipients_per_transaction = 1").Replace(testTable)
	var slow atomic.Bool
	h := &fakeServer{noPipelining: true, rcptByDomain: func(local, domain string) string {
		if slow.Load() && local != "ann" { // which is the control, too
			time.Sleep(11 * time.Second)
		}
		return honest(local, domain)
	}}
	withTestNode(t, table, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		before := []string{"ann@a.example"} // and its decoy
		for i := range 9 {
			before = append(before, fmt.Sprintf("nobody%d@a.example", i))
		}
		b.verify(10*time.Minute, b.rows(mxA, before...)...)
		slow.Store(true)
		began, deferred := time.Now(), 0
		for _, r := range b.verify(16*time.Minute, b.rows(mxA, "ann1@a.example", "ann2@a.example")...) {
			if r.Outcome == wire.Deferred {
				deferred++
				require.WithinRange(t, r.Due, began.Add(15*time.Minute), time.Now())
				require.Equal(t, r.Due, r.Verdict.Details.NextRetry)
			}
		}
		require.Equal(t, 1, deferred, "%v", h.snapshot().log)
	})
}

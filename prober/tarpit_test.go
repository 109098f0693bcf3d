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

// tarpit is an rcpt script of a host that is too slow to be asked further once it has refused so many.
func tarpit(past int64) rcptScript {
	var refused atomic.Int64
	return func(local, domain string) string {
		if refused.Load() >= past {
			time.Sleep(11 * time.Second)
		}
		if !exists(local) {
			refused.Add(1)
		}
		return honest(local, domain)
	}
}

// TestUnconfirmedRowsDoNotWaitTwice: an acceptance that nothing could confirm any more while its host was paused need
// not wait again.
func TestUnconfirmedRowsDoNotWaitTwice(t *testing.T) {
	table := strings.NewReplacer("connections = 2", "connections = 1", "refusals_per_hour = 0",
		"refusals_per_hour = 20",
		"recipients_per_transaction = 0", "recipients_per_transaction = 1").Replace(testTable)
	slow := tarpit(10)
	h := &fakeServer{noPipelining: true, rcptByDomain: func(local, domain string) string {
		if local == "ann" { // also as the control of the last refusal
			return acceptedReply
		}
		return slow(local, domain)
	}}
	withTestNode(t, table, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		before := []string{"ann@a.example"} // and its decoy
		for i := range 9 {
			before = append(before, fmt.Sprintf("nobody%d@a.example", i))
		}
		b.verify(10*time.Minute, b.rows(mxA, before...)...)
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

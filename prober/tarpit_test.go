package prober

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// tarpit is an rcpt script of a host that knows every ann, asks for a pause at busy, and takes a second to refuse late. It is
// too slow to be asked further once it has refused so many, for the recipients that it knows or for all.
func tarpit(past int64, fastDecoys bool) func(string) string {
	var refused atomic.Int64
	return func(local string) string {
		known := strings.HasPrefix(local, "ann") || local == "busy"
		if refused.Load() >= past && (known || !fastDecoys) {
			time.Sleep(11 * time.Second)
		}
		switch {
		case local == "busy":
			return "450 4.7.1 rate limit, slow down"
		case known:
			return "250 2.1.5 ok"
		case local == "late":
			time.Sleep(time.Second)
		}
		refused.Add(1)
		return "550 5.1.1 User unknown"
	}
}

// TestTarpitIsAskedPendingDecoysFirst: a host that has refused half of what it bears in an hour gets too slow to be asked
// further. Recipients that it has just accepted could not be confirmed after the pause. What confirms them is asked before, on
// the connection that is there, and nothing more; unless it is only one, which others of the list may confirm, or the host
// asked for a pause.
func TestTarpitIsAskedPendingDecoysFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		asked           string // together, when the host gets slow
		left            string // after them
		settled, decoys int
		fastDecoys      bool // decoys are answered quickly
	}{
		"several":              {"ann1@a ann2@a ann3@a", "ann4@a ann5@a", 3, 1, false},
		"several, then quick":  {"ann1@a ann2@a ann3@a", "ann4@a ann5@a", 3, 1, true},
		"one of several":       {"ann1@a", "ann2@a", 0, 0, false},
		"the last":             {"ann1@a ann2@a ann3@a", "", 3, 1, false},
		"the last one":         {"ann1@a", "", 1, 1, false},
		"many":                 {"ann1@a ann2@a ann3@a ann4@a ann5@a ann6@a ann7@a ann8@a", "ann9@a", 8, 1, false},
		"first of its domain":  {"ann@b", "ann1@a", 1, 1, false},
		"first, beside others": {"ann1@a ann2@a ann@b", "ann@c", 3, 1, false},
		"first of its domains": {"ann@b ann@c", "ann1@a ann2@a", 2, 2, false},
		"asked for a pause":    {"ann1@a ann2@a busy@a", "", 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			together, left := strings.Fields(tt.asked), strings.Fields(tt.left)
			table := strings.NewReplacer("connections = 2", "connections = 1", "refusals_per_hour = 0", "refusals_per_hour = 200",
				"recipients_per_transaction = 0", fmt.Sprintf("recipients_per_transaction = %d", len(together))).Replace(testTable)
			h := &fakeServer{rcpt: tarpit(100, tt.fastDecoys), noPipelining: true}
			withTestNode(t, table, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
				verify := func(hold time.Duration, addresses ...string) map[uint32]wire.Result {
					return b.verify(hold, b.rows(mxA, strings.Fields(strings.Join(addresses, ".example ")+".example")...)...)
				}
				before := []string{"ann@a"} // and its decoy
				for i := range 98 {
					before = append(before, fmt.Sprintf("nobody%d@a", i))
				}
				verify(10*time.Minute, before...)
				var late, first, then sync.WaitGroup
				late.Go(func() { verify(10*time.Minute, "late@a") })
				time.Sleep(time.Second / 4) // what comes now finds the connection busy, and is asked together
				settled := 0
				first.Go(func() {
					for _, r := range verify(2*time.Minute, together...) {
						if r.Outcome == wire.Settled {
							settled++
							require.Equal(t, "VALID", verdictText(r.Verdict))
						}
					}
				})
				time.Sleep(time.Second / 4)
				if len(left) > 0 {
					then.Go(func() { verify(2*time.Minute, left...) })
				}
				late.Wait()
				first.Wait()
				then.Wait()
				saw := h.snapshot()
				require.Equal(t, tt.settled, settled, "%v", saw.log[100:])
				require.Len(t, saw.refusalTimes, 100+tt.decoys)
				require.Len(t, saw.rcptTimes, 101+len(together)+tt.decoys, "nobody else is asked: %v", saw.log[100:])
				require.Len(t, saw.dialTimes, 1, "on the connection that was there")
			})
		})
	}
}

// TestUnconfirmedRowsDoNotWaitTwice: an acceptance that nothing could confirm any more while its host was paused need not wait
// again.
func TestUnconfirmedRowsDoNotWaitTwice(t *testing.T) {
	table := strings.NewReplacer("connections = 2", "connections = 1", "refusals_per_hour = 0", "refusals_per_hour = 20",
		"recipients_per_transaction = 0", "recipients_per_transaction = 1").Replace(testTable)
	h := &fakeServer{rcpt: tarpit(10, false), noPipelining: true}
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

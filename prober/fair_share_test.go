package prober

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// TestShortJobsGetTheLargerShare runs two jobs at one host, each with more rows than its budget per minute: if one is
// short, it gets three of four recipients.
func TestShortJobsGetTheLargerShare(t *testing.T) {
	h := &fakeServer{}
	withTestNode(t, tableWith("recipients_per_minute = 0", "recipients_per_minute = 50",
		"recipients_per_transaction = 0", "recipients_per_transaction = 5"), nil,
		map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
			var jobs sync.WaitGroup
			for job, domain := range map[string]string{"long": "l.example", "short": "s.example"} {
				batch := &wire.Batch{Job: job, Short: job == "short", Started: time.Now(),
					Rows: b.rows(mxA, numberedAddresses(120, domain)...)}
				jobs.Go(func() {
					require.NoError(t, b.prober.Verify(context.Background(), batch, 3*time.Minute,
						func(wire.Results) {}))
				})
			}
			jobs.Wait()
			rcpts := h.snapshot().rcptTimes
			first := map[string]int{}
			for i, line := range slices.DeleteFunc(h.snapshot().log, func(line string) bool { return line == "MAIL" }) {
				// the first minute goes to the job that comes first
				if at := rcpts[i].Sub(rcpts[0]); at > time.Minute && at < 3*time.Minute {
					first[line[strings.IndexByte(line, '@')+1:]]++
				}
			}
			require.InDelta(t, 3, float64(first["s.example"])/float64(first["l.example"]), 0.7, "%v", first)
		})
}

package stream

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
	"probity/prober/wire/timing"
)

// TestStatusHasCountersAndFindings: it comes with the node's status.
func TestStatusHasCountersAndFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported := wire.Status{Counters: []wire.Counter{{Name: "probity_prober_actions_total{pause}", Count: 3}},
			Audited: time.Unix(1_800_000_000, 0).UTC(),
			Findings: []wire.Finding{{Check: "ptr", Subject: "192.0.2.1", Severity: "fail", Message: "It has no name.",
				Advice: "Ask your network's owner for one."}}}
		l := newTestNode(t, time.Second, testOptions{server: func(c *ServerConfig) {
			c.Status = func() wire.Status { return reported }
		}}).waitIdle()
		time.Sleep(2 * timing.PingEvery)
		synctest.Wait()
		got := l.client.Status()
		require.Equal(t, reported.Counters, got.Counters)
		require.Equal(t, reported.Findings, got.Findings)
		require.Equal(t, reported.Audited, got.Audited)
	})
}

package wire

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"probity/prober/wire/timing"
)

// TestStatusHasCountersAndFindings: it comes with the node's status.
func TestStatusHasCountersAndFindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reported := Status{Counters: []Counter{{"probity_prober_actions_total{pause}", 3}}, Audited: time.Unix(1_800_000_000, 0).UTC(),
			Findings: []Finding{{"ptr", "192.0.2.1", "fail", "It has no name.", "Ask your network's owner for one."}}}
		l := newTestNode(t, time.Second, testOptions{server: func(c *ServerConfig) { c.Status = func() Status { return reported } }}).waitIdle()
		time.Sleep(2 * timing.PingEvery)
		synctest.Wait()
		got := l.client.Status()
		require.Equal(t, reported.Counters, got.Counters)
		require.Equal(t, reported.Findings, got.Findings)
		require.Equal(t, reported.Audited, got.Audited)
	})
}

// TestStatusReportIsBounded, on both sides: a node that keeps no bounds takes no more of its coordinator's memory.
func TestStatusReportIsBounded(t *testing.T) {
	long := strings.Repeat("é", 1<<20) + "\xff"
	var all Status
	f := &StatusFrame{}
	for range 2000 {
		all.Counters = append(all.Counters, Counter{long, 1})
		all.Findings = append(all.Findings, Finding{long, long, long, long, long})
		f.Meters = append(f.Meters, &MeterFrame{Name: long, Count: 1})
		f.Findings = append(f.Findings, &FindingFrame{Check: long, Subject: long, Level: long, What: long, Do: long})
	}
	require.Less(t, proto.Size(newStatusFrame(all)), 256<<10)
	kept := f.read()
	require.Len(t, kept.Counters, maxCounters)
	require.Len(t, kept.Findings, maxFindings)
	require.Less(t, proto.Size(newStatusFrame(kept)), 256<<10)
	require.Equal(t, strings.Repeat("é", maxWord/2), kept.Counters[0].Name)
	require.Equal(t, strings.Repeat("é", maxSentence/2), kept.Findings[0].Message)
	require.Equal(t, "é", clip("éé", 3), "no half of a character")
}

package prober

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestQuarantineLogIsBounded: many quarantines of a source within a minute are logged as a few lines and a count.
func TestQuarantineLogIsBounded(t *testing.T) {
	const receivers = 60
	var out bytes.Buffer
	hosts := map[string]*fakeServer{}
	for i := range receivers {
		hosts[fmt.Sprintf("mx.r%d.example", i)] = &fakeServer{mailReply: "550 5.7.1 You are not welcome here, your IP address has a poor reputation"}
	}
	withTestNode(t, testTable, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&out, nil)) }, hosts, func(b *testNode) {
		for i := range receivers {
			require.Equal(t, "UNKNOWN blocked", verdictText(b.single(time.Minute, []string{fmt.Sprintf("mx.r%d.example", i)}, fmt.Sprintf("ann@r%d.example", i))))
		}
		time.Sleep(5 * time.Minute)
	})
	require.Equal(t, maxLogged, strings.Count(out.String(), "receiver quarantined an egress source"), out.String())
	require.Equal(t, 1, strings.Count(out.String(), "further quarantines not logged\" times="+fmt.Sprint(receivers-maxLogged)), out.String())
}

// TestLogLimiter counts by the minute: the first lines of a minute are logged, the others counted.
func TestLogLimiter(t *testing.T) {
	var r logLimiter
	at := time.Unix(1_700_000_000, 0)
	logged := 0
	for range 10 {
		if r.allow(at) {
			logged++
		}
	}
	require.Equal(t, maxLogged, logged)
	require.Zero(t, r.takeSkipped(at.Add(logSpan-1)))
	require.False(t, r.allow(at.Add(2*logSpan)), "not before the count was told")
	require.Equal(t, 8, r.takeSkipped(at.Add(2*logSpan)))
	require.Zero(t, r.takeSkipped(at.Add(4*logSpan)))
	require.True(t, r.allow(at.Add(4*logSpan)))
}

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
	const logged = 3
	require.Equal(t, logged, strings.Count(out.String(), "receiver quarantined an egress source"), out.String())
	require.Equal(t, 1, strings.Count(out.String(), "further quarantines not logged\" times="+fmt.Sprint(receivers-logged)), out.String())
}

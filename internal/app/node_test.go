package app

import (
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"probity/coordinator"
	"probity/internal/nodeflags"
	"probity/prober/wire/press"
)

// TestSinglesAnsweredWithoutProbingCountAsLoad: jobs yield to single calls that the coordinator decides alone, with its
// prober in the same process.
func TestSinglesAnsweredWithoutProbingCountAsLoad(t *testing.T) {
	metrics := prometheus.NewRegistry()
	flags := nodeflags.Probing{DNS: []nodeflags.ResolverAddr{{AddrPort: netip.MustParseAddrPort("127.0.0.1:53")}},
		MailFrom: "probe@us.example", SMTPPort: 25}
	n, err := OpenNode(&flags, NodeConfig{FS: vfs.NewMem(), Dir: "node", Log: slog.New(slog.DiscardHandler),
		metrics: metrics})
	require.NoError(t, err)
	defer func() { require.NoError(t, n.Close()) }()
	reported := errors.New("no host was asked")
	// on a slow machine the load may have ended before the metric is read
	for tries := 0; reported != nil && tries < 10; tries++ {
		for range 100 * press.Least {
			_, err := n.Coordinator.Single(t.Context(), coordinator.Request{Email: "nobody"})
			require.NoError(t, err)
		}
		reported = testutil.GatherAndCompare(metrics, strings.NewReader(`
			# HELP probity_prober_single_load_high 1 while so many single calls come that jobs give way to them, else 0.
			# TYPE probity_prober_single_load_high gauge
			probity_prober_single_load_high 1
		`), "probity_prober_single_load_high")
	}
	require.NoError(t, reported)
}

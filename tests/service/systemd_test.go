package service_test

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/tests/harness"
)

// TestServerTellsSystemd: a server is ready when it serves, says that it lives while it does, and that it stops.
func TestServerTellsSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer socket.Close()
	c := harness.Command(t.Context(), "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0",
		"--admin-listen", "127.0.0.1:0", "--dns", "127.0.0.1:1")
	var log strings.Builder
	c.Stderr = &log
	c.Env = append(c.Environ(), "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=200000")
	require.NoError(t, c.Start())
	told := func() string {
		got := make([]byte, 100)
		n, err := socket.Read(got)
		require.NoError(t, err)
		return string(got[:n])
	}
	require.Equal(t, "READY=1", told())
	require.Equal(t, "WATCHDOG=1", told())
	require.NoError(t, c.Process.Signal(syscall.SIGTERM))
	last := told()
	for last == "WATCHDOG=1" {
		last = told()
	}
	require.Equal(t, "STOPPING=1", last)
	require.NoError(t, c.Wait(), log.String())
	require.NotContains(t, log.String(), "health check failed")
}

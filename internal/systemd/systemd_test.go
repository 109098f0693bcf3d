package systemd

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWatchdogIsToldAfterHealthChecks: health checks leave a mark in the same socket, so that the order shows.
func TestWatchdogIsToldAfterHealthChecks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	require.NoError(t, err)
	defer socket.Close()
	mark, err := net.Dial("unixgram", path)
	require.NoError(t, err)
	defer mark.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	t.Setenv("WATCHDOG_USEC", "2000")
	ctx, stop := context.WithCancel(t.Context())
	checks := 0
	alive := func(context.Context) error {
		checks++
		result := "well"
		if checks == 2 {
			result = "unwell"
		}
		_, err := mark.Write([]byte(result))
		if result == "unwell" {
			err = errors.Join(err, errors.New("no answer"))
		}
		if checks == 3 {
			stop()
		}
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Tell(ctx, slog.New(slog.DiscardHandler), alive)
	}()
	for _, want := range []string{"READY=1", "well", "WATCHDOG=1", "unwell", "well", "WATCHDOG=1", "STOPPING=1"} {
		got := make([]byte, 100)
		n, err := socket.Read(got)
		require.NoError(t, err)
		require.Equal(t, want, string(got[:n]))
	}
	<-ended
}

// TestNothingIsToldWithoutSystemd: the process ends as it would.
func TestNothingIsToldWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	ctx, stop := context.WithCancel(t.Context())
	stop()
	Tell(ctx, slog.New(slog.DiscardHandler), func(context.Context) error {
		t.Error("nothing asks for health")
		return nil
	})
}

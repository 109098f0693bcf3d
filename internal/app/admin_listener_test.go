package app

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// statusForHost requests a page of a listener with a Host header, and returns the status.
func statusForHost(t *testing.T, listener net.Listener, host string) int {
	t.Helper()
	req, err := http.NewRequest("GET", "http://"+listener.Addr().String()+"/metrics", nil)
	require.NoError(t, err)
	req.Host = host
	res, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

// A foreign name that resolves to this machine (DNS rebinding) reads nothing of the admin listener.
func TestLoopbackListenerAnswersToItsOwnNames(t *testing.T) {
	for _, on := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		listener, err := net.Listen("tcp4", on)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- serveAdminHTTP(ctx, listener, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		}()
		for _, host := range []string{"localhost", "LocalHost:9090", "127.0.0.1", "127.0.0.1:9090", "[::1]:9090",
			"[::1]", "192.0.2.1:80"} {
			require.Equal(t, 200, statusForHost(t, listener, host), "%s as %s", on, host)
		}
		for _, host := range []string{"rebind.example", "rebind.example:9090", "localhost.rebind.example",
			"127.0.0.1.rebind.example"} {
			want := 403
			if on == "0.0.0.0:0" {
				want = 200 // on a network, any name is allowed
			}
			require.Equal(t, want, statusForHost(t, listener, host), "%s as %s", on, host)
		}
		stop()
		require.NoError(t, <-ended)
	}
}

// TestOpenAdminListenerIsWarnedOf once, unless it is on loopback.
func TestOpenAdminListenerIsWarnedOf(t *testing.T) {
	for address, warnings := range map[string]int{"127.0.0.1:0": 0, "localhost:0": 0, "0.0.0.0:0": 1, ":0": 1} {
		var log bytes.Buffer
		l, err := Process{Log: slog.New(slog.NewTextHandler(&log, nil))}.listenForAdmins(address)
		require.NoError(t, err)
		require.NoError(t, l.Close())
		require.Equal(t, warnings, strings.Count(log.String(), "level=WARN"), log.String())
		require.Equal(t, warnings, strings.Count(log.String(), "the admin listener has no authentication"),
			log.String())
	}
}

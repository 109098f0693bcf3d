package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestProxyWatch loses the proxy and finds it again: each is said once, and only of the proxy.
func TestProxyWatch(t *testing.T) {
	var words bytes.Buffer
	var failure error
	w := &proxyWatch{proxy: "192.0.2.1:1080", log: slog.New(slog.NewTextHandler(&words, nil)),
		dial: func(context.Context, netip.Addr, string, string) (net.Conn, error) { return nil, failure }}
	over, end := context.WithCancel(t.Context())
	end()
	dial := func(ctx context.Context, address string, fails error) {
		failure = fails
		_, err := w.connect(ctx, netip.Addr{}, "tcp", address)
		require.Equal(t, fails, err)
	}
	dial(t.Context(), "192.0.2.2:1080", syscall.ECONNREFUSED)
	dial(over, w.proxy, context.Canceled)
	require.Empty(t, words.String())
	for range 2 {
		dial(t.Context(), w.proxy, syscall.ECONNREFUSED)
	}
	require.Equal(t, 1, strings.Count(words.String(), "proxy of --socks5 is not reachable"), words.String())
	for range 2 {
		dial(t.Context(), w.proxy, nil)
	}
	require.Equal(t, 1, strings.Count(words.String(), "reachable again"), words.String())
}

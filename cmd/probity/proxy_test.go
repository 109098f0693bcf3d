package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"probity/engine/smtp"
)

// TestProxyLossAndReturnAreLoggedOnce loses the proxy and finds it again: each is logged once, and only for the proxy.
func TestProxyLossAndReturnAreLoggedOnce(t *testing.T) {
	var words bytes.Buffer
	var failure error
	const proxy = "192.0.2.1:1080"
	w := &proxyWatch{unreachable: map[string]*atomic.Bool{proxy: new(atomic.Bool)}, log: slog.New(slog.NewTextHandler(&words, nil)),
		dial: func(context.Context, netip.Addr, string, string) (net.Conn, error) { return nil, failure }}
	over, end := context.WithCancel(t.Context())
	end()
	dial := func(ctx context.Context, address string, fails error) {
		failure = fails
		_, err := w.connect(ctx, netip.Addr{}, "tcp", address)
		require.Equal(t, fails, err)
	}
	dial(t.Context(), "192.0.2.2:1080", syscall.ECONNREFUSED)
	dial(over, proxy, context.Canceled)
	require.Empty(t, words.String())
	for range 2 {
		dial(t.Context(), proxy, syscall.ECONNREFUSED)
	}
	require.Equal(t, 1, strings.Count(words.String(), "SOCKS5 proxy is not reachable"), words.String())
	for range 2 {
		dial(t.Context(), proxy, nil)
	}
	require.Equal(t, 1, strings.Count(words.String(), "reachable again"), words.String())
}

// A proxy's password comes from the command line, the environment or the configuration file, for all sources or for one. It is never
// shown.
func TestProxyPasswordsAreTakenAndNotShown(t *testing.T) {
	const secret = "hunter:s3:same"
	parse := func(file string, args ...string) (flags probingFlags, err error) {
		config, err := loadConfig(strings.NewReader(file))
		require.NoError(t, err)
		k, err := kong.New(&flags, kong.DefaultEnvars("PROBITY"), kong.Resolvers(config))
		require.NoError(t, err)
		_, err = k.Parse(args)
		return flags, err
	}
	source := "--egress=127.0.0.1/192.0.2.1=a.example,socks5=" + secret + "@own.example:1080"
	fromFile, err := parse(`socks5 = "`+secret+`@all.example:1080"`, source, "--egress==b.example")
	require.NoError(t, err)
	t.Setenv("PROBITY_SOCKS5", secret+"@all.example:1080")
	fromEnv, err := parse("", source, "--egress==b.example")
	require.NoError(t, err)
	fromArgs, err := parse("", "--socks5="+secret+"@all.example:1080", source, "--egress==b.example")
	require.NoError(t, err)
	for _, flags := range []probingFlags{fromFile, fromEnv, fromArgs} {
		flags.Concurrency = 10
		cfg, err := flags.proberConfig(nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		all, err := smtp.ParseProxy(secret + "@all.example:1080")
		require.NoError(t, err)
		own, err := smtp.ParseProxy(secret + "@own.example:1080")
		require.NoError(t, err)
		require.Equal(t, all, cfg.SOCKS5)
		require.Equal(t, own, cfg.Sources[0].SOCKS5)
		require.Zero(t, cfg.Sources[1].SOCKS5)
		require.Equal(t, "192.0.2.1", cfg.Sources[0].Name())

		shown, err := json.Marshal(flags)
		require.NoError(t, err)
		require.NotContains(t, string(shown), "hunter")
		require.NotContains(t, string(shown), "s3")
		require.Contains(t, string(shown), `"***@all.example:1080"`)
		require.Contains(t, string(shown), `"127.0.0.1/192.0.2.1=a.example,socks5=***@own.example:1080"`)
	}
	for _, args := range [][]string{{"--socks5=" + secret + "@all.example"}, {"--socks5=hunter@all.example:1"}, {"--egress=192.0.2.1,socks5=" + secret + "@own.example:1080"}, {"--egress=192.0.2.1=a.example,socks5=" + secret + "@own"}, {"--egress=192.0.2.999=a.example,socks5=" + secret + "@own.example:1"}, {"--egress=192.0.2.77=a.example,socks5=" + secret + "@own.example:1"}} {
		flags, err := parse("", args...)
		if err == nil {
			_, err = flags.identities()
		}
		require.Error(t, err, "%v", args)
		require.NotContains(t, err.Error(), "hunter")
		require.NotContains(t, err.Error(), "s3")
	}
	t.Setenv("PROBITY_SOCKS5", secret+"@all.example")
	_, err = parse("")
	require.ErrorContains(t, err, "write HOST:PORT")
	require.NotContains(t, err.Error(), "hunter")
}

package nodeflags

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"probity/internal/console"
)

// FuzzEgress: an accepted --egress has an EHLO name and complete addresses; a refused one is refused as wrong usage.
func FuzzEgress(f *testing.F) {
	for _, s := range []string{"192.0.2.1=mx.example.org", "10.0.0.5/192.0.2.1=mx.example.org", "=mx.example.org",
		"fe80::1%eth0=mx.example.org",
		"192.0.2.1=[192.0.2.1]", "192.0.2.1=", "a/b=c", "/=x.example", "192.0.2.1=mx.example.org\r\nMAIL FROM"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		id, err := Egress(s).Parse()
		if err != nil {
			require.ErrorIs(t, err, console.ErrUsage)
			return
		}
		require.NotEmpty(t, id.EHLO)
		require.False(t, strings.ContainsAny(id.EHLO, " \r\n\x00"), "%q", id.EHLO)
		before, _, _ := strings.Cut(s, "=")
		require.Equal(t, strings.Contains(before, "/") || before != "", id.Public.IsValid(), "%q", s)
	})
}

// FuzzSource is the same for --callback-source.
func FuzzSource(f *testing.F) {
	for _, s := range []string{"", "192.0.2.1", "10.0.0.5/192.0.2.1", "/", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, published, err := ParseSource(s)
		if err != nil {
			require.ErrorIs(t, err, console.ErrUsage)
			return
		}
		require.Equal(t, s == "", len(published) == 0)
	})
}

// TestResolverNames: the system resolves a name, and its error is reported. Not every system knows localhost: a bare
// Debian has no /etc/hosts.
func TestResolverNames(t *testing.T) {
	var r ResolverAddr
	// an invalid name, so that no server is queried
	require.ErrorContains(t, r.UnmarshalText([]byte("no..name:53")), "lookup no..name")
	err := r.UnmarshalText([]byte("localhost:53"))
	if _, unknown := net.LookupHost("localhost"); unknown != nil {
		require.ErrorContains(t, err, "lookup localhost")
		return
	}
	require.NoError(t, err)
	require.True(t, r.Addr().IsLoopback(), r)
}

func TestAddressLiterals(t *testing.T) {
	for s, want := range map[string]bool{"[192.0.2.1]": true, "[IPv6:2001:db8::1]": true, "[2001:db8::1]": false,
		"[IPv6:192.0.2.1]": false, "[": false,
		"[]": false, "192.0.2.1": false, "[192.0.2.1": false, "[0 0]": false, "[IPv6:fe80::1%eth0]": false,
		"[192.0.2.1]\r\nQUIT": false} {
		require.Equal(t, want, addressLiteral(s), "%q", s)
	}
}

func TestResolverAddresses(t *testing.T) {
	for _, s := range []string{"", ":53", "192.0.2.53", "192.0.2.53:0", "192.0.2.53:99999", "2001:db8::1",
		"[192.0.2.53"} {
		var r ResolverAddr
		require.ErrorContains(t, r.UnmarshalText([]byte(s)), "write HOST:PORT", "%q", s)
	}
	for s, want := range map[string]string{"192.0.2.53:53": "192.0.2.53:53",
		"[2001:db8::1]:5353": "[2001:db8::1]:5353"} {
		var r ResolverAddr
		require.NoError(t, r.UnmarshalText([]byte(s)), s)
		require.Equal(t, want, r.String(), s)
	}
	require.ErrorContains(t, (&Probing{SOCKS5: "proxy", SMTPPort: 25}).Validate(), "write HOST:PORT")
	require.NoError(t, (&Probing{SOCKS5: "proxy:1080", SMTPPort: 25}).Validate())
}

// TestProxyLossAndReturnAreLoggedOnce loses the proxy and finds it again: each is logged once, and only for the proxy.
func TestProxyLossAndReturnAreLoggedOnce(t *testing.T) {
	var words bytes.Buffer
	var failure error
	const proxy = "192.0.2.1:1080"
	w := &proxyWatch{unreachable: map[string]*atomic.Bool{proxy: new(atomic.Bool)},
		log:  slog.New(slog.NewTextHandler(&words, nil)),
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

func TestProxyIsSetByItsEnvironmentVariable(t *testing.T) {
	t.Setenv("PROBITY_SOCKS5", "proxy.example:1080")
	var flags Probing
	k, err := kong.New(&flags, kong.DefaultEnvars("PROBITY"))
	require.NoError(t, err)
	_, err = k.Parse(nil)
	require.NoError(t, err)
	require.EqualValues(t, "proxy.example:1080", flags.SOCKS5)
}

package smtp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// playLockedProxy is a SOCKS5 proxy that requires a user and a password (RFC 1929).
func playLockedProxy(conn net.Conn, want string) {
	defer conn.Close()
	b := make([]byte, 600)
	if _, err := io.ReadFull(conn, b[:2]); err != nil {
		return
	}
	methods := b[2 : 2+b[1]]
	if _, err := io.ReadFull(conn, methods); err != nil || !strings.Contains(string(methods), "\x02") {
		_, _ = conn.Write([]byte{5, 0xff}) // no acceptable method
		return
	}
	_, _ = conn.Write([]byte{5, 2})
	var got []string
	_, _ = io.ReadFull(conn, b[:1])
	for range 2 {
		_, _ = io.ReadFull(conn, b[:1])
		word := make([]byte, b[0])
		_, _ = io.ReadFull(conn, word)
		got = append(got, string(word))
	}
	if strings.Join(got, ":") != want {
		_, _ = conn.Write([]byte{1, 1})
		return
	}
	_, _ = conn.Write([]byte{1, 0})
	_, _ = io.ReadFull(conn, b[:10])
	_, _ = conn.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	_, _ = io.Copy(io.Discard, conn)
}

// A proxy that needs a password gets it, and one that refuses us says nothing about the target.
func TestProxyAuthentication(t *testing.T) {
	for given, want := range map[string]engine.Event{
		"ann:s3:c@ret@10.9.9.9:1080": engine.EventReply,
		"ann:wrong@10.9.9.9:1080":    engine.EventInternal,
		"10.9.9.9:1080":              engine.EventInternal,
	} {
		p, err := ParseProxy(given)
		require.NoError(t, err)
		d := Dialer{SOCKS5: p, Dial: func(_ context.Context, _ netip.Addr, _, address string) (net.Conn, error) {
			require.Equal(t, "10.9.9.9:1080", address)
			client, server := connect(1 << 10)
			go playLockedProxy(server, "ann:s3:c@ret")
			return client, nil
		}}
		conn, f := d.DialContext(t.Context(), netip.MustParseAddrPort("8.8.8.8:25"))
		require.Equal(t, want, f.Event, "%s: %s", given, describe(f))
		require.Equal(t, want == engine.EventReply, conn != nil)
		if conn != nil {
			require.NoError(t, conn.Close())
		} else {
			require.Equal(t, "the SOCKS5 proxy does not let us in: check its user and password", f.Detail)
		}
	}
}

// However a proxy is printed or refused, its user and password are hidden.
func TestProxySecretsAreNotShown(t *testing.T) {
	p, err := ParseProxy("hunter:sesame@proxy.example:1080")
	require.NoError(t, err)
	asJSON, err := json.Marshal(map[string]any{"p": p, "q": &p})
	require.NoError(t, err)
	shown := []string{p.String(), fmt.Sprint(p, &p), fmt.Sprintf("%v %+v %#v %s %q", p, p, p, p, p), string(asJSON)}
	for _, bad := range []string{"hunter:sesame@proxy.example", "hunter@sesame:1080@", "hunter:@sesame:1080",
		":sesame@hunter:1080", "hunter:sesame@:1080", "hunter:sesame@h:0",
		"hunter:sesame@h:smtp", "hunter:sesame" + strings.Repeat("x", 255) + "@h:1", "hunter:sesame", ""} {
		_, err := ParseProxy(bad)
		require.Error(t, err, bad)
		shown = append(shown, err.Error())
	}
	for _, s := range shown {
		require.NotContains(t, s, "hunter")
		require.NotContains(t, s, "sesame")
	}
	require.Contains(t, p.String(), "proxy.example:1080")
}

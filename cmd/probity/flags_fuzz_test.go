package main

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/internal/console"
)

// FuzzEgress: an accepted --egress has an EHLO name and complete addresses; a refused one is refused as wrong usage.
func FuzzEgress(f *testing.F) {
	for _, s := range []string{"192.0.2.1=mx.example.org", "10.0.0.5/192.0.2.1=mx.example.org", "=mx.example.org", "fe80::1%eth0=mx.example.org",
		"192.0.2.1=[192.0.2.1]", "192.0.2.1=", "a/b=c", "/=x.example", "192.0.2.1=mx.example.org\r\nMAIL FROM"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		spec, err := egressFlag(s).parse()
		if err != nil {
			require.ErrorIs(t, err, console.ErrUsage)
			return
		}
		require.NotEmpty(t, spec.ehlo)
		require.False(t, strings.ContainsAny(spec.ehlo, " \r\n\x00"), "%q", spec.ehlo)
		before, _, _ := strings.Cut(s, "=")
		require.Equal(t, strings.Contains(before, "/") || before != "", spec.public.IsValid(), "%q", s)
	})
}

// TestResolverNames: the system resolves a name, and its error is reported. Not every system knows localhost: a bare Debian has
// no /etc/hosts.
func TestResolverNames(t *testing.T) {
	var r resolverAddr
	require.ErrorContains(t, r.UnmarshalText([]byte("no..name:53")), "lookup no..name") // an invalid name, so that no server is queried
	err := r.UnmarshalText([]byte("localhost:53"))
	if _, unknown := net.LookupHost("localhost"); unknown != nil {
		require.ErrorContains(t, err, "lookup localhost")
		return
	}
	require.NoError(t, err)
	require.True(t, r.Addr().IsLoopback(), r)
}

func TestAddressLiterals(t *testing.T) {
	for s, want := range map[string]bool{"[192.0.2.1]": true, "[IPv6:2001:db8::1]": true, "[2001:db8::1]": false, "[IPv6:192.0.2.1]": false, "[": false,
		"[]": false, "192.0.2.1": false, "[192.0.2.1": false, "[0 0]": false, "[IPv6:fe80::1%eth0]": false, "[192.0.2.1]\r\nQUIT": false} {
		require.Equal(t, want, addressLiteral(s), "%q", s)
	}
}

func TestResolverAddresses(t *testing.T) {
	for _, s := range []string{"", ":53", "192.0.2.53", "192.0.2.53:0", "192.0.2.53:99999", "2001:db8::1", "[192.0.2.53"} {
		var r resolverAddr
		require.ErrorContains(t, r.UnmarshalText([]byte(s)), "write HOST:PORT", "%q", s)
	}
	for s, want := range map[string]string{"192.0.2.53:53": "192.0.2.53:53", "[2001:db8::1]:5353": "[2001:db8::1]:5353"} {
		var r resolverAddr
		require.NoError(t, r.UnmarshalText([]byte(s)), s)
		require.Equal(t, want, r.String(), s)
	}
	require.ErrorContains(t, (&probingFlags{SOCKS5: "proxy", SMTPPort: 25}).Validate(), "write HOST:PORT")
	require.NoError(t, (&probingFlags{SOCKS5: "proxy:1080", SMTPPort: 25}).Validate())
}

// FuzzSource is the same for --callback-source.
func FuzzSource(f *testing.F) {
	for _, s := range []string{"", "192.0.2.1", "10.0.0.5/192.0.2.1", "/", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_, published, err := parseSource(s)
		if err != nil {
			require.ErrorIs(t, err, console.ErrUsage)
			return
		}
		require.Equal(t, s == "", len(published) == 0)
	})
}

// FuzzConfig: no configuration file causes a panic.
func FuzzConfig(f *testing.F) {
	f.Add("listen = \"127.0.0.1:8080\"\negress = [\"192.0.2.1=mx.example.org\"]\n")
	f.Add("data = 1e400\n[a]\nb = 1979-05-27\n")
	f.Fuzz(func(t *testing.T, text string) {
		values, err := loadConfig(strings.NewReader(text))
		require.Equal(t, err == nil, values != nil)
	})
}

// A zero would be taken for the default, and a floor below zero for more than any disk has.
func TestServeRefusesZeroAndNegativeNumbers(t *testing.T) {
	good := serveCmd{Listen: ":8080", AdminListen: ":9090", InitialCredits: 0, PublicPerDay: 1, DiskFloor: 1}
	good.SMTPPort, good.RetainResults = 25, period(7*day)
	require.NoError(t, good.Validate())
	for words, spoil := range map[string]func(*serveCmd){
		"--initial-credits -1":                    func(c *serveCmd) { c.InitialCredits = -1 },
		"--public-per-day 0":                      func(c *serveCmd) { c.PublicPerDay = 0 },
		"--disk-floor -1":                         func(c *serveCmd) { c.DiskFloor = -1 },
		"--retain-results 0d: give 1d to 30d":     func(c *serveCmd) { c.RetainResults = 0 },
		"--retain-results 31d: give 1d to 30d":    func(c *serveCmd) { c.RetainResults = period(31 * day) },
		"--retain-history 29d: give 30d to 3650d": func(c *serveCmd) { c.RetainHistory = period(29 * day) },
		"--retain-cache 30m: give 1h to 31d":      func(c *serveCmd) { c.RetainCache = period(30 * time.Minute) },
		"--mail-from":                             func(c *serveCmd) { c.MailFrom = "nobody" },
	} {
		c := good
		spoil(&c)
		require.ErrorContains(t, c.Validate(), words)
	}
}

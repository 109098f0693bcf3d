package conn

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/engine/smtp"
	"probity/prober/source"
)

func newSource(t *testing.T, id source.Identity) *source.Source {
	all, err := source.New([]source.Identity{id}, "probe@us.example")
	require.NoError(t, err)
	return all.List[0]
}

// TestAddressIsAskedFromASourceThatReachesIt: IPv6 addresses from the node's IPv6 source, if it has one.
func TestAddressIsAskedFromASourceThatReachesIt(t *testing.T) {
	ipv4 := newSource(t, source.Identity{Local: netip.MustParseAddr("192.0.2.1"), EHLO: "four.us.example"})
	ipv6 := newSource(t, source.Identity{Local: netip.MustParseAddr("2001:db8::1"), EHLO: "six.us.example"})
	four, six := netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("2001:db8::2")
	both, alone := &Opener{IPv6: ipv6}, &Opener{}
	require.Equal(t, ipv4, both.SourceFor(four, ipv4))
	require.Equal(t, ipv6, both.SourceFor(six, ipv4))
	require.Equal(t, ipv6, alone.SourceFor(six, ipv6))
	require.Nil(t, alone.SourceFor(six, ipv4))
	require.Nil(t, both.SourceFor(four, ipv6))
}

// TestPublicServersNeedASenderIdentity: an EHLO host name and a MAIL FROM.
func TestPublicServersNeedASenderIdentity(t *testing.T) {
	named, unnamed := newSource(t, source.Identity{EHLO: "mail.us.example"}), newSource(t, source.Identity{})
	public, private := netip.MustParseAddr("9.9.9.9"), netip.MustParseAddr("10.1.1.1")
	o := &Opener{MailFrom: "probe@us.example"}
	require.False(t, o.LacksIdentity(named, public))
	require.True(t, o.LacksIdentity(unnamed, public))
	require.False(t, o.LacksIdentity(unnamed, private))
	require.True(t, (&Opener{}).LacksIdentity(named, public))
}

// TestDialEndsInTime: at ConnectTimeout, with the source's address; and private addresses are not dialled unless
// allowed.
func TestDialEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		src := newSource(t, source.Identity{Local: netip.MustParseAddr("192.0.2.1"), EHLO: "mail.us.example"})
		var dialled []string
		o := &Opener{Port: 25, ConnectTimeout: 15 * time.Second,
			DialFunc: func(ctx context.Context, local netip.Addr, _, address string) (net.Conn, error) {
				dialled = append(dialled, local.String()+" "+address)
				<-ctx.Done()
				return nil, ctx.Err()
			}}
		began := time.Now()
		_, f := o.Dial(t.Context(), src, netip.MustParseAddr("9.9.9.9"))
		require.Equal(t, engine.EventTimeout, f.Event)
		require.Equal(t, 15*time.Second, time.Since(began))
		_, f = o.Dial(t.Context(), src, netip.MustParseAddr("10.1.1.1"))
		require.Equal(t, engine.EventRefusedHost, f.Event)
		require.Equal(t, []string{"192.0.2.1 9.9.9.9:25"}, dialled)
	})
}

// TestTLSIsLeftOutAfterItFailed: opportunistic TLS only. A source without a name greets with an address literal.
func TestTLSIsLeftOutAfterItFailed(t *testing.T) {
	for name, tt := range map[string]struct {
		host     Host
		startTLS bool
	}{
		"first":    {Host{Provider: &engine.Provider{TLS: engine.TLSOpportunistic}}, true},
		"failed":   {Host{Provider: &engine.Provider{TLS: engine.TLSOpportunistic}, NoTLS: true}, false},
		"required": {Host{Provider: &engine.Provider{TLS: engine.TLSRequired}, NoTLS: true}, true},
		"unknown":  {Host{Provider: &engine.Provider{TLS: engine.TLSOpportunistic}, NoTLS: true, Unknown: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs := net.Pipe()
			heard := make(chan []string, 1)
			go func() { heard <- offerTLS(theirs) }()
			tt.host.Name = "mx.a.example"
			session, f := (&Opener{MailFrom: "probe@us.example"}).Greet(t.Context(), ours,
				newSource(t, source.Identity{}), tt.host)
			require.Equal(t, f.None(), session != nil)
			if session != nil {
				session.Quit(t.Context())
			}
			said := <-heard
			require.Equal(t, "EHLO [127.0.0.1]", said[0])
			require.Equal(t, tt.startTLS, strings.Contains(strings.Join(said, "\n"), "STARTTLS"))
		})
	}
}

// offerTLS is a server that offers STARTTLS and closes when it is asked for it. It returns the commands that came.
func offerTLS(c net.Conn) (heard []string) {
	defer c.Close()
	in := bufio.NewReader(c)
	for reply := "220 mx.a.example"; ; reply = "250-mx.a.example\r\n250 STARTTLS" {
		if _, err := fmt.Fprintf(c, "%s\r\n", reply); err != nil {
			return heard
		}
		line, err := in.ReadString('\n')
		line = strings.TrimSpace(line)
		if line != "" {
			heard = append(heard, line)
		}
		if err != nil || line == "STARTTLS" || line == "QUIT" {
			return heard
		}
	}
}

// TestLocalFailureSaysNothingAboutTheServer: such as no file descriptor left.
func TestLocalFailureSaysNothingAboutTheServer(t *testing.T) {
	o := &Opener{Port: 25, ConnectTimeout: time.Second, SOCKS5: smtp.Proxy{Addr: "127.0.0.1:1080"},
		DialFunc: func(context.Context, netip.Addr, string, string) (net.Conn, error) {
			return nil, errors.New("no proxy")
		}}
	_, f := o.Dial(t.Context(), newSource(t, source.Identity{EHLO: "mail.us.example"}), netip.MustParseAddr("9.9.9.9"))
	require.Equal(t, engine.EventInternal, f.Event)
}

// TestFewAddressesOfBothFamilies: the first ones, and one of the other family if the host has any.
func TestFewAddressesOfBothFamilies(t *testing.T) {
	addrs := func(all ...string) (list []netip.Addr) {
		for _, a := range all {
			list = append(list, netip.MustParseAddr(a))
		}
		return list
	}
	two := addrs("10.0.0.1", "2001:db8::1")
	require.Equal(t, two, firstAddresses(two))
	require.Equal(t, addrs("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"),
		firstAddresses(addrs("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5")))
	require.Equal(t, addrs("10.0.0.1", "10.0.0.2", "10.0.0.3", "2001:db8::1"),
		firstAddresses(addrs("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "2001:db8::1", "2001:db8::2")))
	mixed := addrs("10.0.0.1", "2001:db8::1", "10.0.0.3", "10.0.0.4", "2001:db8::2")
	require.Equal(t, mixed[:4], firstAddresses(mixed))
}

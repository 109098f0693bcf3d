package smtp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
	"testing"

	"probity/engine"
)

func TestClassOf(t *testing.T) {
	for class, addrs := range map[Class][]string{
		Public: {"8.8.8.8", "172.15.0.1", "172.32.0.1", "100.63.255.255", "223.255.255.255", "2606:4700::1111",
			"::ffff:8.8.8.8",
			"2002:808:808::1", "64:ff9b::808:808", "2001:4860::8888"},
		Private: {"10.0.0.1", "127.0.0.1", "127.16.4.5", "169.254.1.1", "172.16.0.1", "192.168.1.1", "100.64.0.1",
			"198.18.0.1", "::1", "fe80::1%eth0",
			"fd12::1", "::ffff:127.0.0.1", "2002:7f00:1::", "64:ff9b::a00:1", "64:ff9b:1::1"},
		Bogus: {"0.0.0.0", "0.1.2.3", "240.0.0.1", "255.255.255.255", "224.0.0.1", "192.0.2.1", "198.51.100.7",
			"203.0.113.9", "169.254.169.254",
			"100.100.100.200", "192.0.0.8", "::", "ff02::1", "2001:db8::1", "2001::1", "3fff::1", "100::1", "::8.8.8.8",
			"4000::1", "::ffff:0.0.0.0",
			"2002:e000:1::", "64:ff9b::a9fe:a9fe", "fd00:ec2::254"},
	} {
		for _, a := range addrs {
			if got := ClassOf(netip.MustParseAddr(a)); got != class {
				t.Errorf("%s: %d, want %d", a, got, class)
			}
		}
	}
	if ClassOf(netip.Addr{}) != Bogus {
		t.Error("the zero address")
	}
}

func TestDialer(t *testing.T) {
	refusing := func(err error) DialFunc {
		return func(context.Context, netip.Addr, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Err: err}
		}
	}
	never := refusing(errors.New("must not be dialled"))
	for _, c := range []struct {
		target string
		d      Dialer
		want   engine.Event
	}{
		{"127.0.0.1:25", Dialer{Dial: never}, engine.EventRefusedHost},
		{"[::ffff:10.0.0.1]:25", Dialer{Dial: never}, engine.EventRefusedHost},
		{"0.0.0.0:25", Dialer{Dial: never, AllowPrivate: true}, engine.EventRefusedHost},
		{"240.0.0.1:25", Dialer{Dial: never, AllowPrivate: true}, engine.EventRefusedHost},
		{"8.8.8.8:0", Dialer{Dial: never}, engine.EventRefusedHost},
		{"8.8.8.8:25", Dialer{Dial: refusing(syscall.ECONNREFUSED)}, engine.EventConnectFailed},
		{"8.8.8.8:25", Dialer{Dial: refusing(syscall.ENETUNREACH)}, engine.EventConnectFailed},
		{"8.8.8.8:25", Dialer{Dial: refusing(os.ErrDeadlineExceeded)}, engine.EventTimeout},
		{"8.8.8.8:25", Dialer{Dial: refusing(syscall.EADDRNOTAVAIL)}, engine.EventInternal},
		{"8.8.8.8:25", Dialer{Dial: refusing(syscall.EMFILE)}, engine.EventInternal},
		{"8.8.8.8:25", Dialer{Dial: refusing(syscall.ECONNREFUSED), SOCKS5: Proxy{Addr: "127.0.0.1:1080"}},
			engine.EventInternal},
	} {
		if _, f := c.d.DialContext(t.Context(), netip.MustParseAddrPort(c.target)); f.Event != c.want {
			t.Errorf("%s: %s, want %s", c.target, describe(f), eventNames[c.want])
		}
	}
}

func TestDialerBindsAndConnects(t *testing.T) {
	local := netip.MustParseAddr("198.18.0.7")
	d := Dialer{Local: local}
	d.Dial = func(_ context.Context, from netip.Addr, network, address string) (net.Conn, error) {
		if from != local || network != "tcp" || address != "8.8.8.8:25" {
			t.Error(from, network, address)
		}
		c, _ := connect(64)
		return c, nil
	}
	if conn, f := d.DialContext(t.Context(), netip.MustParseAddrPort("8.8.8.8:25")); conn == nil || !f.None() {
		t.Error(describe(f))
	}
}

// Over a proxy the target is still checked, and the proxy's answer about it counts as the target's.
func TestDialerOverSOCKS5(t *testing.T) {
	for reply, want := range map[byte]engine.Event{0: engine.EventReply, 5: engine.EventConnectFailed} {
		d := Dialer{SOCKS5: Proxy{Addr: "10.9.9.9:1080"},
			Dial: func(_ context.Context, _ netip.Addr, _, address string) (net.Conn, error) {
				if address != "10.9.9.9:1080" {
					t.Error(address)
				}
				client, server := connect(1 << 10)
				go playProxy(server, reply)
				return client, nil
			}}
		conn, f := d.DialContext(t.Context(), netip.MustParseAddrPort("8.8.8.8:25"))
		if f.Event != want || (conn != nil) != f.None() {
			t.Errorf("%d: %s", reply, describe(f))
		}
		_, f = d.DialContext(t.Context(), netip.MustParseAddrPort("127.0.0.1:25"))
		if f.Event != engine.EventRefusedHost {
			t.Error(describe(f))
		}
	}
}

// An unreachable proxy is a fault on our side, and the detail says so.
func TestDialerWithUnreachableProxy(t *testing.T) {
	for _, cause := range []error{syscall.ECONNREFUSED, os.ErrDeadlineExceeded} {
		d := Dialer{SOCKS5: Proxy{Addr: "10.9.9.9:1080"},
			Dial: func(context.Context, netip.Addr, string, string) (net.Conn, error) { return nil, cause }}
		if _, f := d.DialContext(t.Context(), netip.MustParseAddrPort("8.8.8.8:25")); f.Event != engine.EventInternal ||
			f.Detail != "the SOCKS5 proxy is not reachable" {
			t.Errorf("%v: %s", cause, describe(f))
		}
	}
}

// playProxy is a SOCKS5 proxy without authentication (RFC 1928) that answers every CONNECT alike.
func playProxy(conn net.Conn, reply byte) {
	greeting := make([]byte, 3)
	_, _ = io.ReadFull(conn, greeting)
	_, _ = conn.Write([]byte{5, 0})
	request := make([]byte, 10)
	_, _ = io.ReadFull(conn, request)
	_, _ = conn.Write([]byte{5, reply, 0, 1, 0, 0, 0, 0, 0, 0})
}

package api

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDeadlineOfReadsHoldsAsItWasSetLast: whether it was moved to later, to earlier, or taken away.
func TestDeadlineOfReadsHoldsAsItWasSetLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		c := &clientConn{Conn: ours, raw: ours}
		set := func(d ...time.Duration) {
			for _, d := range d {
				require.NoError(t, c.SetReadDeadline(time.Now().Add(d)))
			}
		}
		ends := func(after time.Duration) {
			t.Helper()
			began := time.Now()
			_, err := c.Read(make([]byte, 1))
			require.True(t, isTimeout(err), "%v", err)
			require.Equal(t, after, time.Since(began))
		}
		set(time.Second)
		ends(time.Second)
		ends(0)
		set(time.Second, 75*time.Second, 10*time.Second)
		ends(10 * time.Second)
		set(10*time.Second, time.Second)
		ends(time.Second)
		set(time.Second)
		require.NoError(t, c.SetReadDeadline(time.Time{}))
		go func() {
			time.Sleep(time.Hour) // of the bubble's
			_, _ = theirs.Write([]byte("x"))
		}()
		n, err := c.Read(make([]byte, 1))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		set(time.Second)
		ends(time.Second)
	})
}

// peers is a listener whose next connection comes from the address that is sent.
type peers chan string

func (p peers) Accept() (net.Conn, error) {
	from, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	return peer{ours, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}, nil
}

func (p peers) Close() error   { close(p); return nil }
func (p peers) Addr() net.Addr { return &net.TCPAddr{} }

type peer struct {
	net.Conn
	from net.Addr
}

func (p peer) RemoteAddr() net.Addr { return p.from }

// One client with IPv6 has more addresses than we have connections: its /64 counts as one address, and its /48 as four.
func TestConnectionsPerNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := make(peers)
		d := newDoor(ln, Config{MaxConns: 100, MaxConnsPerIP: 2, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("2001:db8:ffff::/48")}}.withDefaults())
		accepted := make(chan net.Conn, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := d.Accept()
				if err != nil {
					return
				}
				accepted <- c
			}
		}()
		come := func(from string) net.Conn {
			ln <- from
			synctest.Wait()
			select {
			case c := <-accepted:
				return c
			default:
				return nil
			}
		}
		first := come("[2001:db8:1:1::1]:1")
		require.NotNil(t, first)
		require.NotNil(t, come("[2001:db8:1:1::2]:1"))
		require.Nil(t, come("[2001:db8:1:1::3]:1"), "the third of a /64")
		for _, from := range []string{"[2001:db8:1:2::1]:1", "[2001:db8:1:2::2]:1", "[2001:db8:1:3::1]:1", "[2001:db8:1:3::2]:1", "[2001:db8:1:4::1]:1", "[2001:db8:1:4::2]:1"} {
			require.NotNil(t, come(from))
		}
		require.Nil(t, come("[2001:db8:1:5::1]:1"), "the ninth of a /48")
		require.NotNil(t, come("[2001:db8:2:1::1]:1"), "another network")
		require.NotNil(t, come("192.0.2.1:1"))
		require.NotNil(t, come("[::ffff:192.0.2.1]:2"))
		require.Nil(t, come("192.0.2.1:3"), "IPv4 counts by address")
		require.NotNil(t, come("192.0.2.2:1"))
		for range 5 {
			require.NotNil(t, come("[2001:db8:ffff:1::1]:1"), "a trusted proxy speaks for many")
		}
		require.NoError(t, first.Close())
		require.NotNil(t, come("[2001:db8:1:1::9]:1"), "there is room again")

		d.throwOut()
		require.NoError(t, ln.Close())
		<-done
	})
}

// pairOf is both ends of a connection that a door has let in.
func pairOf(t *testing.T) (server *clientConn, peer *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d := newDoor(ln, Config{}.withDefaults())
	raw, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	c, err := d.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		require.NoError(t, raw.Close())
		require.NoError(t, ln.Close())
	})
	return c.(*clientConn), raw.(*net.TCPConn)
}

func TestWaitingEndsWhenTheClientHangsUp(t *testing.T) {
	c, peer := pairOf(t)
	gone := make(chan struct{})
	quit := c.listen(func() { close(gone) })
	require.NoError(t, peer.CloseWrite())
	<-gone
	quit()
	require.True(t, brokenOff(c))
}

func TestWaitingKeepsWhatTheClientSendsMeanwhile(t *testing.T) {
	c, peer := pairOf(t)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	for range 3 {
		quit := c.listen(func() { t.Error("the client is still there") })
		_, err := io.WriteString(peer, "GET /next")
		require.NoError(t, err)
		quit()
		got := make([]byte, len("GET /next"))
		_, err = io.ReadFull(c, got)
		require.NoError(t, err)
		require.Equal(t, "GET /next", string(got))
		require.Equal(t, c.late, c.watched, "deadlines hold again")
	}
}

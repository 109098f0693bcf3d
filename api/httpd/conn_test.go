package httpd

import (
	"io"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestLastReadDeadlineApplies: whether it was moved to later, to earlier, or taken away.
func TestLastReadDeadlineApplies(t *testing.T) {
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
		expectTimeout := func(after time.Duration) {
			t.Helper()
			started := time.Now()
			_, err := c.Read(make([]byte, 1))
			require.True(t, isTimeout(err), "%v", err)
			require.Equal(t, after, time.Since(started))
		}
		set(time.Second)
		expectTimeout(time.Second)
		expectTimeout(0)
		set(time.Second, 75*time.Second, 10*time.Second)
		expectTimeout(10 * time.Second)
		set(10*time.Second, time.Second)
		expectTimeout(time.Second)
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
		expectTimeout(time.Second)
	})
}

// fakeListener is a listener whose next connection comes from the address that is sent.
type fakeListener chan string

func (p fakeListener) Accept() (net.Conn, error) {
	from, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	return fakeConn{ours, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}, nil
}

func (p fakeListener) Close() error   { close(p); return nil }
func (p fakeListener) Addr() net.Addr { return &net.TCPAddr{} }

type fakeConn struct {
	net.Conn
	from net.Addr
}

func (p fakeConn) RemoteAddr() net.Addr { return p.from }

// An IPv6 client has more addresses than we have connections: its /64 counts as one address, and its /48 as four.
func TestConnectionsPerNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := make(fakeListener)
		cl := newConnectionLimiter(ln, Config{MaxConns: 100, MaxConnsPerIP: 2,
			TrustedProxies: []netip.Prefix{netip.MustParsePrefix("2001:db8:ffff::/48")}}.WithDefaults())
		accepted := make(chan net.Conn, 1)
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := cl.Accept()
				if err != nil {
					return
				}
				accepted <- c
			}
		}()
		connect := func(from string) net.Conn {
			ln <- from
			synctest.Wait()
			select {
			case c := <-accepted:
				return c
			default:
				return nil
			}
		}
		first := connect("[2001:db8:1:1::1]:1")
		require.NotNil(t, first)
		require.NotNil(t, connect("[2001:db8:1:1::2]:1"))
		require.Nil(t, connect("[2001:db8:1:1::3]:1"), "the third of a /64")
		for _, from := range []string{"[2001:db8:1:2::1]:1", "[2001:db8:1:2::2]:1", "[2001:db8:1:3::1]:1",
			"[2001:db8:1:3::2]:1", "[2001:db8:1:4::1]:1", "[2001:db8:1:4::2]:1"} {
			require.NotNil(t, connect(from))
		}
		require.Nil(t, connect("[2001:db8:1:5::1]:1"), "the ninth of a /48")
		require.NotNil(t, connect("[2001:db8:2:1::1]:1"), "another network")
		require.NotNil(t, connect("192.0.2.1:1"))
		require.NotNil(t, connect("[::ffff:192.0.2.1]:2"))
		require.Nil(t, connect("192.0.2.1:3"), "IPv4 counts by address")
		require.NotNil(t, connect("192.0.2.2:1"))
		for range 5 {
			require.NotNil(t, connect("[2001:db8:ffff:1::1]:1"), "a trusted proxy speaks for many")
		}
		require.NoError(t, first.Close())
		require.NotNil(t, connect("[2001:db8:1:1::9]:1"), "there is room again")

		cl.closeAll()
		require.NoError(t, ln.Close())
		<-done
	})
}

// connPair is both ends of a connection that a connection limiter has accepted.
func connPair(t *testing.T) (server *clientConn, peer *net.TCPConn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	cl := newConnectionLimiter(ln, Config{}.WithDefaults())
	raw, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	c, err := cl.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		require.NoError(t, raw.Close())
		require.NoError(t, ln.Close())
	})
	return c.(*clientConn), raw.(*net.TCPConn)
}

func TestClientContextEndsOnDisconnect(t *testing.T) {
	c, peer := connPair(t)
	gone := make(chan struct{})
	quit := c.watchForClose(func() { close(gone) })
	require.NoError(t, peer.CloseWrite())
	<-gone
	quit()
	require.True(t, isClientClosed(c))
}

func TestClientContextKeepsEarlyBytes(t *testing.T) {
	c, peer := connPair(t)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Minute)))
	for range 3 {
		quit := c.watchForClose(func() { t.Error("the client is still there") })
		_, err := io.WriteString(peer, "GET /next")
		require.NoError(t, err)
		quit()
		got := make([]byte, len("GET /next"))
		_, err = io.ReadFull(c, got)
		require.NoError(t, err)
		require.Equal(t, "GET /next", string(got))
		require.Equal(t, c.readDeadline, c.armedDeadline, "deadlines hold again")
	}
}

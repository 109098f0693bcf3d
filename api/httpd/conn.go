package httpd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of a lingering close: a client that still sends is read this long, so that it sees our answer instead of a
// reset.
const (
	lingerTime  = 3 * time.Second
	lingerBytes = 32 << 20
)

// connectionLimiter counts connections by client address, or by network for IPv6, and rejects those over a limit.
type connectionLimiter struct {
	net.Listener
	maxConns, maxPerIP int
	stallTimeout       time.Duration
	tls                *tls.Config // nil: connections are in clear
	isTrusted          func(netip.Addr) bool

	mu         sync.Mutex // guards all below
	conns      map[*clientConn]struct{}
	perNetwork map[netip.Prefix]int
}

// An IPv6 client has a /64, and often a /48, whose limit is siteMultiple times that of a /64.
const (
	clientBits   = 64
	siteBits     = 48
	siteMultiple = 4
)

// clientNets are the networks that connections of an address count for, the narrowest first.
func clientNets(a netip.Addr) []netip.Prefix {
	if !a.Is6() {
		return []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
	}
	client, _ := a.Prefix(clientBits) // an IPv6 address has that many bits
	site, _ := a.Prefix(siteBits)
	return []netip.Prefix{client, site}
}

func newConnectionLimiter(ln net.Listener, c Config) *connectionLimiter {
	return &connectionLimiter{Listener: ln, maxConns: c.MaxConns, maxPerIP: c.MaxConnsPerIP,
		stallTimeout: c.StallTimeout, tls: c.TLS,
		isTrusted: func(a netip.Addr) bool { return isTrusted(c.TrustedProxies, a) },
		conns:     make(map[*clientConn]struct{}), perNetwork: make(map[netip.Prefix]int)}
}

// Accept returns the next connection within the limits.
func (cl *connectionLimiter) Accept() (net.Conn, error) {
	for {
		c, err := cl.Listener.Accept()
		if err != nil {
			return nil, err
		}
		cc := &clientConn{Conn: c, raw: c, limiter: cl}
		if cl.tls != nil {
			cc.Conn = tls.Server(c, cl.tls) // the handshake is at the first read, under the deadline of a header
		}
		reason := cl.admit(cc, addrOf(c.RemoteAddr()))
		if reason == nil {
			return cc, nil
		}
		// The answer must not block the listener: it fits any send buffer, and nothing is read. Over TLS there is none:
		// a client that waits for a handshake would not understand it.
		if cl.tls == nil {
			body := reason.body()
			_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			_, _ = fmt.Fprintf(c, "HTTP/1.1 %d Refused\r\nContent-Type: application/json\r\nContent-Length: %d\r\nRetry-After: %s\r\nX-Request-Id: %s\r\nConnection: close\r\n\r\n%s",
				reason.status(), len(body), reason.retryAfter(), newRequestID(), body)
		}
		_ = c.Close()
	}
}

func (cl *connectionLimiter) admit(c *clientConn, from netip.Addr) *Refusal {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if len(cl.conns) >= cl.maxConns {
		return Busy("The server has too many connections")
	}
	if from.IsValid() && !cl.isTrusted(from) {
		nets := clientNets(from)
		limit := cl.maxPerIP
		for _, n := range nets {
			if cl.perNetwork[n] >= limit {
				r := Refuse(TooMany, "Too many open connections from this IP address or its network %s (%d): close some, or use them again.", n, limit)
				r.Retry = time.Second
				return r
			}
			limit *= siteMultiple
		}
		for _, n := range nets {
			cl.perNetwork[n]++
		}
		c.nets = nets
	}
	cl.conns[c] = struct{}{}
	return nil
}

func (cl *connectionLimiter) release(c *clientConn) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	delete(cl.conns, c)
	for _, n := range c.nets {
		cl.perNetwork[n]--
		if cl.perNetwork[n] == 0 {
			delete(cl.perNetwork, n)
		}
	}
}

// closeAll closes all connections, even with requests in progress.
func (cl *connectionLimiter) closeAll() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for c := range cl.conns {
		_ = c.raw.Close() // TLS would send close_notify first, and wait for a client that does not read it
	}
}

// addrOf is the IP address of a peer; the zero Addr if it has none, as in memory.
func addrOf(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return t.AddrPort().Addr().Unmap().WithZone("")
}

// clientConn is an accepted connection. Each write has its own deadline, so that a download may last as long as
// the client keeps reading; and it lingers on close if a request was answered before it was read.
type clientConn struct {
	net.Conn
	raw     net.Conn // the same, or the connection under TLS
	limiter *connectionLimiter
	nets    []netip.Prefix // the networks it counts for; none for a trusted proxy
	lingers atomic.Bool
	closed  atomic.Bool
	// clientClosed reports that the client has ended its side. A chunked body that is cut off between two chunks
	// ends without an error, like a whole one: only this distinguishes them.
	clientClosed atomic.Bool
	// received reports that the client has sent something.
	received atomic.Bool
	// readAhead is a byte that came before its request was read. Reads do not overlap.
	readAhead []byte
	// writeDeadline is the deadline of writes. Writes do not overlap.
	writeDeadline time.Time
	// readDeadline is the deadline of reads; armedDeadline is the one set on the connection, never later. Reads do not
	// overlap.
	readDeadline, armedDeadline time.Time
}

// The write deadline is moved only when this fraction of it has passed, not with each write.
const deadlineGrain = 16

// SetReadDeadline moves the deadline of reads. fasthttp does so twice for each request, mostly to later, and few
// deadlines pass: an earlier armed deadline stays, and Read continues if it passes too soon.
func (c *clientConn) SetReadDeadline(at time.Time) error {
	c.readDeadline = at
	if !c.armedDeadline.IsZero() && (at.IsZero() || !c.armedDeadline.After(at)) {
		return nil
	}
	return c.armReadDeadline()
}

func (c *clientConn) armReadDeadline() error {
	c.armedDeadline = c.readDeadline
	return c.Conn.SetReadDeadline(c.readDeadline)
}

func (c *clientConn) Read(b []byte) (int, error) {
	if len(c.readAhead) > 0 && len(b) > 0 {
		n := copy(b, c.readAhead)
		c.readAhead = nil
		return n, nil
	}
	n, err := c.readUntilDeadline(b)
	if err == io.EOF {
		c.clientClosed.Store(true)
	}
	if n > 0 && !c.received.Load() {
		c.received.Store(true)
	}
	return n, err
}

// readUntilDeadline reads, and continues if the deadline that passed is not the one that was set last.
func (c *clientConn) readUntilDeadline(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err == nil || n > 0 || c.armedDeadline.Equal(c.readDeadline) || !isTimeout(err) {
			return n, err
		}
		if err := c.armReadDeadline(); err != nil {
			return 0, err
		}
	}
}

func (c *clientConn) Write(b []byte) (int, error) {
	at := time.Now().Add(c.limiter.stallTimeout)
	if at.Sub(c.writeDeadline) > c.limiter.stallTimeout/deadlineGrain {
		if err := c.Conn.SetWriteDeadline(at); err != nil {
			return 0, err
		}
		c.writeDeadline = at
	}
	return c.Conn.Write(b)
}

func (c *clientConn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	defer c.limiter.release(c)
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok && c.lingers.Load() && half.CloseWrite() == nil {
		// What the client still sends is read: closing with unread bytes would reset the connection, and the reset may
		// overtake our answer (RFC 9112, section 9.6).
		if c.Conn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
			_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
		}
	}
	return c.Conn.Close()
}

// markLingering marks the connection of a request that was not read to its end for a lingering close.
func markLingering(c net.Conn) {
	if cc, ok := c.(*clientConn); ok {
		cc.lingers.Store(true)
	}
}

// isClientClosed reports whether the client has ended its side of a connection.
func isClientClosed(c net.Conn) bool {
	cc, ok := c.(*clientConn)
	return ok && cc.clientClosed.Load()
}

// ClientContext is a context that ends when the client disconnects or the drain timeout is over. The request's body
// must have been read to its end, and until stop returns, nothing else may read from the connection.
func (c *Call) ClientContext() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(c.server.stopCtx)
	cc, ok := c.Ctx.Conn().(*clientConn)
	if !ok {
		return ctx, cancel
	}
	quit := cc.watchForClose(cancel)
	return ctx, func() { quit(); cancel() }
}

// watchForClose reads from the connection while its request is handled, and calls gone when the client has ended its
// side. An early byte of the next request is kept for Read. net/http does the same for each of its requests.
func (c *clientConn) watchForClose(gone func()) (quit func()) {
	if c.readAhead != nil {
		return func() {}
	}
	_ = c.Conn.SetReadDeadline(time.Time{}) // a connection that refuses a deadline fails at its next read
	var listening sync.WaitGroup
	listening.Go(func() {
		var b [1]byte
		n, err := c.Conn.Read(b[:])
		if n > 0 {
			c.readAhead = b[:n]
		}
		if err != nil && !isTimeout(err) {
			c.clientClosed.Store(true)
			gone()
		}
	})
	return func() {
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // in the past: ends the read
		listening.Wait()
		_ = c.armReadDeadline()
	}
}

// isTimeout reports whether a deadline passed.
func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

package api

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// The bounds of a goodbye: a client that still sends is read for so long, that it may see our answer instead of a reset.
const (
	lingerTime  = 3 * time.Second
	lingerBytes = 32 << 20
)

// door counts connections by client address, or by network where one client has many addresses, and turns away those over a limit.
type door struct {
	net.Listener
	max, maxPerIP int
	stall         time.Duration
	tls           *tls.Config // nil: connections are in clear
	trusted       func(netip.Addr) bool

	mu    sync.Mutex // guards all below
	conns map[*clientConn]struct{}
	from  map[netip.Prefix]int
}

// A client with IPv6 has a /64 to itself, and many a /48, which may have this many times as much: a quarter of all connections.
const (
	clientBits   = 64
	siteBits     = 48
	siteMultiple = 4
)

// clientNets are the networks that the connections of an address count for, the narrowest first.
func clientNets(a netip.Addr) []netip.Prefix {
	if !a.Is6() {
		return []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
	}
	client, _ := a.Prefix(clientBits) // an IPv6 address has that many bits
	site, _ := a.Prefix(siteBits)
	return []netip.Prefix{client, site}
}

func newDoor(ln net.Listener, c Config) *door {
	return &door{Listener: ln, max: c.MaxConns, maxPerIP: c.MaxConnsPerIP, stall: c.StallTimeout, tls: c.TLS,
		trusted: func(a netip.Addr) bool { return isTrusted(c.TrustedProxies, a) }, conns: make(map[*clientConn]struct{}), from: make(map[netip.Prefix]int)}
}

// Accept gives the next connection that is let in.
func (d *door) Accept() (net.Conn, error) {
	for {
		c, err := d.Listener.Accept()
		if err != nil {
			return nil, err
		}
		cc := &clientConn{Conn: c, raw: c, door: d}
		if d.tls != nil {
			cc.Conn = tls.Server(c, d.tls) // it shakes hands at the first read, under the deadline of a header
		}
		if why := d.enter(cc, addrOf(c.RemoteAddr())); why != nil {
			d.turnAway(c, why)
			continue
		}
		return cc, nil
	}
}

func (d *door) enter(c *clientConn, from netip.Addr) *refusal {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.conns) >= d.max {
		return busy("The server has too many connections")
	}
	if from.IsValid() && !d.trusted(from) {
		nets := clientNets(from)
		limit := d.maxPerIP
		for _, n := range nets {
			if d.from[n] >= limit {
				r := refuse(tooMany, "This client address, or its network %s, has %d connections open: close some, or use them again.", n, limit)
				r.retry = time.Second
				return r
			}
			limit *= siteMultiple
		}
		for _, n := range nets {
			d.from[n]++
		}
		c.nets = nets
	}
	d.conns[c] = struct{}{}
	return nil
}

func (d *door) leave(c *clientConn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, c)
	for _, n := range c.nets {
		if d.from[n]--; d.from[n] == 0 {
			delete(d.from, n)
		}
	}
}

// throwOut ends all connections, whatever is under way on them.
func (d *door) throwOut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for c := range d.conns {
		_ = c.raw.Close() // TLS would say goodbye first, and wait for a client that does not read it
	}
}

// turnAway answers without reading. It must not block the listener: the answer fits any send buffer. A client that waits
// for a handshake would not understand it.
func (d *door) turnAway(c net.Conn, why *refusal) {
	if d.tls == nil {
		_ = c.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		_, _ = c.Write(rawRefusal(why))
	}
	_ = c.Close()
}

// addrOf is the address of a peer; the zero Addr where there is none, as in memory.
func addrOf(a net.Addr) netip.Addr {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return t.AddrPort().Addr().Unmap().WithZone("")
}

// clientConn is a connection that was let in. Each write has its own deadline, so that a download may last as long as
// its receiver keeps reading; and it says goodbye gently when a request was answered before it was read.
type clientConn struct {
	net.Conn
	raw    net.Conn // the same, or what is below its TLS
	door   *door
	nets   []netip.Prefix // what it counts for; none of a trusted proxy
	linger atomic.Bool
	closed atomic.Bool
	// heard tells that the client has ended its side. A stream of chunks that the client breaks off between two of them
	// ends as quietly as a whole one: only this tells them apart.
	heard atomic.Bool
	// spoke tells that the client has sent something.
	spoke atomic.Bool
	// early is a byte that came before its request was read. Reads do not overlap.
	early []byte
	// until is the deadline of writes. Writes do not overlap.
	until time.Time
	// late is the deadline of reads, and watched the one that the connection has: never after it. Reads do not overlap.
	late, watched time.Time
}

// A deadline of writes is moved when it has come closer by this part of itself, not with each write.
const deadlineGrain = 16

// SetReadDeadline moves the deadline of reads. The server does so twice for each request, mostly to later, and hardly ever does
// one pass: one that is watched already stays, and Read finds out that there is more time.
func (c *clientConn) SetReadDeadline(at time.Time) error {
	c.late = at
	if !c.watched.IsZero() && (at.IsZero() || !c.watched.After(at)) {
		return nil
	}
	return c.watchReads()
}

func (c *clientConn) watchReads() error {
	c.watched = c.late
	return c.Conn.SetReadDeadline(c.late)
}

// readInTime reads, and goes on where the deadline that passed is not the one that was set last.
func (c *clientConn) readInTime(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if err == nil || n > 0 || c.watched.Equal(c.late) || !isTimeout(err) {
			return n, err
		}
		if err := c.watchReads(); err != nil {
			return 0, err
		}
	}
}

func (c *clientConn) Read(b []byte) (int, error) {
	if len(c.early) > 0 && len(b) > 0 {
		n := copy(b, c.early)
		c.early = nil
		return n, nil
	}
	n, err := c.readInTime(b)
	if err == io.EOF {
		c.heard.Store(true)
	}
	if n > 0 && !c.spoke.Load() {
		c.spoke.Store(true)
	}
	return n, err
}

func (c *clientConn) Write(b []byte) (int, error) {
	at := time.Now().Add(c.door.stall)
	if at.Sub(c.until) > c.door.stall/deadlineGrain {
		if err := c.Conn.SetWriteDeadline(at); err != nil {
			return 0, err
		}
		c.until = at
	}
	return c.Conn.Write(b)
}

func (c *clientConn) Close() error {
	if c.closed.Swap(true) {
		return net.ErrClosed
	}
	defer c.door.leave(c)
	if c.linger.Load() {
		c.sayGoodbye()
	}
	return c.Conn.Close()
}

// sayGoodbye ends our side and reads what the client still sends. Closing with unread bytes would reset the
// connection, and the reset may overtake our answer (RFC 9112, section 9.6).
func (c *clientConn) sayGoodbye() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if c.Conn.SetReadDeadline(time.Now().Add(lingerTime)) == nil {
		_, _ = io.CopyN(io.Discard, c.Conn, lingerBytes)
	}
}

// hangUpGently marks the connection of a request that was not read to its end.
func hangUpGently(c net.Conn) {
	if cc, ok := c.(*clientConn); ok {
		cc.linger.Store(true)
	}
}

// brokenOff reports that the client has ended its side of a connection.
func brokenOff(c net.Conn) bool {
	cc, ok := c.(*clientConn)
	return ok && cc.heard.Load()
}

// hangUpSilent ends a connection on which nothing was ever sent, and reports whether it was one. Browsers open some in advance;
// an answer to no request could meet the first one on its way, and would be taken for its answer.
func hangUpSilent(c net.Conn) bool {
	cc, ok := c.(*clientConn)
	if !ok || cc.spoke.Load() {
		return false
	}
	_ = cc.Close()
	return true
}

// whileConnected is a context that ends when the client hangs up or the server's patience is over. Until stop returns, nothing
// else may read from the connection; the request's body was read to its end.
func (x *exchange) whileConnected() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(x.srv.ending)
	cc, ok := x.ctx.Conn().(*clientConn)
	if !ok {
		return ctx, cancel
	}
	quit := cc.listen(cancel)
	return ctx, func() { quit(); cancel() }
}

// listen reads from the connection while its request is worked on, and calls gone when the client has ended its side. A byte of
// the next request that comes early is kept for Read. net/http does the same for each of its requests.
func (c *clientConn) listen(gone func()) (quit func()) {
	if c.early != nil {
		return func() {}
	}
	_ = c.Conn.SetReadDeadline(time.Time{}) // a connection that takes no deadline ends at its next read
	var listening sync.WaitGroup
	listening.Go(func() {
		var b [1]byte
		n, err := c.Conn.Read(b[:])
		if n > 0 {
			c.early = b[:n]
		}
		if err != nil && !isTimeout(err) {
			c.heard.Store(true)
			gone()
		}
	})
	return func() {
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0)) // long over: ends the read
		listening.Wait()
		_ = c.watchReads()
	}
}

// isTimeout reports that a deadline passed.
func isTimeout(err error) bool {
	e, ok := errors.AsType[net.Error](err)
	return ok && e.Timeout()
}

package smtp

import (
	"net"
	"syscall"
)

// pollConn is a connection that can also be read without waiting, so that a reply that nothing was asked for is seen
// before the next command is sent. TLS over it works in both ways: it goes on after an error that is temporary.
type pollConn struct {
	net.Conn
	polling bool // Read returns errNothing where it would wait
	arrived func() bool
}

// newPollConn finds out how conn is polled: as a socket, or in memory by its method Readable. Wrappers name what they
// wrap by NetConn, as tls.Conn does. Of any other connection nothing is known to have arrived until it is read.
func newPollConn(conn net.Conn) *pollConn {
	c := &pollConn{Conn: conn, arrived: func() bool { return false }}
	for {
		switch below := conn.(type) {
		case interface{ Readable() bool }:
			c.arrived = below.Readable
			return c
		case syscall.Conn:
			if raw, err := below.SyscallConn(); err == nil {
				c.arrived = newSocketPoll(raw).arrived
			}
			return c
		case interface{ NetConn() net.Conn }:
			conn = below.NetConn()
		default:
			return c
		}
	}
}

func (c *pollConn) Read(b []byte) (int, error) {
	if c.polling && !c.arrived() {
		return 0, errNothing
	}
	return c.Conn.Read(b)
}

// socketPoll peeks at the receive buffer of a socket: one system call, and no memory.
type socketPoll struct {
	raw     syscall.RawConn
	peek    func(fd uintptr)
	buf     [1]byte
	waiting bool
}

func newSocketPoll(raw syscall.RawConn) *socketPoll {
	p := &socketPoll{raw: raw}
	p.peek = func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), p.buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		p.waiting = err == nil // an end of the stream is there to be read, too
	}
	return p
}

// arrived reports whether a read would not wait. A socket that cannot be peeked at is read in its turn, and tells why
// then.
func (p *socketPoll) arrived() bool {
	p.waiting = false
	return p.raw.Control(p.peek) == nil && p.waiting
}

// errNothing says that nothing has arrived.
var errNothing net.Error = nothingArrived{}

type nothingArrived struct{}

func (nothingArrived) Error() string   { return "nothing has arrived" }
func (nothingArrived) Timeout() bool   { return true }
func (nothingArrived) Temporary() bool { return true } // else a tls.Conn would keep it for ever

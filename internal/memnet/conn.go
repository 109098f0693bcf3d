package memnet

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipe is one direction of a connection: a bounded buffer.
type pipe struct {
	mu           sync.Mutex // guards what follows
	buf          []byte     // buf[head:] is unread
	head         int
	writerClosed bool  // the writer has closed: the reader gets the rest, then EOF
	readerClosed bool  // the reader has closed: writing fails
	resetErr     error // reset: both fail at once
	readers      deadlineCond
	writers      deadlineCond
}

func newPipe() *pipe {
	p := &pipe{}
	p.readers, p.writers = newDeadlineCond(&p.mu), newDeadlineCond(&p.mu)
	return p
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.readerClosed:
			return 0, net.ErrClosed
		case p.resetErr != nil:
			return 0, p.resetErr
		case p.readers.expired():
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case p.head < len(p.buf):
			n := copy(b, p.buf[p.head:])
			p.head += n
			if p.head == len(p.buf) {
				p.buf, p.head = p.buf[:0], 0
			}
			p.writers.cond.Broadcast()
			return n, nil
		case p.writerClosed:
			return 0, io.EOF
		}
		p.readers.wait()
	}
}

func (p *pipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	written := 0
	for {
		switch {
		case p.writerClosed:
			return written, net.ErrClosed
		case p.resetErr != nil:
			return written, p.resetErr
		case p.readerClosed:
			return written, syscall.EPIPE
		case p.writers.expired():
			return written, os.ErrDeadlineExceeded
		case written == len(b):
			return written, nil
		}
		space := maxBuffer - (len(p.buf) - p.head)
		if space <= 0 {
			p.writers.wait()
			continue
		}
		part := b[written:min(len(b), written+space)]
		if p.head > 0 && len(p.buf)+len(part) > cap(p.buf) { // it would grow: the unread part moves to the front first
			p.buf = p.buf[:copy(p.buf, p.buf[p.head:])]
			p.head = 0
		}
		p.buf = append(p.buf, part...)
		written += len(part)
		p.readers.cond.Broadcast()
	}
}

// update calls f under the lock and wakes all waiters.
func (p *pipe) update(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	p.readers.cond.Broadcast()
	p.writers.cond.Broadcast()
}

// Conn is one end of an in-memory connection.
type Conn struct {
	in, out       *pipe
	local, remote netip.AddrPort

	mu           sync.Mutex // guards resetOnClose
	resetOnClose bool       // Close resets the connection
}

// Pair makes both ends of a connection.
func Pair(from, to netip.AddrPort) (near, far *Conn) {
	up, down := newPipe(), newPipe()
	near = &Conn{in: down, out: up, local: from, remote: to}
	far = &Conn{in: up, out: down, local: to, remote: from}
	return near, far
}

func (c *Conn) wrapError(op string, n int, err error) (int, error) {
	if err == nil || err == io.EOF {
		return n, err
	}
	return n, &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

func (c *Conn) Read(b []byte) (int, error) {
	n, err := c.in.read(b)
	return c.wrapError("read", n, err)
}

func (c *Conn) Write(b []byte) (int, error) {
	n, err := c.out.write(b)
	return c.wrapError("write", n, err)
}

// Close ends both directions. The other side can still read the bytes written
// before, unless SetLinger(0) made Close a reset.
func (c *Conn) Close() error {
	c.mu.Lock()
	resetOnClose := c.resetOnClose
	c.mu.Unlock()
	c.in.update(func() { c.in.readerClosed = true })
	c.out.update(func() {
		c.out.writerClosed = true
		if resetOnClose && c.out.resetErr == nil {
			c.out.resetErr = syscall.ECONNRESET
		}
	})
	if resetOnClose {
		c.in.update(func() { c.in.resetErr = syscall.ECONNRESET })
	}
	return nil
}

// CloseWrite ends the outgoing direction only.
func (c *Conn) CloseWrite() error {
	c.out.update(func() { c.out.writerClosed = true })
	return nil
}

// SetLinger with 0 makes Close a reset, as for net.TCPConn; another value undoes that.
func (c *Conn) SetLinger(sec int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.resetOnClose = sec == 0
	return nil
}

// LocalAddr is the address of this end.
func (c *Conn) LocalAddr() net.Addr { return net.TCPAddrFromAddrPort(c.local) }

// RemoteAddr is the address of the other end.
func (c *Conn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// SetDeadline sets both deadlines.
func (c *Conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline ends reads that wait longer, with os.ErrDeadlineExceeded.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	c.in.readers.set(t)
	return nil
}

// SetWriteDeadline ends writes that wait longer, with os.ErrDeadlineExceeded.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.out.mu.Lock()
	defer c.out.mu.Unlock()
	c.out.writers.set(t)
	return nil
}

// Readable reports whether Read would return bytes, an end or a failure at once, whatever the deadline.
func (c *Conn) Readable() bool {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return c.in.head < len(c.in.buf) || c.in.writerClosed || c.in.readerClosed || c.in.resetErr != nil
}

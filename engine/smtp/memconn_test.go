package smtp

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipe is one direction of a connection in memory: buffered up to limit bytes, with deadlines on either end.
type pipe struct {
	mu           sync.Mutex
	cond         *sync.Cond
	data         []byte
	limit        int
	eof, refused bool // the writer has closed; the reader has
	read, write  deadline
}

type deadline struct {
	passed bool
	timer  *time.Timer
}

func newPipe(limit int) *pipe {
	p := &pipe{limit: limit}
	p.cond = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.refused:
			return 0, net.ErrClosed
		case p.read.passed:
			return 0, os.ErrDeadlineExceeded
		case len(p.data) > 0:
			n := copy(b, p.data)
			p.data = p.data[n:]
			p.cond.Broadcast()
			return n, nil
		case p.eof:
			return 0, io.EOF
		}
		p.cond.Wait()
	}
}

func (p *pipe) Write(b []byte) (n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(b) > 0 {
		switch {
		case p.eof || p.refused:
			return n, io.ErrClosedPipe
		case p.write.passed:
			return n, os.ErrDeadlineExceeded
		}
		k := min(len(b), p.limit-len(p.data))
		if k <= 0 {
			p.cond.Wait()
			continue
		}
		p.data = append(p.data, b[:k]...)
		b, n = b[k:], n+k
		p.cond.Broadcast()
	}
	return n, nil
}

func (p *pipe) set(d *deadline, at time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	d.passed = !at.IsZero() && !at.After(time.Now())
	if !at.IsZero() && !d.passed {
		var timer *time.Timer
		timer = time.AfterFunc(time.Until(at), func() {
			p.mu.Lock()
			defer p.mu.Unlock()
			if d.timer == timer {
				d.passed = true
				p.cond.Broadcast()
			}
		})
		d.timer = timer
	}
	p.cond.Broadcast()
}

func (p *pipe) end(flag *bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*flag = true
	p.cond.Broadcast()
}

// memConn is one end of a connection in memory.
type memConn struct{ in, out *pipe }

// connect makes the two ends of a connection with buffers of limit bytes each.
func connect(limit int) (client, server *memConn) {
	a, b := newPipe(limit), newPipe(limit)
	return &memConn{a, b}, &memConn{b, a}
}

func (c *memConn) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c *memConn) Write(b []byte) (int, error) { return c.out.Write(b) }
func (c *memConn) CloseWrite() error           { c.out.end(&c.out.eof); return nil }
func (c *memConn) LocalAddr() net.Addr         { return &net.TCPAddr{} }
func (c *memConn) RemoteAddr() net.Addr        { return &net.TCPAddr{} }

func (c *memConn) Close() error {
	_ = c.SetDeadline(time.Time{})
	c.out.end(&c.out.eof)
	c.in.end(&c.in.refused)
	return nil
}

func (c *memConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *memConn) SetReadDeadline(t time.Time) error  { c.in.set(&c.in.read, t); return nil }
func (c *memConn) SetWriteDeadline(t time.Time) error { c.out.set(&c.out.write, t); return nil }

// Readable reports whether a read would not wait: see pollConn.
func (c *memConn) Readable() bool {
	c.in.mu.Lock()
	defer c.in.mu.Unlock()
	return len(c.in.data) > 0 || c.in.eof || c.in.refused
}

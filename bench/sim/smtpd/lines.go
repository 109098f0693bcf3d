package smtpd

import (
	"bytes"
	"errors"
	"net"
	"os"
	"time"
)

// Bounds of a connection.
const (
	inputSize  = 8 << 10 // the longest command line; RFC 5321 section 4.5.3.1.4 asks for 512
	outputSize = 32 << 10
	// RFC 5321 section 4.5.3.2.7 asks a server to wait five minutes at least.
	idleTimeout  = 5 * time.Minute
	writeTimeout = time.Minute
	// lingerTime and lingerReads bound how long the server waits, and how much input
	// it drops, after its last reply.
	lingerTime  = 2 * time.Second
	lingerReads = 64
)

// lineConn reads the command lines of one connection and writes the replies. It belongs to one goroutine.
type lineConn struct {
	rawConn net.Conn // the connection itself
	conn    net.Conn // rawConn, or TLS over it
	done    <-chan struct{}

	in         []byte // in[start:end] is unread input
	start, end int
	out        []byte        // replies not yet written
	latency    time.Duration // of each batch of replies
	now        time.Time     // of the last read: one clock reading for each batch
	resetConn  bool          // the connection is to be reset
}

// readLine returns the next line without its end, valid until the next call.
// Replies are written out only when the input is used up, so that a pipelined
// batch costs one write.
func (c *lineConn) readLine() ([]byte, bool) {
	for {
		if n := bytes.IndexByte(c.in[c.start:c.end], '\n'); n >= 0 {
			line := c.in[c.start : c.start+n]
			c.start += n + 1
			return bytes.TrimSuffix(line, []byte{'\r'}), true
		}
		if len(c.out) > 0 {
			if !c.flush() {
				return nil, false
			}
			continue // input during the pause may hold a line
		}
		if !c.read() {
			return nil, false
		}
	}
}

// read waits for more input. A line longer than the buffer ends the session.
func (c *lineConn) read() bool {
	c.end = copy(c.in, c.in[c.start:c.end])
	c.start = 0
	if c.end == len(c.in) {
		return c.replyText("500 5.5.2 Line too long") && false
	}
	c.conn.SetReadDeadline(time.Now().Add(idleTimeout))
	n, err := c.conn.Read(c.in[c.end:])
	c.end += n
	c.now = time.Now()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.replyText("421 4.4.2 Idle for too long, closing")
	}
	return n > 0
}

// flush writes the replies; false if the client has gone away.
func (c *lineConn) flush() bool {
	if len(c.out) == 0 {
		return true
	}
	out := c.out
	c.out = c.out[:0]
	if !c.pause(c.latency) {
		return false
	}
	c.conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := c.conn.Write(out)
	return err == nil
}

// pause waits for d while it reads. It returns false at once when the client
// closes, so that a client that has given up no longer counts as connected.
func (c *lineConn) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	until := time.Now().Add(d)
	defer func() { c.now = time.Now() }()
	c.conn.SetReadDeadline(until)
	c.end = copy(c.in, c.in[c.start:c.end])
	c.start = 0
	for c.end < len(c.in) {
		n, err := c.conn.Read(c.in[c.end:])
		c.end += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return true
		}
		if err != nil {
			return false
		}
	}
	rest := time.NewTimer(time.Until(until))
	defer rest.Stop()
	select {
	case <-rest.C:
		return true
	case <-c.done:
		return false
	}
}

// replyText appends one reply that is the same everywhere.
func (c *lineConn) replyText(text string) bool {
	c.out = append(c.out, text...)
	c.out = append(c.out, "\r\n"...)
	return text[:3] != "421" && c.drain()
}

// drain bounds the output during a long batch.
func (c *lineConn) drain() bool {
	return len(c.out) < outputSize || c.flush()
}

// linger waits for the client's end. Closing a TCP connection with unread input
// resets it, and the last replies could be lost.
func (c *lineConn) linger() {
	half, ok := c.rawConn.(interface{ CloseWrite() error })
	if !ok || c.resetConn || half.CloseWrite() != nil {
		return
	}
	c.rawConn.SetReadDeadline(time.Now().Add(lingerTime))
	for range lingerReads {
		if _, err := c.rawConn.Read(c.in); err != nil {
			return
		}
	}
}

package sim

import (
	"bytes"
	"errors"
	"net"
	"os"
	"time"
)

// Bounds of a session.
const (
	inputSize  = 8 << 10 // the longest command line; RFC 5321 section 4.5.3.1.4 asks for 512
	outputSize = 32 << 10
	// RFC 5321 section 4.5.3.2.7 asks a server to wait five minutes at least.
	idleTime  = 5 * time.Minute
	writeTime = time.Minute
	// muteTime is how long a host that never answers holds the line, in real time; its patience is scaled like any other wait.
	muteTime = 30 * time.Minute
	// crowdGrace is how long the end of another connection may be on its way.
	crowdGrace = 50 * time.Millisecond
	// lingerTime and lingerReads bound how long the server waits, and how much it
	// throws away, after its own last words.
	lingerTime  = 2 * time.Second
	lingerReads = 64
	// badCommands is how many senseless commands a session bears.
	badCommands = 20
)

// session is one SMTP connection. It belongs to one goroutine.
type session struct {
	server *smtpServer
	host   *Host
	habit  *habit
	visit  *visit
	wire   net.Conn // the connection itself
	conn   net.Conn // the same, or TLS over it
	done   <-chan struct{}

	in         []byte // in[start:end] is unread input
	start, end int
	out        []byte // replies not yet written
	latency    time.Duration
	now        time.Time // of the last read: one clock reading a batch

	fill   fillings
	from   []byte // the sender, a copy; valid while inMail
	secure bool   // after STARTTLS
	greets bool   // EHLO or HELO was given
	inMail bool   // between MAIL and the end of the transaction
	utf8   bool   // MAIL had SMTPUTF8
	turned bool   // refused at the banner: only QUIT is left (RFC 5321 section 3.1)
	quit   bool   // the client took its leave
	torn   bool   // the connection is to be reset
	bad    int    // senseless commands so far
	silent bool   // everybody is accepted without a word, this recipient too
	taken  int    // recipients accepted in this transaction

	rawDomain []byte  // the last recipient domain as typed, a copy
	domain    *Domain // what it is; nil when we do not know it
	firstHome *Domain // the domain of the transaction's first recipient
}

// run speaks until either side is done. It tells the referee so before
// it writes the last words.
func (c *session) run() {
	ours := c.converse()
	c.visit.leave()
	if c.flush() && ours {
		c.linger()
	}
}

// converse speaks until either side is done, and tells whether that was the
// server of its own accord.
func (c *session) converse() (ours bool) {
	if !c.greet() {
		return true
	}
	for {
		line, ok := c.readLine()
		if !ok {
			return false
		}
		if !c.command(line) {
			return !c.quit
		}
	}
}

// linger waits for the client's end, so that the last words are not lost to
// the reset that closing on unread input makes of a TCP connection.
func (c *session) linger() {
	half, ok := c.wire.(interface{ CloseWrite() error })
	if !ok || c.torn || half.CloseWrite() != nil {
		return
	}
	c.wire.SetReadDeadline(time.Now().Add(lingerTime))
	for range lingerReads {
		if _, err := c.wire.Read(c.in); err != nil {
			return
		}
	}
}

// greet sends the banner; false ends the session.
func (c *session) greet() bool {
	if c.visit.crowded && !c.pause(crowdGrace) {
		return false
	}
	if !c.visit.settle() {
		return c.say(sayCrowded) && false
	}
	if words := c.server.refusal(c.fill.ip, c.host.Persona); words != "" {
		c.turned = true
		return c.line(words)
	}
	switch c.habit.fault {
	case faultMute:
		c.pause(c.server.scaled(muteTime))
		return false
	case faultEndless:
		c.ramble()
		return false
	}
	if !c.pause(c.server.scaled(c.habit.bannerWait)) {
		return false
	}
	switch {
	case c.habit.watchEarly && c.start < c.end:
		return c.say(sayEarly) && false
	case c.habit.busyFirst && c.host.Role == Primary:
		return c.line("421 4.3.2 Service not available at this host, closing channel") && false
	case c.habit.refuseAt == stageBanner:
		c.turned = true
		return c.say(sayRefused)
	}
	return c.say(sayBanner)
}

// readLine returns the next line without its end, valid until the next call.
// Replies are written out only when the input is used up, so that a pipelined
// batch costs one write.
func (c *session) readLine() ([]byte, bool) {
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
			continue // what came while it paused may hold a line
		}
		if !c.read() {
			return nil, false
		}
	}
}

// read waits for more input. A line longer than the buffer ends the session.
func (c *session) read() bool {
	c.end = copy(c.in, c.in[c.start:c.end])
	c.start = 0
	if c.end == len(c.in) {
		return c.line("500 5.5.2 Line too long") && false
	}
	c.conn.SetReadDeadline(time.Now().Add(idleTime))
	n, err := c.conn.Read(c.in[c.end:])
	c.end += n
	c.now = time.Now()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.line("421 4.4.2 Idle for too long, closing")
	}
	return n > 0
}

// flush writes the replies; false when the client is gone.
func (c *session) flush() bool {
	if len(c.out) == 0 {
		return true
	}
	out := c.out
	c.out = c.out[:0]
	if !c.pause(c.latency) {
		return false
	}
	c.conn.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := c.conn.Write(out)
	return err == nil
}

// pause lets d pass while it listens: false at once when the client hangs up,
// so that a client that has given up is not counted as still here.
func (c *session) pause(d time.Duration) bool {
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

// say appends one of the persona's replies; false when it is a 421, which ends
// the session.
func (c *session) say(s say) bool {
	r := &c.habit.said[s]
	c.fill.id++
	c.out = appendReply(c.out, r, &c.fill)
	return !r.closes && c.drain()
}

// line appends one reply that is the same everywhere.
func (c *session) line(text string) bool {
	c.out = append(c.out, text...)
	c.out = append(c.out, "\r\n"...)
	return text[:3] != "421" && c.drain()
}

// drain keeps the output bounded in the middle of a long batch.
func (c *session) drain() bool {
	return len(c.out) < outputSize || c.flush()
}

package sim

import (
	"bytes"
	"errors"
	"net"
	"os"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

// Bounds of a session.
const (
	inputSize  = 8 << 10 // the longest command line; RFC 5321 section 4.5.3.1.4 asks for 512
	outputSize = 32 << 10
	// RFC 5321 section 4.5.3.2.7 asks a server to wait five minutes at least.
	idleTimeout  = 5 * time.Minute
	writeTimeout = time.Minute
	// unresponsiveTime is how long a host that never answers keeps the connection, in real time; it is scaled like any other wait.
	unresponsiveTime = 30 * time.Minute
	// closeGrace is the wait for the end of another connection that may be on its way.
	closeGrace = 50 * time.Millisecond
	// lingerTime and lingerReads bound how long the server waits, and how much input
	// it drops, after its last reply.
	lingerTime  = 2 * time.Second
	lingerReads = 64
	// maxBadCommands is how many invalid commands a session tolerates.
	maxBadCommands = 20
)

// session is one SMTP connection. It belongs to one goroutine.
type session struct {
	server     *smtpServer
	host       *world.Host
	behaviour  *persona.Behaviour
	connection *connection
	rawConn    net.Conn // the connection itself
	conn       net.Conn // rawConn, or TLS over it
	done       <-chan struct{}

	in         []byte // in[start:end] is unread input
	start, end int
	out        []byte // replies not yet written
	latency    time.Duration
	now        time.Time // of the last read: one clock reading for each batch

	values    persona.ReplyValues
	from      []byte // the sender, a copy; valid while inMail
	secure    bool   // after STARTTLS
	greeted   bool   // EHLO or HELO was given
	inMail    bool   // between MAIL and the end of the transaction
	utf8      bool   // MAIL had SMTPUTF8
	refused   bool   // refused at the banner: only QUIT is left (RFC 5321 section 3.1)
	quit      bool   // the client sent QUIT
	resetConn bool   // the connection is to be reset
	badCount  int    // invalid commands so far
	acceptAll bool   // every recipient is accepted, this one included
	accepted  int    // recipients accepted in this transaction

	rawDomain   []byte        // the last recipient domain as sent, a copy
	domain      *world.Domain // the domain of rawDomain; nil if unknown
	firstDomain *world.Domain // the domain of the transaction's first recipient
}

// run serves until either side ends. The referee counts the end before the last
// replies are written.
func (c *session) run() {
	byServer := c.serveCommands()
	c.connection.close()
	if c.flush() && byServer {
		c.linger()
	}
}

// serveCommands serves until either side ends, and reports whether the server
// ended the session.
func (c *session) serveCommands() (byServer bool) {
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

// linger waits for the client's end. Closing a TCP connection with unread input
// resets it, and the last replies could be lost.
func (c *session) linger() {
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

// greet sends the banner; false ends the session.
func (c *session) greet() bool {
	if c.connection.overLimit && !c.pause(closeGrace) {
		return false
	}
	if !c.connection.admit() {
		return c.reply(persona.ReplyTooManyConns) && false
	}
	if words := c.server.refusal(c.values.IP, c.host.Persona); words != "" {
		c.refused = true
		return c.replyText(words)
	}
	switch c.behaviour.Fault {
	case persona.FaultUnresponsive:
		c.pause(c.server.scaled(unresponsiveTime))
		return false
	case persona.FaultEndless:
		c.sendLongReply()
		return false
	}
	if !c.pause(c.server.scaled(c.behaviour.BannerWait)) {
		return false
	}
	switch {
	case c.behaviour.RefuseEarlyTalk && c.start < c.end:
		return c.reply(persona.ReplyEarlyTalk) && false
	case c.behaviour.PrimaryBusy && c.host.Role == world.Primary:
		return c.replyText("421 4.3.2 Service not available at this host, closing channel") && false
	case c.behaviour.RefuseAt == persona.StageBanner:
		c.refused = true
		return c.reply(persona.ReplyRefused)
	}
	return c.reply(persona.ReplyBanner)
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
			continue // input during the pause may hold a line
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
func (c *session) flush() bool {
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

// reply appends one of the persona's replies; false for a 421, which ends the
// session.
func (c *session) reply(s persona.ReplyKind) bool {
	r := c.behaviour.Reply(s)
	c.values.ID++
	c.out = r.Append(c.out, &c.values)
	return !r.Closes && c.drain()
}

// replyText appends one reply that is the same everywhere.
func (c *session) replyText(text string) bool {
	c.out = append(c.out, text...)
	c.out = append(c.out, "\r\n"...)
	return text[:3] != "421" && c.drain()
}

// drain bounds the output during a long batch.
func (c *session) drain() bool {
	return len(c.out) < outputSize || c.flush()
}

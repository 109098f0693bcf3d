package smtpd

import (
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/referee"
	"probity/bench/sim/world"
)

// Bounds of a session.
const (
	// unresponsiveTime is how long a host that never answers keeps the connection, in real time; it is scaled like any other wait.
	unresponsiveTime = 30 * time.Minute
	// closeGrace is the wait for the end of another connection that may be on its way.
	closeGrace = 50 * time.Millisecond
	// maxBadCommands is how many invalid commands a session tolerates.
	maxBadCommands = 20
)

// session is one SMTP connection. It belongs to one goroutine.
type session struct {
	server     *Server
	host       *world.Host
	behaviour  *persona.Behaviour
	connection *referee.Connection
	lineConn

	values    persona.ReplyValues
	from      []byte // the sender, a copy; valid while inMail
	secure    bool   // after STARTTLS
	greeted   bool   // EHLO or HELO was given
	inMail    bool   // between MAIL and the end of the transaction
	utf8      bool   // MAIL had SMTPUTF8
	refused   bool   // refused at the banner: only QUIT is left (RFC 5321 section 3.1)
	quit      bool   // the client sent QUIT
	badCount  int    // invalid commands so far
	acceptAll bool   // every recipient is accepted, this one included
	accepted  int    // recipients accepted in this transaction

	turn         *turnState // of the host; nil if its persona never turns
	otherBackEnd bool       // the other of two back ends serves this connection

	rawDomain   []byte        // the last recipient domain as sent, a copy
	domain      *world.Domain // the domain of rawDomain; nil if unknown
	firstDomain *world.Domain // the domain of the transaction's first recipient
}

// run serves until either side ends. The referee counts the end before the last
// replies are written.
func (c *session) run() {
	byServer := c.serveCommands()
	c.connection.Close()
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

// greet sends the banner; false ends the session.
func (c *session) greet() bool {
	if c.connection.OverLimit && !c.pause(closeGrace) {
		return false
	}
	if !c.connection.Admit() {
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
	return c.reply(persona.ReplyBanner) && c.replyAgain(persona.FaultGreetsTwice, persona.ReplyBanner)
}

// reply appends one of the persona's replies; false for a 421, which ends the
// session.
func (c *session) reply(s persona.ReplyKind) bool {
	r := c.behaviour.Reply(s)
	c.values.ID++
	c.out = r.Append(c.out, &c.values)
	return !r.Closes && c.drain()
}

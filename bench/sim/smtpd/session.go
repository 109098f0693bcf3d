package smtpd

import (
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/referee"
	"probity/bench/sim/world"
)

// Bounds of a session.
const (
	// unresponsiveTime is how long a host that never answers keeps the connection, in real time; it is scaled like any
	// other wait.
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
func (s *session) run() {
	byServer := s.serveCommands()
	s.connection.Close()
	if s.flush() && byServer {
		s.linger()
	}
}

// serveCommands serves until either side ends, and reports whether the server
// ended the session.
func (s *session) serveCommands() (byServer bool) {
	if !s.greet() {
		return true
	}
	for {
		line, ok := s.readLine()
		if !ok {
			return false
		}
		if !s.command(line) {
			return !s.quit
		}
	}
}

// greet sends the banner; false ends the session.
func (s *session) greet() bool {
	if s.connection.OverLimit && !s.pause(closeGrace) {
		return false
	}
	if !s.connection.Admit() {
		return s.reply(persona.ReplyTooManyConns) && false
	}
	if words := s.server.refusal(s.values.IP, s.host.Persona); words != "" {
		s.refused = true
		return s.replyText(words)
	}
	switch s.behaviour.Fault {
	case persona.FaultUnresponsive:
		s.pause(s.server.scaled(unresponsiveTime))
		return false
	case persona.FaultEndless:
		s.sendLongReply()
		return false
	}
	if !s.pause(s.server.scaled(s.behaviour.BannerWait)) {
		return false
	}
	switch {
	case s.behaviour.RefuseEarlyTalk && s.start < s.end:
		return s.reply(persona.ReplyEarlyTalk) && false
	case s.behaviour.PrimaryBusy && s.host.Role == world.Primary:
		return s.replyText("421 4.3.2 Service not available at this host, closing channel") && false
	case s.behaviour.RefuseAt == persona.StageBanner:
		s.refused = true
		return s.reply(persona.ReplyRefused)
	}
	return s.reply(persona.ReplyBanner) && s.replyAgain(persona.FaultGreetsTwice, persona.ReplyBanner)
}

// reply appends one of the persona's replies; false for a 421, which ends the
// session.
func (s *session) reply(kind persona.ReplyKind) bool {
	r := s.behaviour.Reply(kind)
	s.values.ID++
	s.out = r.Append(s.out, &s.values)
	return !r.Closes && s.drain()
}

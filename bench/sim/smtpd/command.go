package smtpd

import (
	"crypto/tls"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/referee"
)

// command executes one line; false ends the session.
func (s *session) command(line []byte) bool {
	cmd := parse(line)
	if s.refused && cmd.verb != verbQuit {
		return s.replyText("503 5.5.1 Refused at the banner; QUIT is all that is left")
	}
	switch cmd.verb {
	case verbRcpt:
		return s.countedRcpt(&cmd)
	case verbMail:
		return s.mail(&cmd)
	case verbRset:
		s.reset()
		return s.replyText("250 2.0.0 Reset")
	case verbEhlo, verbHelo:
		return s.hello(&cmd)
	case verbQuit:
		s.quit = true
		return s.replyText("221 2.0.0 "+s.host.Name+" Goodbye") && false
	case verbNoop:
		return s.replyText("250 2.0.0 Nothing done")
	case verbStartTLS:
		return s.startTLS(&cmd)
	case verbData:
		return s.data()
	case verbVrfy:
		return s.replyText("252 2.5.2 Cannot verify; send some mail, it will be tried")
	case verbHelp:
		return s.replyText("214 2.0.0 See RFC 5321")
	}
	return s.badCommand("502 5.5.1 Command not known here")
}

// badCommand answers an invalid command, up to a limit.
func (s *session) badCommand(reply string) bool {
	s.badCount++
	if s.badCount > maxBadCommands {
		return s.replyText("421 4.7.0 " + s.host.Name + " Too many senseless commands")
	}
	return s.replyText(reply)
}

// reset ends the transaction.
func (s *session) reset() {
	s.inMail = false
	s.utf8 = false
	s.accepted = 0
	s.firstDomain = nil
	if s.behaviour.Turn.Scope == persona.ScopeTransaction && s.turn != nil {
		s.turn = &turnState{}
	}
}

// hello answers EHLO with the extensions, HELO with one line (RFC 5321 section 4.1.1.1).
func (s *session) hello(cmd *command) bool {
	if len(cmd.arg) == 0 {
		return s.badCommand("501 5.5.4 Whom do I speak to?")
	}
	s.reset()
	s.greeted = true
	words := s.behaviour.Keywords(s.secure)
	if cmd.verb == verbHelo {
		words = nil
	}
	s.out = append(s.out, "250"...)
	s.out = append(s.out, separator(len(words) == 0))
	s.out = s.behaviour.Reply(persona.ReplyEhlo).Append(s.out, &s.values)
	for i, word := range words {
		s.out = append(s.out, "250"...)
		s.out = append(s.out, separator(i == len(words)-1))
		s.out = append(s.out, word...)
		s.out = append(s.out, "\r\n"...)
	}
	return s.drain() && s.replyAgain(persona.FaultEhloTwice, persona.ReplyMail)
}

// separator stands between code and text: "-" on all but the last line.
func separator(last bool) byte {
	if last {
		return ' '
	}
	return '-'
}

// mail begins a transaction.
func (s *session) mail(cmd *command) bool {
	switch {
	case !s.greeted:
		return s.badCommand("503 5.5.1 Say hello first")
	case s.inMail:
		return s.badCommand("503 5.5.1 A transaction is open already")
	case s.behaviour.RequireTLS && !s.secure:
		return s.reply(persona.ReplyNeedTLS)
	case !cmd.wellFormed:
		return s.badCommand("501 5.1.7 Bad sender address syntax")
	}
	s.from = append(s.from[:0], cmd.path...)
	s.values.From = s.from
	if s.connection.CountTransaction() != referee.RuleNone {
		return s.reply(persona.ReplyConnectionUsed) && false
	}
	if s.behaviour.RefuseAt == persona.StageMail {
		return s.reply(persona.ReplyRefused)
	}
	if s.behaviour.RefuseNullSender && len(cmd.path) == 0 {
		return s.reply(persona.ReplyNoNullSender)
	}
	s.inMail = true
	s.utf8 = s.behaviour.Extensions&persona.ExtUTF8 != 0 && hasParam(cmd.params, "SMTPUTF8")
	if s.behaviour.Fault == persona.FaultExtraReply {
		return s.reply(persona.ReplyMail) && s.replyText("250 2.0.0 Still here")
	}
	return s.reply(persona.ReplyMail) && s.replyAgain(persona.FaultMailTwice, persona.ReplyMail)
}

// data accepts no mail: a verifier never sends any.
func (s *session) data() bool {
	switch {
	case !s.inMail:
		return s.badCommand("503 5.5.1 No transaction is open")
	case s.accepted == 0:
		return s.replyText("554 5.5.1 No valid recipients")
	}
	return s.replyText("451 4.3.0 No mail is taken in the pretend internet")
}

// startTLS changes to TLS, or fails if the persona's TLS is broken.
func (s *session) startTLS(cmd *command) bool {
	switch {
	case s.behaviour.Extensions&persona.ExtStartTLS == 0 || s.secure:
		return s.badCommand("502 5.5.1 Command not known here")
	case len(cmd.arg) > 0:
		return s.badCommand("501 5.5.4 No parameters allowed")
	}
	if !s.replyText("220 2.0.0 Ready to start TLS") || !s.flush() {
		return false
	}
	// Input before the handshake was not protected by it: drop it
	// (RFC 3207 section 4.2).
	s.start, s.end = 0, 0
	if s.behaviour.BrokenTLS {
		return s.replyText("454 4.7.0 TLS is not available after all") && false
	}
	secured := tls.Server(s.conn, s.server.tls)
	s.conn.SetDeadline(time.Now().Add(writeTimeout))
	if secured.Handshake() != nil {
		return false
	}
	s.conn.SetDeadline(time.Time{})
	s.conn = secured
	s.secure = true
	s.greeted = false
	s.now = time.Now()
	s.reset()
	return true
}

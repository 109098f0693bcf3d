package smtpd

import (
	"crypto/tls"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/referee"
)

// command executes one line; false ends the session.
func (c *session) command(line []byte) bool {
	cmd := parse(line)
	if c.refused && cmd.verb != verbQuit {
		return c.replyText("503 5.5.1 Refused at the banner; QUIT is all that is left")
	}
	switch cmd.verb {
	case verbRcpt:
		return c.countedRcpt(&cmd)
	case verbMail:
		return c.mail(&cmd)
	case verbRset:
		c.reset()
		return c.replyText("250 2.0.0 Reset")
	case verbEhlo, verbHelo:
		return c.hello(&cmd)
	case verbQuit:
		c.quit = true
		return c.replyText("221 2.0.0 "+c.host.Name+" Goodbye") && false
	case verbNoop:
		return c.replyText("250 2.0.0 Nothing done")
	case verbStartTLS:
		return c.startTLS(&cmd)
	case verbData:
		return c.data()
	case verbVrfy:
		return c.replyText("252 2.5.2 Cannot verify; send some mail, it will be tried")
	case verbHelp:
		return c.replyText("214 2.0.0 See RFC 5321")
	}
	return c.badCommand("502 5.5.1 Command not known here")
}

// badCommand answers an invalid command, up to a limit.
func (c *session) badCommand(reply string) bool {
	c.badCount++
	if c.badCount > maxBadCommands {
		return c.replyText("421 4.7.0 " + c.host.Name + " Too many senseless commands")
	}
	return c.replyText(reply)
}

// reset ends the transaction.
func (c *session) reset() {
	c.inMail = false
	c.utf8 = false
	c.accepted = 0
	c.firstDomain = nil
	if c.behaviour.Turn.Scope == persona.ScopeTransaction && c.turn != nil {
		c.turn = &turnState{}
	}
}

// hello answers EHLO with the extensions, HELO with one line (RFC 5321 section 4.1.1.1).
func (c *session) hello(cmd *command) bool {
	if len(cmd.arg) == 0 {
		return c.badCommand("501 5.5.4 Whom do I speak to?")
	}
	c.reset()
	c.greeted = true
	words := c.behaviour.Keywords(c.secure)
	if cmd.verb == verbHelo {
		words = nil
	}
	c.out = append(c.out, "250"...)
	c.out = append(c.out, separator(len(words) == 0))
	c.out = c.behaviour.Reply(persona.ReplyEhlo).Append(c.out, &c.values)
	for i, word := range words {
		c.out = append(c.out, "250"...)
		c.out = append(c.out, separator(i == len(words)-1))
		c.out = append(c.out, word...)
		c.out = append(c.out, "\r\n"...)
	}
	return c.drain() && c.replyAgain(persona.FaultEhloTwice, persona.ReplyMail)
}

// separator stands between code and text: "-" on all but the last line.
func separator(last bool) byte {
	if last {
		return ' '
	}
	return '-'
}

// mail begins a transaction.
func (c *session) mail(cmd *command) bool {
	switch {
	case !c.greeted:
		return c.badCommand("503 5.5.1 Say hello first")
	case c.inMail:
		return c.badCommand("503 5.5.1 A transaction is open already")
	case c.behaviour.RequireTLS && !c.secure:
		return c.reply(persona.ReplyNeedTLS)
	case !cmd.wellFormed:
		return c.badCommand("501 5.1.7 Bad sender address syntax")
	}
	c.from = append(c.from[:0], cmd.path...)
	c.values.From = c.from
	if c.connection.CountTransaction() != referee.RuleNone {
		return c.reply(persona.ReplyConnectionUsed) && false
	}
	if c.behaviour.RefuseAt == persona.StageMail {
		return c.reply(persona.ReplyRefused)
	}
	if c.behaviour.RefuseNullSender && len(cmd.path) == 0 {
		return c.reply(persona.ReplyNoNullSender)
	}
	c.inMail = true
	c.utf8 = c.behaviour.Extensions&persona.ExtUTF8 != 0 && hasParam(cmd.params, "SMTPUTF8")
	if c.behaviour.Fault == persona.FaultExtraReply {
		return c.reply(persona.ReplyMail) && c.replyText("250 2.0.0 Still here")
	}
	return c.reply(persona.ReplyMail) && c.replyAgain(persona.FaultMailTwice, persona.ReplyMail)
}

// data accepts no mail: a verifier never sends any.
func (c *session) data() bool {
	switch {
	case !c.inMail:
		return c.badCommand("503 5.5.1 No transaction is open")
	case c.accepted == 0:
		return c.replyText("554 5.5.1 No valid recipients")
	}
	return c.replyText("451 4.3.0 No mail is taken in the pretend internet")
}

// startTLS changes to TLS, or fails if the persona's TLS is broken.
func (c *session) startTLS(cmd *command) bool {
	switch {
	case c.behaviour.Extensions&persona.ExtStartTLS == 0 || c.secure:
		return c.badCommand("502 5.5.1 Command not known here")
	case len(cmd.arg) > 0:
		return c.badCommand("501 5.5.4 No parameters allowed")
	}
	if !c.replyText("220 2.0.0 Ready to start TLS") || !c.flush() {
		return false
	}
	// Input before the handshake was not protected by it: drop it
	// (RFC 3207 section 4.2).
	c.start, c.end = 0, 0
	if c.behaviour.BrokenTLS {
		return c.replyText("454 4.7.0 TLS is not available after all") && false
	}
	secured := tls.Server(c.conn, c.server.tls)
	c.conn.SetDeadline(time.Now().Add(writeTimeout))
	if secured.Handshake() != nil {
		return false
	}
	c.conn.SetDeadline(time.Time{})
	c.conn = secured
	c.secure = true
	c.greeted = false
	c.now = time.Now()
	c.reset()
	return true
}

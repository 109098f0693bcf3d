package sim

import (
	"crypto/tls"
	"time"
)

// command obeys one line; false ends the session.
func (c *session) command(line []byte) bool {
	cmd := parse(line)
	if c.turned && cmd.verb != verbQuit {
		return c.line("503 5.5.1 Refused at the banner; QUIT is all that is left")
	}
	switch cmd.verb {
	case verbRcpt:
		return c.noted(&cmd)
	case verbMail:
		return c.mail(&cmd)
	case verbRset:
		c.reset()
		return c.line("250 2.0.0 Reset")
	case verbEhlo, verbHelo:
		return c.hello(&cmd)
	case verbQuit:
		c.quit = true
		return c.line("221 2.0.0 "+c.host.Name+" Goodbye") && false
	case verbNoop:
		return c.line("250 2.0.0 Nothing done")
	case verbStartTLS:
		return c.startTLS(&cmd)
	case verbData:
		return c.data()
	case verbVrfy:
		return c.line("252 2.5.2 Cannot verify; send some mail, it will be tried")
	case verbHelp:
		return c.line("214 2.0.0 See RFC 5321")
	}
	return c.senseless("502 5.5.1 Command not known here")
}

// senseless answers a command that makes no sense, up to a limit.
func (c *session) senseless(reply string) bool {
	c.bad++
	if c.bad > badCommands {
		return c.line("421 4.7.0 " + c.host.Name + " Too many senseless commands")
	}
	return c.line(reply)
}

// reset ends the transaction.
func (c *session) reset() {
	c.inMail, c.utf8, c.taken, c.firstHome = false, false, 0, nil
}

// hello answers EHLO with the extensions, HELO with one line (RFC 5321 section 4.1.1.1).
func (c *session) hello(cmd *command) bool {
	if len(cmd.arg) == 0 {
		return c.senseless("501 5.5.4 Whom do I speak to?")
	}
	c.reset()
	c.greets = true
	words := c.extensions()
	if cmd.verb == verbHelo {
		words = nil
	}
	c.out = append(c.out, "250"...)
	c.out = append(c.out, separator(len(words) == 0))
	c.out = appendReply(c.out, &c.habit.said[sayEhlo], &c.fill)
	for i, word := range words {
		c.out = append(c.out, "250"...)
		c.out = append(c.out, separator(i == len(words)-1))
		c.out = append(c.out, word...)
		c.out = append(c.out, "\r\n"...)
	}
	return c.drain()
}

// separator stands between code and text: "-" but on the last line.
func separator(last bool) byte {
	if last {
		return ' '
	}
	return '-'
}

// extensions are the keywords of the EHLO reply.
func (c *session) extensions() []string {
	var words []string
	for _, e := range []struct {
		bit  extension
		word string
	}{
		{extSize, "SIZE 52428800"}, {ext8BitMIME, "8BITMIME"}, {extStartTLS, "STARTTLS"},
		{extEnhanced, "ENHANCEDSTATUSCODES"}, {extPipelining, "PIPELINING"}, {extChunking, "CHUNKING"}, {extUTF8, "SMTPUTF8"},
	} {
		// RFC 3207 section 4.2: not offered again under TLS.
		if c.habit.ext&e.bit != 0 && (e.bit != extStartTLS || !c.secure) {
			words = append(words, e.word)
		}
	}
	return words
}

// mail begins a transaction.
func (c *session) mail(cmd *command) bool {
	switch {
	case !c.greets:
		return c.senseless("503 5.5.1 Say hello first")
	case c.inMail:
		return c.senseless("503 5.5.1 A transaction is open already")
	case c.habit.needTLS && !c.secure:
		return c.say(sayNeedTLS)
	case !cmd.wellFormed:
		return c.senseless("501 5.1.7 Bad sender address syntax")
	}
	c.from = append(c.from[:0], cmd.path...)
	c.fill.from = c.from
	if c.visit.mail() != fine {
		return c.say(saySpent) && false
	}
	if c.habit.refuseAt == stageMail {
		return c.say(sayRefused)
	}
	if c.habit.noNull && len(cmd.path) == 0 {
		return c.say(sayNoNull)
	}
	c.inMail = true
	c.utf8 = c.habit.ext&extUTF8 != 0 && hasParam(cmd.params, "SMTPUTF8")
	if c.habit.fault == faultOutOfStep {
		return c.say(sayMail) && c.line("250 2.0.0 Still here")
	}
	return c.say(sayMail)
}

// data takes no mail: a client comes here only to ask.
func (c *session) data() bool {
	switch {
	case !c.inMail:
		return c.senseless("503 5.5.1 No transaction is open")
	case c.taken == 0:
		return c.line("554 5.5.1 No valid recipients")
	}
	return c.line("451 4.3.0 No mail is taken in the pretend internet")
}

// startTLS changes to TLS, or fails to, as the persona has it.
func (c *session) startTLS(cmd *command) bool {
	switch {
	case c.habit.ext&extStartTLS == 0 || c.secure:
		return c.senseless("502 5.5.1 Command not known here")
	case len(cmd.arg) > 0:
		return c.senseless("501 5.5.4 No parameters allowed")
	}
	if !c.line("220 2.0.0 Ready to start TLS") || !c.flush() {
		return false
	}
	// What came before the handshake was not protected by it: forget it all
	// (RFC 3207 section 4.2).
	c.start, c.end = 0, 0
	if c.habit.brokenTLS {
		return c.line("454 4.7.0 TLS is not available after all") && false
	}
	secured := tls.Server(c.conn, c.server.tls)
	c.conn.SetDeadline(time.Now().Add(writeTime))
	if secured.Handshake() != nil {
		return false
	}
	c.conn.SetDeadline(time.Time{})
	c.conn, c.secure, c.greets, c.now = secured, true, false, time.Now()
	c.reset()
	return true
}

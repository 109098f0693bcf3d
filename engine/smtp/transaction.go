package smtp

import (
	"context"
	"slices"
	"time"

	"probity/engine"
)

// Rcpt is a recipient to probe.
type Rcpt struct {
	Local          string // as RCPT carries it
	Domain         string // A-label
	NewTransaction bool   // begins a new transaction
}

// NeedsUTF8 reports whether r can be sent only to a server with SMTPUTF8 (RFC 6531 section 3.4).
func (r Rcpt) NeedsUTF8() bool { return !ascii(r.Local) || !ascii(r.Domain) }

// Outcome is how a transaction ended.
type Outcome struct {
	// Mail is the reply to MAIL; Code is 0 if none came. Unless it is positive, no recipient of its transaction was
	// probed. With several transactions it is that of the last one, or the first that is not positive, after which no
	// recipient counts as answered.
	Mail     engine.Reply
	Answered int   // recipients that were answered: the first ones
	NoUTF8   []int // recipients that were not sent: they need SMTPUTF8, and the server does not offer it
	Fault    Fault // why the others were not answered; zero if all were
}

// Transaction sends MAIL and a RCPT for each recipient, with RSET first if the session has been used, and calls got
// with each reply, in order, once the group is known to be in step. Pipelined if the server offers it, else one by one.
// If recipients begin new transactions, all transactions are one group (RFC 2920 section 3.1 allows RSET and MAIL
// anywhere in it): a server that accepts one recipient at a time need not cost a round trip for each. A recipient whose
// RCPT got a 421 is given that reply; those after it were not answered. got must not use the session. Nothing more is
// sent after the last RCPT: RSET comes with the next transaction, or with Reset.
func (s *Session) Transaction(ctx context.Context, rcpts []Rcpt, got func(i int, r engine.Reply)) Outcome {
	if s.unusable {
		return Outcome{Fault: ourFault(engine.StageMail, "the session is unusable after a fault")}
	}
	g := group{Session: s, rcpts: rcpts}
	if !g.selectRcpts() {
		g.result.Fault = ourFault(engine.StageRcpt, "a recipient cannot be sent")
		return g.result
	}
	if len(g.asked) == 0 {
		return g.result
	}
	defer s.begin(ctx, s.cfg.Timeouts.Transaction)()
	s.answered = s.answered[:0]
	if s.extensions.Pipelining {
		g.send()
	} else {
		g.sendOneByOne()
	}
	if g.result.Fault.Event == engine.EventOutOfStep {
		return g.result
	}
	for k, r := range s.answered {
		got(g.asked[k].i, r)
	}
	g.result.Answered = len(s.answered)
	return g.result
}

// group is a call of Transaction at work.
type group struct {
	*Session
	rcpts  []Rcpt
	result Outcome
}

// pendingRcpt is a recipient of the current group.
type pendingRcpt struct {
	i              int  // its index among all
	newTransaction bool // it begins a transaction
	needsUTF8      bool // it needs SMTPUTF8
}

// selectRcpts finds the recipients that can be sent to this server. It returns false if one would break the command
// line.
func (g *group) selectRcpts() bool {
	asked := slices.Grow(g.asked[:0], len(g.rcpts))
	newTransaction := true
	for i, r := range g.rcpts {
		newTransaction = newTransaction || r.NewTransaction
		needsUTF8 := false
		if !r.isPlain() {
			if !r.sendable() {
				return false
			}
			needsUTF8 = r.NeedsUTF8()
			if needsUTF8 && !g.extensions.SMTPUTF8 {
				g.result.NoUTF8 = append(g.result.NoUTF8, i)
				continue
			}
		}
		asked = append(asked, pendingRcpt{i, newTransaction, needsUTF8})
		newTransaction = false
	}
	g.asked = asked
	return true
}

// send sends all commands as one group. The replies to a long group are read while it is sent, so that the sides do not
// block each other with full buffers (RFC 2920 section 3.1).
func (g *group) send() {
	s := g.Session
	g.result.Fault = s.inStep(engine.StageMail)
	if !g.result.Fault.None() {
		return
	}
	reset := s.inMail
	s.out = slices.Grow(s.out[:0], commandSize*len(g.asked))
	s.answered = slices.Grow(s.answered[:0], len(g.asked))
	for k, a := range g.asked {
		if a.newTransaction {
			if s.inMail {
				s.out = append(s.out, "RSET\r\n"...)
			}
			s.out = appendMail(s.out, s.cfg.MailFrom, g.asked[k:])
			s.inMail = true
		}
		s.out = appendRcpt(s.out, g.rcpts[a.i])
	}
	if len(s.out) <= maxDirectWrite {
		g.result.Fault = s.write(engine.StageMail, s.cfg.Timeouts.Mail)
		if g.result.Fault.None() {
			g.readReplies(reset)
		}
		return
	}
	written := g.writeInBackground()
	g.readReplies(reset)
	if !g.result.Fault.None() {
		_ = s.raw.SetWriteDeadline(past())
	}
	<-written
}

// commandSize is the usual size of one RCPT command.
const commandSize = 56

// maxDirectWrite bounds a group that is written before its replies are read: it fits into any send buffer, which is
// empty then, because all earlier commands have been answered (RFC 2920 section 3.1). Linux starts with 16 KiB; 100
// recipients take about 5 KB.
const maxDirectWrite = 8 << 10

// writeInBackground writes s.out in a goroutine of its own. Its errors show as missing replies, and the reader ends it:
// a fault sets a write deadline.
func (g *group) writeInBackground() (written chan struct{}) {
	s := g.Session
	written = make(chan struct{})
	_ = s.raw.SetWriteDeadline(time.Time{})
	if s.ctx.Err() != nil {
		_ = s.raw.SetWriteDeadline(past())
	}
	conn, out := s.conn, s.out
	go func() {
		defer close(written)
		_, _ = conn.Write(out)
	}()
	return written
}

// readReplies reads the replies of a group. Replies to RCPT are dropped once a MAIL was refused: they are about no
// recipient, and later transactions of the group are dropped with them.
func (g *group) readReplies(reset bool) {
	s := g.Session
	for k, a := range g.asked {
		if a.newTransaction {
			g.readMailReply(reset || k > 0, k == 0)
			if !g.result.Fault.None() {
				return
			}
		}
		r, f := s.read(engine.StageRcpt, s.cfg.Timeouts.Rcpt)
		if g.result.Mail.Positive() {
			f = g.keepReply(k, r, f)
		}
		g.result.Fault = f
		if !f.None() {
			return
		}
	}
	g.checkExcessReplies()
}

// readMailReply reads the replies to MAIL, and to the RSET before it.
func (g *group) readMailReply(reset, first bool) {
	s := g.Session
	var mail engine.Reply
	if reset {
		g.result.Fault = s.afterReset(s.read(engine.StageReset, s.cfg.Timeouts.Mail))
		s.inMail = true // a MAIL of this group follows the RSET on the wire
	}
	if g.result.Fault.None() {
		mail, g.result.Fault = s.read(engine.StageMail, s.cfg.Timeouts.Mail)
	}
	if first || g.result.Mail.Positive() {
		g.result.Mail = mail
	}
}

// checkExcessReplies looks for extra replies. A 421 after the last reply does not matter: every recipient was answered.
func (g *group) checkExcessReplies() {
	if f := g.inStep(engine.StageRcpt); f.Event == engine.EventOutOfStep {
		g.result.Fault = f
	}
}

// sendOneByOne sends one command at a time.
func (g *group) sendOneByOne() {
	s := g.Session
	for k, a := range g.asked {
		if a.newTransaction {
			g.beginTransaction(k)
			if !g.result.Fault.None() || !g.result.Mail.Positive() {
				return
			}
		}
		s.out = appendRcpt(s.out[:0], g.rcpts[a.i])
		r, f := s.command(engine.StageRcpt, s.cfg.Timeouts.Rcpt)
		g.result.Fault = g.keepReply(k, r, f)
		if !g.result.Fault.None() {
			return
		}
	}
	g.checkExcessReplies()
}

// beginTransaction sends MAIL for the recipient k and those after it, and RSET before it if the session has been used.
func (g *group) beginTransaction(k int) {
	s := g.Session
	g.result.Mail = engine.Reply{Stage: engine.StageMail}
	if s.inMail {
		g.result.Fault = s.reset()
		if !g.result.Fault.None() {
			return
		}
	}
	s.out = appendMail(s.out[:0], s.cfg.MailFrom, g.asked[k:])
	s.inMail = true
	g.result.Mail, g.result.Fault = s.command(engine.StageMail, s.cfg.Timeouts.Mail)
}

// keepReply keeps the reply to a RCPT until the group is known to be in step. A 421 is an answer too, and the last.
// A reply that quotes the recipient before or after, and not its own, shows that replies and commands are out of step.
func (g *group) keepReply(k int, r engine.Reply, f Fault) Fault {
	if !f.None() && (f.Event != engine.EventClosed || r.Code != 421) || r.Stage != engine.StageRcpt {
		return f
	}
	if quotes(r, g.rcpts[g.asked[k].i]) {
		g.confirmed = true
	} else {
		before, behind := max(k-1, 0), min(k+1, len(g.asked)-1)
		if quotes(r, g.rcpts[g.asked[before].i]) || quotes(r, g.rcpts[g.asked[behind].i]) {
			return g.fail(protocolFault(engine.StageRcpt, "a reply that quotes another recipient"))
		}
	}
	g.answered = append(g.answered, r)
	return f
}

// Reset sends RSET, which ends the transaction (RFC 5321 section 4.1.1.5).
func (s *Session) Reset(ctx context.Context) Fault {
	if s.unusable {
		return ourFault(engine.StageReset, "the session is unusable after a fault")
	}
	defer s.begin(ctx, 0)()
	return s.reset()
}

func (s *Session) reset() Fault {
	s.out = append(s.out[:0], "RSET\r\n"...)
	return s.afterReset(s.command(engine.StageReset, s.cfg.Timeouts.Mail))
}

// afterReset treats any reply except 2xx as out of step: the server must answer 250.
func (s *Session) afterReset(r engine.Reply, f Fault) Fault {
	switch {
	case !f.None():
		return f
	case !r.Positive():
		f = protocolFault(engine.StageReset, "RSET was refused")
		f.Reply = r
		return s.fail(f)
	}
	s.inMail = false
	return Fault{}
}

// appendMail appends MAIL for the transaction that begins with asked[0].
func appendMail(out []byte, from string, asked []pendingRcpt) []byte {
	out = append(append(append(out, "MAIL FROM:<"...), from...), '>')
	needsUTF8 := !ascii(from)
	for k := 0; k < len(asked) && (k == 0 || !asked[k].newTransaction); k++ {
		needsUTF8 = needsUTF8 || asked[k].needsUTF8
	}
	if needsUTF8 {
		out = append(out, " SMTPUTF8"...)
	}
	return append(out, "\r\n"...)
}

func appendRcpt(out []byte, r Rcpt) []byte {
	out = append(append(append(out, "RCPT TO:<"...), r.Local...), '@')
	return append(append(out, r.Domain...), ">\r\n"...)
}

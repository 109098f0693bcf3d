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

// NeedsUTF8 reports a recipient that can be sent only to a server with SMTPUTF8 (RFC 6531 section 3.4).
func (r Rcpt) NeedsUTF8() bool { return !ascii(r.Local) || !ascii(r.Domain) }

// Outcome is how a transaction ended.
type Outcome struct {
	// Mail is the reply to MAIL; Code is 0 if none came. Unless it is positive, no recipient of its transaction was probed. With
	// several transactions it is that of the last one, or the first that is not positive, after which no recipient counts as answered.
	Mail     engine.Reply
	Answered int   // recipients that were answered: the first ones
	NoUTF8   []int // recipients that were not sent: they need SMTPUTF8, and the server does not offer it
	Fault    Fault // why the others were not answered; zero if all were
}

// Transaction sends MAIL and a RCPT for each recipient, with RSET first if the session has been used, and calls got
// with each reply, in order, once the group is known to be in step. Pipelined if the server offers it, else one by one.
// If recipients begin new transactions, all transactions are one group (RFC 2920 section 3.1 allows RSET and MAIL anywhere
// in it): a server that accepts one recipient at a time need not cost a round trip for each.
// A recipient whose RCPT got a 421 is given that reply; those after it were not answered. got must not use the session.
// Nothing more is sent after the last RCPT: RSET comes with the next transaction, or with Reset.
func (s *Session) Transaction(ctx context.Context, rcpts []Rcpt, got func(i int, r engine.Reply)) Outcome {
	var o Outcome
	if s.unusable {
		o.Fault = ourFault(engine.StageMail, "the session is unusable after a fault")
		return o
	}
	asked, ok := s.selectRcpts(rcpts, &o)
	if !ok {
		o.Fault = ourFault(engine.StageRcpt, "a recipient cannot be sent")
		return o
	}
	if len(asked) == 0 {
		return o
	}
	defer s.begin(ctx, s.cfg.Timeouts.Transaction)()
	s.answered = s.answered[:0]
	if s.extensions.Pipelining {
		s.sendGroup(rcpts, asked, &o)
	} else {
		s.sendOneByOne(rcpts, asked, &o)
	}
	if o.Fault.Event == engine.EventOutOfStep {
		return o
	}
	for k, r := range s.answered {
		got(asked[k].i, r)
	}
	o.Answered = len(s.answered)
	return o
}

// pendingRcpt is a recipient of the current group.
type pendingRcpt struct {
	i              int  // its index among all
	newTransaction bool // it begins a transaction
	needsUTF8      bool // it needs SMTPUTF8
}

// selectRcpts finds the recipients that can be sent to this server. It returns false if one would break the command line.
func (s *Session) selectRcpts(rcpts []Rcpt, o *Outcome) (asked []pendingRcpt, ok bool) {
	asked = slices.Grow(s.asked[:0], len(rcpts))
	newTransaction := true
	for i, r := range rcpts {
		newTransaction = newTransaction || r.NewTransaction
		needsUTF8 := false
		if !r.isPlain() {
			if !r.sendable() {
				return nil, false
			}
			if needsUTF8 = r.NeedsUTF8(); needsUTF8 && !s.extensions.SMTPUTF8 {
				o.NoUTF8 = append(o.NoUTF8, i)
				continue
			}
		}
		asked = append(asked, pendingRcpt{i, newTransaction, needsUTF8})
		newTransaction = false
	}
	s.asked = asked
	return asked, true
}

// sendGroup sends all commands as one group. The replies to a long group are read while it is sent, so that the sides do not
// block each other with full buffers (RFC 2920 section 3.1).
func (s *Session) sendGroup(rcpts []Rcpt, asked []pendingRcpt, o *Outcome) {
	if o.Fault = s.inStep(engine.StageMail); !o.Fault.None() {
		return
	}
	reset := s.inMail
	s.out = slices.Grow(s.out[:0], commandSize*len(asked))
	s.answered = slices.Grow(s.answered[:0], len(asked))
	for k, a := range asked {
		if a.newTransaction {
			if s.inMail {
				s.out = append(s.out, "RSET\r\n"...)
			}
			s.appendMail(asked[k:])
			s.inMail = true
		}
		s.appendRcpt(rcpts[a.i])
	}
	if len(s.out) <= maxDirectWrite {
		if o.Fault = s.write(engine.StageMail, s.cfg.Timeouts.Mail); o.Fault.None() {
			s.readGroup(reset, rcpts, asked, o)
		}
		return
	}
	written := s.writeInBackground()
	s.readGroup(reset, rcpts, asked, o)
	if !o.Fault.None() {
		_ = s.raw.SetWriteDeadline(past())
	}
	<-written
}

// commandSize is the usual size of one RCPT command.
const commandSize = 56

// maxDirectWrite bounds a group that is written before its replies are read: it fits into any send buffer, which is empty then,
// because all earlier commands have been answered (RFC 2920 section 3.1). Linux starts with 16 KiB; 100 recipients take about 5 KB.
const maxDirectWrite = 8 << 10

// writeInBackground writes s.out in a goroutine of its own. Its errors show as missing replies, and the reader ends it: a fault
// sets a write deadline.
func (s *Session) writeInBackground() (written chan struct{}) {
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

// readGroup reads the replies of a group. Replies to RCPT are dropped once a MAIL was refused: they are about no recipient, and
// later transactions of the group are dropped with them.
func (s *Session) readGroup(reset bool, rcpts []Rcpt, asked []pendingRcpt, o *Outcome) {
	for k, a := range asked {
		if a.newTransaction {
			if s.readMailReply(reset || k > 0, k == 0, o); !o.Fault.None() {
				return
			}
		}
		r, f := s.read(engine.StageRcpt, s.cfg.Timeouts.Rcpt)
		if o.Mail.Positive() {
			f = s.keepReply(rcpts, asked, k, r, f)
		}
		if o.Fault = f; !f.None() {
			return
		}
	}
	s.checkExcessReplies(o)
}

// readMailReply reads the replies to MAIL, and to the RSET before it.
func (s *Session) readMailReply(reset, first bool, o *Outcome) {
	var mail engine.Reply
	if reset {
		o.Fault = s.readReset()
		s.inMail = true // a MAIL of this group follows the RSET on the wire
	}
	if o.Fault.None() {
		mail, o.Fault = s.read(engine.StageMail, s.cfg.Timeouts.Mail)
	}
	if first || o.Mail.Positive() {
		o.Mail = mail
	}
}

// checkExcessReplies looks for extra replies. A 421 after the last reply does not matter: every recipient was answered.
func (s *Session) checkExcessReplies(o *Outcome) {
	if f := s.inStep(engine.StageRcpt); f.Event == engine.EventOutOfStep {
		o.Fault = f
	}
}

// sendOneByOne sends one command at a time.
func (s *Session) sendOneByOne(rcpts []Rcpt, asked []pendingRcpt, o *Outcome) {
	for k, a := range asked {
		if a.newTransaction {
			if s.beginTransaction(asked[k:], o); !o.Fault.None() || !o.Mail.Positive() {
				return
			}
		}
		s.out = s.out[:0]
		s.appendRcpt(rcpts[a.i])
		r, f := s.command(engine.StageRcpt, s.cfg.Timeouts.Rcpt)
		if o.Fault = s.keepReply(rcpts, asked, k, r, f); !o.Fault.None() {
			return
		}
	}
	s.checkExcessReplies(o)
}

// beginTransaction sends MAIL, and RSET before it if the session has been used.
func (s *Session) beginTransaction(asked []pendingRcpt, o *Outcome) {
	o.Mail = engine.Reply{Stage: engine.StageMail}
	if s.inMail {
		if o.Fault = s.reset(); !o.Fault.None() {
			return
		}
	}
	s.out = s.out[:0]
	s.appendMail(asked)
	s.inMail = true
	o.Mail, o.Fault = s.command(engine.StageMail, s.cfg.Timeouts.Mail)
}

// keepReply keeps the reply to a RCPT until the group is known to be in step. A 421 is an answer too, and the last.
// A reply that quotes the recipient before or after, and not its own, shows that replies and commands are out of step.
func (s *Session) keepReply(rcpts []Rcpt, asked []pendingRcpt, k int, r engine.Reply, f Fault) Fault {
	if !f.None() && (f.Event != engine.EventClosed || r.Code != 421) || r.Stage != engine.StageRcpt {
		return f
	}
	if !quotes(r, rcpts[asked[k].i]) {
		before, behind := max(k-1, 0), min(k+1, len(asked)-1)
		if quotes(r, rcpts[asked[before].i]) || quotes(r, rcpts[asked[behind].i]) {
			return s.fail(protocolFault(engine.StageRcpt, "a reply that quotes another recipient"))
		}
	}
	s.answered = append(s.answered, r)
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
	r, f := s.command(engine.StageReset, s.cfg.Timeouts.Mail)
	return s.afterReset(r, f)
}

func (s *Session) readReset() Fault {
	r, f := s.read(engine.StageReset, s.cfg.Timeouts.Mail)
	return s.afterReset(r, f)
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
func (s *Session) appendMail(asked []pendingRcpt) {
	s.out = append(append(append(s.out, "MAIL FROM:<"...), s.cfg.MailFrom...), '>')
	needsUTF8 := !ascii(s.cfg.MailFrom)
	for k := 0; k < len(asked) && (k == 0 || !asked[k].newTransaction); k++ {
		needsUTF8 = needsUTF8 || asked[k].needsUTF8
	}
	if needsUTF8 {
		s.out = append(s.out, " SMTPUTF8"...)
	}
	s.out = append(s.out, "\r\n"...)
}

func (s *Session) appendRcpt(r Rcpt) {
	s.out = append(append(append(s.out, "RCPT TO:<"...), r.Local...), '@')
	s.out = append(append(s.out, r.Domain...), ">\r\n"...)
}

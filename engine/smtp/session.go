package smtp

import (
	"context"
	"net"
	"time"

	"probity/engine"
)

// Session is one dialogue over one connection. It is used by one goroutine at a time.
type Session struct {
	cfg  Config
	host string
	raw  net.Conn // the connection as it was given
	conn net.Conn // the connection in use: a pollConn over raw, or TLS over that
	in   replyReader
	out  []byte // commands of the group being sent

	ctx          context.Context // of the call in progress
	callDeadline time.Time       // bounds each wait of the call in progress; zero for no bound
	banner       engine.Reply
	hello        engine.Reply  // the reply to EHLO, or to HELO
	bannerWait   time.Duration // see BannerWait
	roundTrip    time.Duration // see RoundTrip
	extensions   Extensions
	secure       bool // it goes over TLS
	unusable     bool
	confirmed    bool           // see Confirmed
	outOfStep    bool           // the server broke the protocol
	quitReplied  bool           // QUIT was answered
	inMail       bool           // a MAIL has been sent since the last RSET: another one needs RSET first
	asked        []pendingRcpt  // the recipients of the current group
	answered     []engine.Reply // replies of a group, held until the group is known to be in step
}

// Extensions are what the server offered in its last reply to EHLO.
type Extensions struct {
	Pipelining, SMTPUTF8, STARTTLS, EightBitMIME, EnhancedCodes bool

	Size int64 // the largest message accepted (RFC 1870); 0 if not given
	// The limits of a session (RFC 9422); 0 if not given.
	MailMax, RcptMax, RcptDomainMax int
}

// Extensions returns what the server offers.
func (s *Session) Extensions() Extensions { return s.extensions }

// BannerWait returns how long the banner took.
func (s *Session) BannerWait() time.Duration { return s.bannerWait }

// RoundTrip is the fastest reply to a command of the greeting.
func (s *Session) RoundTrip() time.Duration { return s.roundTrip }

// Confirmed reports whether each reply so far is known to be that to its command. Until then a server that sent one
// reply too many may have answered each command with the reply to the one before, without a sign of it. With
// Config.Settle each command has waited for such a reply; a reply that quotes its recipient shows it too; else SayQuit
// tells.
func (s *Session) Confirmed() bool { return (s.confirmed || s.cfg.Settle > 0) && !s.outOfStep }

// Unusable reports whether s must not be used again, except for Close and Quit.
func (s *Session) Unusable() bool { return s.unusable }

// begin binds the call in progress to its context. The returned function ends the binding. If the context ended first,
// its deadline may still be set late, so the session becomes unusable.
func (s *Session) begin(ctx context.Context, bound time.Duration) (end func()) {
	s.ctx, s.callDeadline = ctx, time.Time{}
	if bound > 0 {
		s.callDeadline = time.Now().Add(bound)
	}
	if d, ok := ctx.Deadline(); ok && (s.callDeadline.IsZero() || d.Before(s.callDeadline)) {
		s.callDeadline = d
	}
	if ctx.Done() == nil {
		return func() {}
	}
	raw := s.raw
	stop := context.AfterFunc(ctx, func() { _ = raw.SetDeadline(past()) })
	return func() {
		if !stop() {
			s.unusable = true
		}
	}
}

// past is a deadline in the past, also under synctest.
func past() time.Time { return time.Unix(1, 0) }

// setReadDeadline sets the deadline of the next wait. A connection that refuses a deadline is closed: the read will
// fail. If the context ends just before, the deadline set by its end must not be undone.
func (s *Session) setReadDeadline(timeout time.Duration) {
	at := time.Now().Add(timeout)
	if !s.callDeadline.IsZero() && s.callDeadline.Before(at) {
		at = s.callDeadline
	}
	_ = s.raw.SetReadDeadline(at)
	if s.ctx.Err() != nil {
		_ = s.raw.SetReadDeadline(past())
	}
}

// fail marks the session unusable and returns the fault.
func (s *Session) fail(f Fault) Fault {
	s.unusable = true
	s.outOfStep = s.outOfStep || f.Event == engine.EventOutOfStep
	return f
}

// read reads the reply to a command. Every fault makes the session unusable, a 421 too, whose reply is returned with
// the fault.
func (s *Session) read(stage engine.Stage, timeout time.Duration) (engine.Reply, Fault) {
	r, detail, err := s.in.reply(stage, timeout)
	switch {
	case err != nil:
		return engine.Reply{Stage: stage}, s.fail(connectionFault(s.ctx, stage, err))
	case detail != "":
		return engine.Reply{Stage: stage}, s.fail(protocolFault(stage, detail))
	case r.Code == 421:
		return r, s.fail(closingFault(r))
	case !answers(r.Code, stage):
		f := protocolFault(stage, "a reply to another command")
		f.Reply = r
		return r, s.fail(f)
	case r.Code/100 == 3: // only for DATA and AUTH (RFC 5321 section 4.3.2): the server waits for what will not come
		f := protocolFault(stage, "an intermediate reply")
		f.Reply = r
		return r, s.fail(f)
	}
	return r, Fault{}
}

// answers reports whether a positive reply can be one to a command of this stage (RFC 5321 section 4.3.2): the banner
// and STARTTLS have 220, QUIT has 221, and what we ask for beyond that has 250 to 259.
func answers(code int, stage engine.Stage) bool {
	switch {
	case code/100 != 2 || stage == engine.StageBanner || stage == engine.StageQuit:
		return true
	case stage == engine.StageTLS:
		return code == 220
	}
	return code/10 == 25
}

// inStep reports a fault if the server sent a reply to no command (RFC 5321 section 4.3.1). A 421 may come at any time.
func (s *Session) inStep(stage engine.Stage) Fault {
	if s.cfg.Settle > 0 && stage != engine.StageQuit {
		s.in.settle(s.cfg.Settle)
	}
	if !s.in.holdsReply() {
		return Fault{}
	}
	s.unusable = true
	if r, detail, err := s.in.reply(stage, time.Millisecond); err == nil && detail == "" && r.Code == 421 {
		return closingFault(r)
	}
	return s.fail(protocolFault(stage, "a reply to no command"))
}

// command sends s.out and reads its one reply. A failed write is reported by the read: the server may have said why.
func (s *Session) command(stage engine.Stage, timeout time.Duration) (engine.Reply, Fault) {
	if f := s.inStep(stage); !f.None() {
		return engine.Reply{Stage: stage}, f
	}
	if f := s.write(stage, timeout); !f.None() {
		return engine.Reply{Stage: stage}, f
	}
	return s.read(stage, timeout)
}

// write sends s.out. Any failure except a timeout is reported by the read.
func (s *Session) write(stage engine.Stage, timeout time.Duration) Fault {
	_ = s.raw.SetWriteDeadline(time.Now().Add(timeout))
	if s.ctx.Err() != nil {
		_ = s.raw.SetWriteDeadline(past())
	}
	if _, err := s.conn.Write(s.out); err != nil && isTimeout(err) {
		return s.fail(connectionFault(s.ctx, stage, err))
	}
	return Fault{}
}

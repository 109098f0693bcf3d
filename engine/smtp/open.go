package smtp

import (
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"strings"
	"time"

	"probity/engine"
)

// Open begins a dialogue on a new connection with an MX host, up to the point where MAIL can be sent: it waits for the
// banner, greets, starts TLS as the policy says and greets again. It owns conn from now on. The session is nil exactly
// if there is a fault; the connection has then been closed, with QUIT if the server was still in step.
func Open(ctx context.Context, conn net.Conn, cfg Config, host string) (*Session, Fault) {
	poll := newPollConn(conn)
	s := &Session{cfg: cfg.withDefaults(), host: host, raw: conn, conn: poll}
	s.in = newReplyReader(poll, &s.cfg, s.setReadDeadline)
	end := s.begin(ctx, 0)
	f := s.greetServer()
	end()
	if f.None() && s.unusable {
		f = connectionFault(ctx, engine.StageEHLO, context.Cause(ctx))
	}
	if !f.None() {
		s.Quit(ctx)
		return nil, f
	}
	return s, Fault{}
}

func (s *Session) greetServer() (f Fault) {
	if !sendable(s.cfg.EHLO) || s.cfg.EHLO == "" || !sendable(s.cfg.MailFrom) {
		return s.fail(ourFault(engine.StageConnect, "the EHLO name or MAIL FROM cannot be sent"))
	}
	began := time.Now()
	since := began // of the wait that the timeout bounds
	for s.in.settle(s.cfg.Timeouts.Banner) && s.ctx.Err() == nil && s.cfg.Patience != nil && s.cfg.Patience() {
		since = time.Now()
	}
	left := max(s.cfg.Timeouts.Banner-time.Since(since), time.Millisecond)
	s.banner, f = s.read(engine.StageBanner, left)
	if !f.None() {
		return asRefusal(f)
	}
	s.bannerWait = time.Since(began)
	if !s.banner.Positive() {
		return refusalFault(s.banner)
	}
	f = s.sendEHLO()
	if !f.None() {
		return f
	}
	if s.cfg.TLS != engine.TLSRequired && (s.cfg.TLS != engine.TLSOpportunistic || !s.extensions.STARTTLS) {
		return f
	}
	f = s.startTLS()
	if !f.None() || !s.secure {
		return f
	}
	return s.sendEHLO()
}

// asRefusal turns a 421 before MAIL into a refusal: nothing was pending.
func asRefusal(f Fault) Fault {
	if f.Event == engine.EventClosed && f.Reply.Code != 0 {
		return refusalFault(f.Reply)
	}
	return f
}

// sendEHLO sends EHLO, and HELO to a server that does not know EHLO (RFC 5321 section 3.2). A 521 or 554 refuses
// service: no HELO follows (RFC 7504, RFC 5321 section 3.1).
func (s *Session) sendEHLO() Fault {
	r, f := s.helloCommand("EHLO ")
	if f.None() && r.Permanent() && r.Code != 521 && r.Code != 554 {
		r, f = s.helloCommand("HELO ")
		r.Lines = r.Lines[:min(len(r.Lines), 1)] // HELO offers nothing
	}
	s.hello = r
	switch {
	case !f.None():
		return asRefusal(f)
	case !r.Positive():
		return refusalFault(r)
	}
	s.extensions = readExtensions(r)
	s.extensions.Pipelining = s.extensions.Pipelining && !s.cfg.OneByOne
	return Fault{}
}

func (s *Session) helloCommand(verb string) (engine.Reply, Fault) {
	s.out = append(append(append(s.out[:0], verb...), s.cfg.EHLO...), "\r\n"...)
	asked := time.Now()
	r, f := s.command(engine.StageEHLO, s.cfg.Timeouts.EHLO)
	if took := time.Since(asked); s.roundTrip == 0 || took < s.roundTrip {
		s.roundTrip = took
	}
	return r, f
}

// startTLS follows RFC 3207 section 4. If the server refuses STARTTLS, the session goes on in clear, unless TLS is
// required.
func (s *Session) startTLS() Fault {
	if !s.extensions.STARTTLS {
		return Fault{Event: engine.EventTLSFailed, Stage: engine.StageTLS, Detail: "STARTTLS is not offered"}
	}
	s.out = append(s.out[:0], "STARTTLS\r\n"...)
	r, f := s.command(engine.StageTLS, s.cfg.Timeouts.TLS)
	switch {
	case !f.None():
		return asRefusal(f)
	case r.Code != 220 && s.cfg.TLS == engine.TLSRequired:
		return Fault{Event: engine.EventTLSFailed, Stage: engine.StageTLS, Reply: r, Detail: "STARTTLS was refused"}
	case r.Code != 220:
		return Fault{}
	case s.in.holdsAny(): // injected before the handshake, to be taken for a reply after it
		f := protocolFault(engine.StageTLS, "plain text behind the reply to STARTTLS")
		f.RetryPlain = s.cfg.TLS == engine.TLSOpportunistic
		return s.fail(f)
	}
	_ = s.raw.SetWriteDeadline(time.Now().Add(s.cfg.Timeouts.TLS))
	s.setReadDeadline(s.cfg.Timeouts.TLS)
	conn := tls.Client(s.conn, s.cfg.tlsConfig(s.host))
	if err := conn.Handshake(); err != nil {
		s.unusable = true
		if s.ctx.Err() != nil {
			return connectionFault(s.ctx, engine.StageTLS, err)
		}
		return Fault{Event: engine.EventTLSFailed, Stage: engine.StageTLS, Detail: "the handshake failed",
			RetryPlain: s.cfg.TLS == engine.TLSOpportunistic}
	}
	s.conn, s.secure, s.extensions = conn, true, Extensions{}
	s.in.switchSource(conn)
	return Fault{}
}

// readExtensions reads the keywords of a reply to EHLO (RFC 5321 section 4.1.1.1). Unknown ones are skipped.
func readExtensions(r engine.Reply) Extensions {
	var x Extensions
	for _, line := range r.Lines[min(len(r.Lines), 1):] {
		keyword, params, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch strings.ToUpper(keyword) {
		case "PIPELINING":
			x.Pipelining = true
		case "SMTPUTF8":
			x.SMTPUTF8 = true
		case "STARTTLS":
			x.STARTTLS = true
		case "8BITMIME":
			x.EightBitMIME = true
		case "ENHANCEDSTATUSCODES":
			x.EnhancedCodes = true
		case "SIZE":
			x.Size, _ = strconv.ParseInt(strings.TrimSpace(params), 10, 64)
		case "LIMITS":
			x.readLimits(params)
		}
	}
	x.Size = max(x.Size, 0)
	return x
}

// readLimits reads the values of LIMITS (RFC 9422 section 4). What is not a positive number is ignored.
func (e *Extensions) readLimits(params string) {
	for word := range strings.FieldsSeq(params) {
		name, value, _ := strings.Cut(word, "=")
		n, err := strconv.Atoi(value)
		if err != nil || n <= 0 {
			continue
		}
		switch strings.ToUpper(name) {
		case "MAILMAX":
			e.MailMax = n
		case "RCPTMAX":
			e.RcptMax = n
		case "RCPTDOMAINMAX":
			e.RcptDomainMax = n
		}
	}
}

package prober

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"net/netip"
	"time"

	"probity/engine"
	"probity/engine/smtp"
)

// connect finds, dials and greets the session's host. When that fails, it has told the lane why.
func (s *session) connect(ctx context.Context) bool {
	back := s.stepAway()
	addr, event := s.find(ctx)
	back()
	if ctx.Err() != nil {
		return false
	}
	if event != engine.EventReply {
		s.unspent("", canaryLook)
		s.fail(smtp.Fault{Event: event})
		return false
	}
	if !s.permitted(addr) {
		s.unspent("", canaryLook)
		s.bar()
		return false
	}
	if s.lane.shared && !s.reserveDestination(addr) {
		s.unspent(s.lane.key.route, 0)
		return false
	}
	conn, f := s.dial(ctx, addr)
	if f.None() {
		s.conn, f = smtp.Open(ctx, away{conn, s}, s.config(), s.group.host)
	}
	met := s.connected(conn != nil && f.Event != engine.EventConnectFailed) // who hangs up at once has refused
	if !f.None() {
		if ctx.Err() == nil {
			s.fail(f)
		}
		return false
	}
	if s.from == s.lane.egress {
		s.from.health.met(met)
	}
	x := s.conn.Extensions()
	s.maxRcpt, s.maxMail, s.oneDomain = x.RcptMax, x.MailMax, x.RcptDomainMax == 1
	return true
}

// unspent takes back the canary that the connection was to be, if it was one: its place goes to a route, or after a pause to any.
func (s *session) unspent(route string, pause time.Duration) {
	if !s.canary.IsZero() {
		s.lane.egress.unspent(s.canary, route, time.Now().Add(s.lane.scaled(pause)))
	}
}

// permitted reports that we may ask this address: public ones only with a name to greet with and a reverse-path to answer for.
func (s *session) permitted(a netip.Addr) bool {
	return s.lane.prober.cfg.MailFrom != "" && s.from.complete() || smtp.ClassOf(a) == smtp.Private
}

func (s *session) dial(ctx context.Context, addr netip.Addr) (net.Conn, smtp.Fault) {
	cfg := &s.lane.prober.cfg
	d := smtp.Dialer{Local: s.from.Local, SOCKS5: s.from.proxy(cfg.SOCKS5), AllowPrivate: cfg.AllowPrivate, Dial: cfg.Dial}
	dialing, cancel := context.WithTimeout(ctx, cfg.Connect)
	defer cancel()
	s.dialled, s.began = true, time.Now()
	s.lane.prober.metrics.connections.Inc()
	back := s.stepAway()
	conn, f := d.DialContext(dialing, netip.AddrPortFrom(addr, cfg.Port))
	back()
	if ctx.Err() != nil {
		return conn, f // we gave up, which says nothing of the source
	}
	now := time.Now()
	if s.from.health.connected(f.None(), s.lane.key.route, now) {
		cfg.Log.Warn("a source cannot connect, or can again; while it cannot, one connection in a while tries", "egress", s.from.name, "connects", f.None())
	}
	switch {
	case !f.None():
		s.lane.prober.watch(s.from)
	case s.group.knock:
		s.from.health.answered(now)
	}
	return conn, f
}

func (s *session) config() smtp.Config {
	p := s.lane.prober
	c := smtp.Config{EHLO: s.from.EHLO, MailFrom: p.cfg.MailFrom, TLS: s.lane.provider.TLS, Timeouts: p.cfg.Timeouts, MaxBytes: maxHeard, TLSConfig: p.tls}
	if !s.lane.shared {
		c.TLSConfig = p.tickets.resume(p.tls, s.lane.provider.ID, s.group.host)
	}
	if c.EHLO == "" {
		c.EHLO = "[127.0.0.1]" // only private targets are asked without a name
	}
	if s.plain && c.TLS == engine.TLSOpportunistic {
		c.TLS = engine.TLSNever
	}
	return c
}

// newTLS is how sessions speak TLS. The host that they reach is not verified: no mail passes, and most MX hosts have no name that
// could be (RFC 7672 section 1.3). For the same reason no post-quantum key is exchanged: it takes two fifths of a handshake's
// time, and some servers stumble over a ClientHello of two packets. Nor is X25519 offered: P-256 spares a fifth of the time
// (BenchmarkHandshake), and every server must know it (RFC 8446 section 9.1).
func newTLS() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS10, CurvePreferences: []tls.CurveID{tls.CurveP256, tls.CurveP384, tls.CurveP521}}
}

// connected books the connection in the rates: the peer has seen it by now. It says who it is, and for whom it was asked.
func (s *session) connected(reached bool) knock {
	l, now := s.lane, time.Now()
	l.mu.Lock()
	l.pace.connected(now)
	if reached {
		delete(l.unproven, s.group.host)
	}
	who := knock{l.errand(s.group), s.group.host}
	l.mu.Unlock()
	if s.dest != nil {
		s.dest.connected(now)
	}
	return who
}

// bar lets all who wait in the lane go home unprobed, now and later: its hosts are public, and this node has no face to show.
func (s *session) bar() {
	l, now := s.lane, time.Now()
	l.prober.warnOnce()
	l.mu.Lock()
	l.barred = true
	out := l.leave(now, nil)
	l.mu.Unlock()
	l.prober.finish(l, out, now)
}

// sighting is a fault as evidence. The lane's mutex is held.
func (s *session) sighting(f smtp.Fault, now time.Time) engine.Sighting {
	g := engine.Sighting{Event: f.Event, Host: s.group.host, At: now}
	if f.Event == engine.EventReply {
		g.Reply = f.Reply
		g.Finding = s.classify(f.Reply)
	}
	g.Doubtful = s.doubts(f)
	return g
}

// doubts reports a failure that tells little of the host: its name could not be looked up, or it cannot be reached just now while
// it was before, or while no host can. Jobs try again by the schedule, so that a short outage of ours costs them time, not verdicts.
func (s *session) doubts(f smtp.Fault) bool {
	switch f.Event {
	case engine.EventHostServFail:
		return true
	case engine.EventConnectFailed, engine.EventTimeout, engine.EventClosed:
		return s.dialled && (s.conn == nil && s.lane.heard > 0 || s.from.health.doubts(s.firstBegan()))
	}
	return false
}

// firstBegan is when the first of the connections to the host was begun that have failed in a row. The lane's mutex is held.
func (s *session) firstBegan() time.Time {
	if u := s.lane.unproven[s.group.host]; u.tries > 0 {
		return u.began
	}
	return s.began
}

func (s *session) classify(r engine.Reply) engine.Finding {
	return s.lane.prober.table.Load().Classify(s.lane.provider, r, s.from.asker)
}

// fail tells the lane that no recipient could be named on this connection. What a knock meets is expected while the source reaches
// no host, and blames none; a reply to a knock is told to the lane like any other.
func (s *session) fail(f smtp.Fault) {
	if s.group.knock && f.Event != engine.EventReply {
		return
	}
	l, now := s.lane, time.Now()
	l.mu.Lock()
	seen := s.sighting(f, now)
	out := l.failed(s, f, seen, now, nil)
	l.mu.Unlock()
	l.prober.finish(l, out, now)
}

// failed acts on a failure before RCPT. While other sessions of the group or at its address live, it is the connection's trouble; else the
// host's, and all who wait for the host see it. The mutex is held.
func (l *lane) failed(s *session, f smtp.Fault, seen engine.Sighting, now time.Time, out []ended) []ended {
	g := s.group
	if real := l.groups[g.key]; g.knock && real != nil {
		g = real // the probes that wait for the host hear what the knock has heard
	}
	switch {
	case f.RetryPlain: // also of a session that had begun before another learnt it: the next ones ask for no TLS
		g.plain = true
		return out
	case f.Event == engine.EventInternal:
		l.prober.cfg.Log.Warn("a connection could not be made for reasons of our own", "detail", f.Detail, "stage", f.Stage.String())
		l.retreat(minBackoff, maxBackoff, now) // in real time: it is this machine that needs it
		return out
	}
	if g.sessions > 1 && oneTooMany(&seen) {
		l.retreat(l.scaled(minBackoff), l.scaled(maxBackoff), now)
		return out
	}
	out = l.act(s, seen.Reply, seen.Finding, now, out)
	if s.proven(g) {
		l.retreat(l.scaled(minBackoff), l.scaled(maxBackoff), now)
		return out
	}
	if l.confirms(s, f, seen.Doubtful, now) {
		return out
	}
	l.prober.metrics.failures.WithLabelValues(seen.Event.String()).Inc()
	if len(l.down) < maxDown {
		set(&l.down, g.host, failure{sighting: seen, until: now.Add(l.scaled(failureLife))})
	}
	if out = l.emptyOut(g, now, out); len(s.asks) == 0 { // who was asked has counted that
		out = l.decoysFailed(s, g, seen.Event, now, out)
	}
	return out
}

// oneTooMany reports a greeting that takes no further connection for now (Exim, smtp_accept_max_per_host). While another one to the host
// lives, it is no reason to pause: that one is asked on.
func oneTooMany(seen *engine.Sighting) bool {
	return seen.Event == engine.EventReply && seen.Reply.Stage <= engine.StageBanner && seen.Reply.Code/100 == 4 &&
		seen.Finding.Meaning == engine.RateLimited
}

// confirms reports a failure that is believed only when it comes again, where only jobs wait: a host's first, as the first that
// fail in an outage of ours do not show that others will; and a second refusal while the source doubts itself, as it may come before
// a knock is answered. The mutex is held.
func (l *lane) confirms(s *session, f smtp.Fault, doubtful bool, now time.Time) bool {
	g := s.group
	l.dropUnproven(now)
	u := l.unproven[g.host]
	switch {
	case !s.mayRecover(f), g.queued[single] > 0, len(l.unproven) >= maxDown:
	case u.tries > 0 && !s.began.After(u.at):
		return true // both were tried at one time
	case u.tries == 0, u.tries == 1 && doubtful && f.Event == engine.EventConnectFailed:
		set(&l.unproven, g.host, refusals{u.tries + 1, s.firstBegan(), now})
		if again := now.Add(l.scaled(minBackoff) << u.tries); again.After(l.noConnect) {
			l.noConnect = again // l.backoff does not grow: a single that comes now shall not wait longer
		}
		return true
	}
	delete(l.unproven, g.host)
	return false
}

// dropUnproven forgets failures that nothing has followed: a host that fails once a day fails for the first time each day. At most
// maxDown hosts are looked through. The mutex is held.
func (l *lane) dropUnproven(now time.Time) {
	old := now.Add(-max(l.scaled(unprovenLife), unprovenLeast+l.prober.cfg.Connect))
	maps.DeleteFunc(l.unproven, func(_ string, u refusals) bool { return u.at.Before(old) })
}

// mayRecover reports a failure that another try may not meet: a refusal, or silence in which the source was not seen to work.
func (s *session) mayRecover(f smtp.Fault) bool {
	return f.Event == engine.EventConnectFailed ||
		f.Event == engine.EventTimeout && f.Stage == engine.StageConnect && s.dialled && s.from.health.unsure(s.began)
}

// act does to the lane what the finding of a reply asks for. The mutex is held.
func (l *lane) act(s *session, r engine.Reply, f engine.Finding, now time.Time, out []ended) []ended {
	a := f.Action
	if a.Kind == engine.ActionNone {
		return out
	}
	until := now.Add(l.scaled(a.For))
	l.heed(s, r, f, now)
	l.prober.metrics.actions.WithLabelValues(a.Kind.String()).Inc()
	switch a.Kind {
	case engine.ActionSlow:
		l.pace.slow = until
	case engine.ActionPause:
		l.pause(until)
	case engine.ActionClose:
		s.leave = true
		l.pause(until)
	case engine.ActionQuarantine, engine.ActionQuarantineEverywhere:
		s.leave = true
		if a.Kind == engine.ActionQuarantineEverywhere {
			l.egress.namedBy(l.errand(s.group))
		}
		out = l.quarantine(until, a.Kind == engine.ActionQuarantineEverywhere, now, out)
	}
	return out
}

// quarantine rests this source at this receiver: who waits is told so, who comes later too.
func (l *lane) quarantine(until time.Time, everywhere bool, now time.Time, out []ended) []ended {
	if until.After(l.pace.rest) {
		l.pace.rest, l.listed = until, everywhere
	}
	l.prober.ledger.ask(&l.account)
	if l.prober.refrain.says(now) {
		l.prober.cfg.Log.Warn("a receiver wants no more of this source", "provider", l.provider.ID, "egress", l.key.egress, "until", l.pace.rest)
	}
	if l.provider.Kind == engine.KindWide {
		l.egress.restAt(l.provider.ID, l.pace.rest)
	}
	if everywhere && l.egress.vote(l.key.route, until, l.scaled(canaryRest), now) {
		l.prober.cfg.Log.Error("three routes refuse this source as blocklisted: it rests everywhere", "egress", l.key.egress, "until", until)
		l.prober.spawn(func(context.Context, context.Context) { l.prober.restEverywhere(l.egress) })
	}
	return l.leave(now, out)
}

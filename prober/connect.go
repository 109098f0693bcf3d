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

// connect finds, dials and greets the session's host. When that fails, it has told the queue why.
func (s *session) connect(ctx context.Context) bool {
	reenter := s.leaveWhileWaiting()
	addr, event := s.findAddr(ctx)
	reenter()
	if ctx.Err() != nil {
		return false
	}
	if event != engine.EventReply {
		s.returnTrial("", trialCheckInterval)
		s.fail(smtp.Fault{Event: event})
		return false
	}
	if !s.mayProbe(addr) {
		s.returnTrial("", trialCheckInterval)
		s.stopUnidentified()
		return false
	}
	if s.queue.unknownProvider && !s.reserveAddress(addr) {
		s.returnTrial(s.queue.key.route, 0)
		return false
	}
	conn, f := s.dial(ctx, addr)
	if f.None() {
		s.conn, f = smtp.Open(ctx, gatedConn{conn, s}, s.config(), s.hostQueue.host)
	}
	met := s.noteConnected(conn != nil && f.Event != engine.EventConnectFailed) // who hangs up at once has refused
	if !f.None() {
		if ctx.Err() == nil {
			s.fail(f)
		}
		return false
	}
	if s.source == s.queue.source {
		s.source.health.recordReached(met)
	}
	x := s.conn.Extensions()
	s.maxRcpt, s.maxMail, s.oneDomain = x.RcptMax, x.MailMax, x.RcptDomainMax == 1
	return true
}

// returnTrial takes back the trial connection that the connection was to be, if it was one: its place goes to a route, or after a pause to any.
func (s *session) returnTrial(route string, pause time.Duration) {
	if !s.nextTrial.IsZero() {
		s.queue.source.returnTrial(s.nextTrial, route, time.Now().Add(s.queue.scaled(pause)))
	}
}

// mayProbe reports that we may ask this address: public ones only with a name to greet with and a reverse-path to answer for.
func (s *session) mayProbe(a netip.Addr) bool {
	return s.queue.prober.cfg.MailFrom != "" && s.source.hasHostName() || smtp.ClassOf(a) == smtp.Private
}

func (s *session) dial(ctx context.Context, addr netip.Addr) (net.Conn, smtp.Fault) {
	cfg := &s.queue.prober.cfg
	d := smtp.Dialer{Local: s.source.Local, SOCKS5: s.source.proxy(cfg.SOCKS5), AllowPrivate: cfg.AllowPrivate, Dial: cfg.Dial}
	dialing, cancel := context.WithTimeout(ctx, cfg.Connect)
	defer cancel()
	s.dialled, s.began = true, time.Now()
	s.queue.prober.metrics.connections.Inc()
	reenter := s.leaveWhileWaiting()
	conn, f := d.DialContext(dialing, netip.AddrPortFrom(addr, cfg.Port))
	reenter()
	if ctx.Err() != nil {
		return conn, f // we gave up, which says nothing of the source
	}
	now := time.Now()
	if s.source.health.recordConnect(f.None(), s.queue.key.route, now) {
		cfg.Log.Warn("a source cannot connect, or can again; while it cannot, one connection in a while tries", "egress", s.source.name, "connects", f.None())
	}
	switch {
	case !f.None():
		s.queue.prober.watch(s.source)
	case s.hostQueue.reachTrial:
		s.source.health.recordTrialReply(now)
	}
	return conn, f
}

func (s *session) config() smtp.Config {
	p := s.queue.prober
	c := smtp.Config{EHLO: s.source.EHLO, MailFrom: p.cfg.MailFrom, TLS: s.queue.provider.TLS, Timeouts: p.cfg.Timeouts, MaxBytes: maxReplyBytes, TLSConfig: p.tls}
	if !s.queue.unknownProvider {
		c.TLSConfig = p.tickets.resume(p.tls, s.queue.provider.ID, s.hostQueue.host)
	}
	if c.EHLO == "" {
		c.EHLO = "[127.0.0.1]" // only private targets are asked without a name
	}
	if s.tlsFailed && c.TLS == engine.TLSOpportunistic {
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

// noteConnected books the connection in the rates: the peer has seen it by now. It says who it is, and for whom it was asked.
func (s *session) noteConnected(reached bool) reachTrial {
	q, now := s.queue, time.Now()
	q.mu.Lock()
	q.budget.settleConnect(now)
	if reached {
		delete(q.unconfirmedFailures, s.hostQueue.host)
	}
	trial := reachTrial{q.delistingTrialAt(s.hostQueue), s.hostQueue.host}
	q.mu.Unlock()
	if s.addressLimit != nil {
		s.addressLimit.settleConnect(now)
	}
	return trial
}

// stopUnidentified lets all who wait in the queue go home unprobed, now and later: its hosts are public, and this node has no face to show.
func (s *session) stopUnidentified() {
	q, now := s.queue, time.Now()
	q.prober.warnNoIdentity()
	q.mu.Lock()
	q.noSenderIdentity = true
	out := q.drain(now, nil)
	q.mu.Unlock()
	q.prober.finish(q, out, now)
}

// sighting is a fault as evidence. The queue's mutex is held.
func (s *session) sighting(f smtp.Fault, now time.Time) engine.Sighting {
	g := engine.Sighting{Event: f.Event, Host: s.hostQueue.host, At: now}
	if f.Event == engine.EventReply {
		g.Reply = f.Reply
		g.Finding = s.classify(f.Reply)
	}
	g.MaybeOurFault = s.isDoubtful(f)
	return g
}

// isDoubtful reports a failure that tells little of the host: its name could not be looked up, or it cannot be reached just now while
// it was before, or while no host can. Jobs try again by the schedule, so that a short outage of ours costs them time, not verdicts.
func (s *session) isDoubtful(f smtp.Fault) bool {
	switch f.Event {
	case engine.EventHostServFail:
		return true
	case engine.EventConnectFailed, engine.EventTimeout, engine.EventClosed:
		return s.dialled && (s.conn == nil && s.queue.answersSeen > 0 || s.source.health.mayBeOurFault(s.firstFailureBegan()))
	}
	return false
}

// firstFailureBegan is when the first of the connections to the host was begun that have failed in a row. The queue's mutex is held.
func (s *session) firstFailureBegan() time.Time {
	if u := s.queue.unconfirmedFailures[s.hostQueue.host]; u.tries > 0 {
		return u.firstBegan
	}
	return s.began
}

func (s *session) classify(r engine.Reply) engine.Finding {
	return s.queue.prober.table.Load().Classify(s.queue.provider, r, s.source.sender)
}

// fail tells the queue that no recipient could be named on this connection. What a reachability trial meets is expected while the source reaches
// no host, and blames none; a reply to a reachability trial is told to the queue like any other.
func (s *session) fail(f smtp.Fault) {
	if s.hostQueue.reachTrial && f.Event != engine.EventReply {
		return
	}
	q, now := s.queue, time.Now()
	q.mu.Lock()
	seen := s.sighting(f, now)
	out := q.handleFailure(s, f, seen, now, nil)
	q.mu.Unlock()
	q.prober.finish(q, out, now)
}

// handleFailure acts on a failure before RCPT. While other sessions of the group or at its address live, it is the connection's trouble; else the
// host's, and all who wait for the host see it. The mutex is held.
func (q *readyQueue) handleFailure(s *session, f smtp.Fault, seen engine.Sighting, now time.Time, out []finishedProbe) []finishedProbe {
	hq := s.hostQueue
	if actual := q.hostQueues[hq.key]; hq.reachTrial && actual != nil {
		hq = actual // the probes that wait for the host hear what the reachability trial has heard
	}
	switch {
	case f.RetryPlain: // also of a session that had begun before another learnt it: the next ones ask for no TLS
		hq.tlsFailed = true
		return out
	case f.Event == engine.EventInternal:
		q.prober.cfg.Log.Warn("a connection could not be made for reasons of our own", "detail", f.Detail, "stage", f.Stage.String())
		q.backOff(minBackoff, maxBackoff, now) // in real time: it is this machine that needs it
		return out
	}
	if hq.sessions > 1 && tooManyConnections(&seen) {
		q.backOff(q.scaled(minBackoff), q.scaled(maxBackoff), now)
		return out
	}
	out = q.applyAction(s, seen.Reply, seen.Finding, now, out)
	if s.hostWorks(hq) {
		q.backOff(q.scaled(minBackoff), q.scaled(maxBackoff), now)
		return out
	}
	if q.needsSecondFailure(s, f, seen.MaybeOurFault, now) {
		return out
	}
	q.prober.metrics.failures.WithLabelValues(seen.Event.String()).Inc()
	if len(q.down) < maxDown {
		set(&q.down, hq.host, failure{sighting: seen, until: now.Add(q.scaled(failureLife))})
	}
	if out = q.drainQueues(hq, now, out); len(s.recipients) == 0 { // who was asked has counted that
		out = q.failDecoys(s, hq, seen.Event, now, out)
	}
	return out
}

// tooManyConnections reports a greeting that takes no further connection for now (Exim, smtp_accept_max_per_host). While another one to the host
// lives, it is no reason to pause: that one is asked on.
func tooManyConnections(seen *engine.Sighting) bool {
	return seen.Event == engine.EventReply && seen.Reply.Stage <= engine.StageBanner && seen.Reply.Code/100 == 4 &&
		seen.Finding.Meaning == engine.RateLimited
}

// needsSecondFailure reports a failure that is believed only when it comes again, where only jobs wait: a host's first, as the first that
// fail in an outage of ours do not show that others will; and a second refusal while the source is suspect, as it may come before
// a reachability trial is answered. The mutex is held.
func (q *readyQueue) needsSecondFailure(s *session, f smtp.Fault, ourFault bool, now time.Time) bool {
	hq := s.hostQueue
	q.dropUnconfirmed(now)
	u := q.unconfirmedFailures[hq.host]
	switch {
	case !s.mayRecover(f), hq.queued[single] > 0, len(q.unconfirmedFailures) >= maxDown:
	case u.tries > 0 && !s.began.After(u.lastFailed):
		return true // both were tried at one time
	case u.tries == 0, u.tries == 1 && ourFault && f.Event == engine.EventConnectFailed:
		set(&q.unconfirmedFailures, hq.host, failedTries{u.tries + 1, s.firstFailureBegan(), now})
		if again := now.Add(q.scaled(minBackoff) << u.tries); again.After(q.connectNotBefore) {
			q.connectNotBefore = again // l.backoff does not grow: a single that comes now shall not wait longer
		}
		return true
	}
	delete(q.unconfirmedFailures, hq.host)
	return false
}

// dropUnconfirmed forgets failures that nothing has followed: a host that fails once a day fails for the first time each day. At most
// maxDown hosts are looked through. The mutex is held.
func (q *readyQueue) dropUnconfirmed(now time.Time) {
	old := now.Add(-max(q.scaled(unconfirmedLife), minUnconfirmedLife+q.prober.cfg.Connect))
	maps.DeleteFunc(q.unconfirmedFailures, func(_ string, u failedTries) bool { return u.lastFailed.Before(old) })
}

// mayRecover reports a failure that another try may not meet: a refusal, or silence in which the source was not seen to work.
func (s *session) mayRecover(f smtp.Fault) bool {
	return f.Event == engine.EventConnectFailed ||
		f.Event == engine.EventTimeout && f.Stage == engine.StageConnect && s.dialled && s.source.health.mayBeOutage(s.began)
}

// applyAction does to the queue what the finding of a reply asks for. The mutex is held.
func (q *readyQueue) applyAction(s *session, r engine.Reply, f engine.Finding, now time.Time, out []finishedProbe) []finishedProbe {
	a := f.Action
	if a.Kind == engine.ActionNone {
		return out
	}
	until := now.Add(q.scaled(a.For))
	q.recordAction(s, r, f, now)
	q.prober.metrics.actions.WithLabelValues(a.Kind.String()).Inc()
	switch a.Kind {
	case engine.ActionSlow:
		q.budget.halvedUntil = until
	case engine.ActionPause:
		q.pause(until)
	case engine.ActionClose:
		s.closing = true
		q.pause(until)
	case engine.ActionQuarantine, engine.ActionQuarantineEverywhere:
		s.closing = true
		if a.Kind == engine.ActionQuarantineEverywhere {
			q.source.recordBlocklistedBy(q.delistingTrialAt(s.hostQueue))
		}
		out = q.quarantine(until, a.Kind == engine.ActionQuarantineEverywhere, now, out)
	}
	return out
}

// quarantine quarantines this source at this receiver: who waits is told so, who comes later too.
func (q *readyQueue) quarantine(until time.Time, everywhere bool, now time.Time, out []finishedProbe) []finishedProbe {
	if until.After(q.budget.quarantinedUntil) {
		q.budget.quarantinedUntil, q.blocklisted = until, everywhere
	}
	q.prober.budgetLog.requestLease(&q.persistedBudget)
	if q.prober.quarantineLog.allow(now) {
		q.prober.cfg.Log.Warn("a receiver wants no more of this source", "provider", q.provider.ID, "egress", q.key.source, "until", q.budget.quarantinedUntil)
	}
	if q.provider.Kind == engine.KindWide {
		q.source.quarantineAt(q.provider.ID, q.budget.quarantinedUntil)
	}
	if everywhere && q.source.addBlocklistReport(q.key.route, until, q.scaled(delistingTrialInterval), now) {
		q.prober.cfg.Log.Error("three routes refuse this source as blocklisted: it rests everywhere", "egress", q.key.source, "until", until)
		q.prober.spawn(func(context.Context, context.Context) { q.prober.quarantineEverywhere(q.source) })
	}
	return q.drain(now, out)
}

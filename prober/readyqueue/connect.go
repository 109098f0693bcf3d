package readyqueue

import (
	"context"
	"slices"
	"time"

	"probity/engine"
	"probity/engine/charset"
	"probity/engine/smtp"
	"probity/prober/budget"
	"probity/prober/conn"
	"probity/prober/hosthealth"
	"probity/prober/source"
)

// connect looks the session's host up, dials it and greets it. It returns false if no recipient can be sent on this
// connection; what that says of the host, of its address or of the source is recorded then.
func (s *session) connect(ctx context.Context) bool {
	q, env := s.queue, s.queue.env
	began := time.Now()
	f := smtp.Fault{Event: s.lookUp(ctx, began)}
	switch {
	case ctx.Err() != nil:
		q.Source.ReturnTrial(s.nextTrial, "", time.Now())
		return false
	case !f.None():
		q.Source.ReturnTrial(s.nextTrial, "", time.Now().Add(q.Scaled(source.TrialCheckInterval)))
	case env.Opener.LacksIdentity(s.source, s.addr):
		now := time.Now()
		q.Source.ReturnTrial(s.nextTrial, "", now.Add(q.Scaled(source.TrialCheckInterval)))
		env.warned.Do(func() {
			env.Log.Warn("public mail servers are not asked: no EHLO host name or no MAIL FROM is configured")
		})
		l := q.lock()
		defer l.unlock()
		l.noSenderIdentity = true // all probes of the queue go on without SMTP, now and later: its hosts are public
		l.drain(now)
		return false
	case q.unknownProvider && !s.reserveAddress():
		q.Source.ReturnTrial(s.nextTrial, q.Key.Route, time.Now())
		return false
	case s.mayNotDial(time.Now()):
		q.Source.ReturnTrial(s.nextTrial, "", time.Now())
		return false
	default:
		f = s.dial(ctx)
	}
	l := q.lock()
	defer l.unlock()
	switch {
	case f.None():
		x := s.conn.Extensions()
		s.maxRcpt = x.RcptMax
		s.maxMail = x.MailMax
		s.oneDomain = x.RcptDomainMax == 1
		env.NodeRTT.Record(s.conn.RoundTrip())
		l.latency.RecordConnect(time.Since(began), s.conn.BannerWait(), s.conn.RoundTrip())
		l.hostHealth.MarkAddressUp(s.addr)
		return true
	case ctx.Err() != nil:
	// A reachability trial is expected to fail while the source reaches no host, so it blames none; a reply to one is
	// reported like any other.
	case s.host.reachTrial && f.Event != engine.EventReply:
	default:
		now := time.Now()
		s.handleFailure(l, f, s.sighting(l, f, now), now)
	}
	return false
}

// mayNotDial reports whether the receiver was excluded, or the source quarantined, while the session waited for
// admission and looked its host up.
func (s *session) mayNotDial(now time.Time) bool {
	l := s.queue.lock()
	defer l.unlock()
	return l.connectDisabled(now) || s.nextTrial.IsZero() && l.Source.Quarantined(now)
}

// lookUp finds the addresses of the session's host and chooses the one to dial: that of the session's pool, if the host
// is still there, else the preferred one. It returns EventReply, or why there is none.
func (s *session) lookUp(ctx context.Context, now time.Time) engine.Event {
	q, opener := s.queue, s.queue.env.Opener
	reenter := s.seat.LeaveWhileWaiting()
	addrs, event := opener.Addresses(ctx, s.host.Name, q.Source)
	reenter()
	l := q.lock()
	defer l.unlock()
	pool := s.pool
	s.addrs = addrs
	s.addr = l.shared.preferredAddr(addrs)
	if pool != nil && slices.Contains(addrs, pool.addr) && !l.hostHealth.AddressFailed(pool.addr, now) {
		s.addr = pool.addr
	}
	s.dialogue = l.hostHealth.Dialogue(s.host.Name, now)
	s.answersUnproven = (q.unknownProvider || s.dialogue.Careful) && !s.dialogue.Confirmed
	if l.shared.sharesByAddress(s.host) {
		s.host.lookup.At = time.Now()
		l.shared.setHostAddr(s.host, s.addr)
	}
	if event != engine.EventReply {
		return event
	}
	s.source = opener.SourceFor(s.addr, q.Source)
	l.shared.attach(s, s.addr)
	if pool != nil && s.pool != pool {
		l.dispatch(time.Now()) // for hosts that requested this session
	}
	return event
}

// dial connects to the address of the session's host and greets it.
func (s *session) dial(ctx context.Context) smtp.Fault {
	q, env := s.queue, s.queue.env
	s.dialled = true
	s.began = time.Now()
	env.Metrics.Connections.Inc()
	reenter := s.seat.LeaveWhileWaiting()
	tcp, f := env.Opener.Dial(ctx, s.source, s.addr)
	reenter()
	if ctx.Err() == nil { // else it was cancelled by us, which says nothing about the source
		if s.source.RecordConnect(f.None(), s.host.reachTrial, q.Key.Route, time.Now()) {
			event := "egress source is down: trial connections only"
			if f.None() {
				event = "egress source is up again"
			}
			env.Log.Warn(event, "egress", s.source.Name)
		}
		if !f.None() {
			env.Suspect(s.source)
		}
	}
	if f.None() {
		host := conn.Host{Name: s.host.Name, Provider: q.Provider, Unknown: q.unknownProvider, NoTLS: s.tlsFailed,
			Dialogue: s.dialogue}
		host.Patience = func() bool { // a slow host keeps no place that others need, nor a row from another address
			return len(s.addrs) == 1 && !env.Slots.Scarce() && time.Since(s.began) < q.Scaled(5*time.Minute)
		}
		s.conn, f = env.Opener.Greet(ctx, s.seat.Conn(tcp), s.source, host)
	}
	// The connection counts in the rates now, as the peer has seen it.
	now := time.Now()
	if s.addressLimit != nil {
		s.addressLimit.SettleConnect(now)
	}
	l := q.lock()
	defer l.unlock()
	l.budget.SettleConnect(now)
	if tcp != nil && f.Event != engine.EventConnectFailed { // a host that closes at once has refused
		l.hostHealth.ForgetFailures(s.host.Name)
	}
	if f.None() && s.source == q.Source {
		s.source.RecordReached(s.host.target())
	}
	return f
}

// sighting turns a fault into evidence.
//
// Some failures say little about the host: its name could not be looked up, or it cannot be reached now but could
// before, or no host can be reached. Jobs try again by the schedule, so that a short outage of ours delays rows and
// decides none.
func (s *session) sighting(l *locked, f smtp.Fault, now time.Time) engine.Sighting {
	g := engine.Sighting{Event: f.Event, Host: s.host.Name, At: now}
	switch f.Event {
	case engine.EventReply:
		g.Reply, g.Finding = s.classify(f.Reply, "")
	case engine.EventHostServFail:
		g.MaybeOurFault = true
	case engine.EventConnectFailed, engine.EventTimeout, engine.EventClosed:
		began := l.hostHealth.FirstFailureBegan(g.Host, s.began)
		g.MaybeOurFault = s.dialled && (s.conn == nil && l.waiting.Answers > 0 || s.source.MayBeOurFault(began))
	}
	return g
}

// classify reads a reply, to the recipient with a local part if there is one: what it means, and its text as it can be
// shown.
func (s *session) classify(r engine.Reply, local string) (engine.Reply, engine.Finding) {
	return charset.Read(s.queue.env.Table.Load(), s.queue.Provider, r, s.source.Sender.To(local))
}

// handleFailure acts on a failure before RCPT. If other connections to the host or its address work, only this
// connection has failed; else the host has, and all probes that wait for it see the failure.
func (s *session) handleFailure(l *locked, f smtp.Fault, seen engine.Sighting, now time.Time) {
	m := s.host
	if actual := l.hosts[m.Key]; m.reachTrial && actual != nil {
		m = actual // the reply to the trial counts for the probes that wait for the host
	}
	switch {
	case f.RetryPlain:
		m.tlsFailed = true // the next connections use no TLS
		return
	case f.Event == engine.EventOutOfStep && l.hostHealth.DistrustDialogue(m.Name, now):
		return // the next connection sends one command at a time
	case f.Event == engine.EventInternal:
		l.env.Log.Warn("a connection failed for a local reason", "detail", f.Detail, "stage", f.Stage.String())
		l.delay.BackOff(minBackoff, maxBackoff, now) // not scaled: this machine needs the time
		return
	}
	// A greeting that takes no further connection for now (Exim, smtp_accept_max_per_host) is no reason to pause while
	// another one is open.
	if m.sessions > 1 && f.Event == engine.EventReply && f.Reply.Stage <= engine.StageBanner &&
		f.Reply.Code/100 == 4 && seen.Finding.Meaning == engine.RateLimited {
		l.backOff(now)
		return
	}
	s.applyAction(l, seen.Reply, seen.Finding, now)
	if m.healthy > 0 || s.dialled && s.pool != nil && s.pool.healthy > 0 {
		l.backOff(now) // another connection to the host or its address works
		return
	}
	if s.dialled && l.hostHealth.FailAddress(s.addr, s.addrs, &seen, now) {
		return // the next connection goes to another address
	}
	if s.needsSecondFailure(l, f, seen.MaybeOurFault, now) {
		return
	}
	l.env.Metrics.Failures.WithLabelValues(seen.Event.String()).Inc()
	l.markDown(m, seen, failureLife)
	if len(s.group.Recipients) > 0 {
		return // the recipients have counted it
	}
	pending, soon := m.FailDecoys(seen.Event, s.dialled && s.source.MayBeOurFault(s.began), now)
	switch {
	case pending && soon:
		m.deny(budget.Single, now.Add(l.Scaled(minBackoff)), now)
	case pending:
		m.deny(budget.Single, now.Add(l.Scaled(failureLife)), now)
	}
}

// backOff delays new connections after a failed one.
func (l *locked) backOff(now time.Time) {
	l.delay.BackOff(l.Scaled(minBackoff), l.Scaled(maxBackoff), now)
}

// markDown has all probes that wait for a host, or come to it within a time, see its failure.
func (l *locked) markDown(m *mxHost, seen engine.Sighting, life time.Duration) {
	l.hostHealth.MarkDown(m.Name, seen, seen.At.Add(l.Scaled(life)))
	l.drainQueues(&m.Queue, seen.At)
}

// needsSecondFailure reports whether the failure counts only if it repeats, where only jobs wait: a host's first,
// because the first failures of an outage of ours look like the host's; and a second refused connect while the source
// is suspect, because it may come before a reachability trial is answered. That is so for a refused connect and for a
// timeout that may be an outage of ours: another try may not meet them.
func (s *session) needsSecondFailure(l *locked, f smtp.Fault, ourFault bool, now time.Time) bool {
	m := s.host
	l.dropUnconfirmed(now)
	refused := f.Event == engine.EventConnectFailed
	outage := f.Event == engine.EventTimeout && f.Stage == engine.StageConnect && s.dialled &&
		s.source.MayBeOutage(s.began)
	if !refused && !outage || m.Queued(budget.Single) > 0 {
		l.hostHealth.ForgetFailures(m.Name)
		return false
	}
	try := hosthealth.Try{Began: s.began, Backoff: l.Scaled(minBackoff), Doubtful: ourFault && refused}
	confirmed, again := l.hostHealth.RecordFailure(m.Name, try, now)
	if again.After(l.delay.ConnectAt) {
		l.delay.ConnectAt = again // the back-off does not grow: a single call that comes now must not wait longer
	}
	return !confirmed
}

// dropUnconfirmed forgets failures that were not repeated in time, and returns how many are left.
func (l *locked) dropUnconfirmed(now time.Time) (left int) {
	return l.hostHealth.DropUnconfirmed(now.Add(-max(l.Scaled(unconfirmedLife),
		minUnconfirmedLife+l.env.Opener.ConnectTimeout)))
}

// recordActionEvery is how often a reply is recorded, for people, that asks for the same action again.
const recordActionEvery = time.Second

// applyAction applies the action of a reply's finding to the queue.
func (s *session) applyAction(l *locked, r engine.Reply, f engine.Finding, now time.Time) {
	a := f.Action
	if a.Kind == engine.ActionNone {
		return
	}
	until := now.Add(l.Scaled(a.For))
	if last := &l.lastAction; last.rule != f.Rule || now.Sub(last.at) >= recordActionEvery {
		*last = cause{at: now, host: s.host.Name, rule: f.Rule, reply: s.group.Redact(r)}
	}
	l.env.Metrics.Actions.WithLabelValues(a.Kind.String()).Inc()
	switch a.Kind {
	case engine.ActionSlow:
		l.budget.HalvedUntil = until
	case engine.ActionPause:
		l.delay.Pause(until)
	case engine.ActionClose:
		s.phase.close()
		l.delay.Pause(until)
	case engine.ActionQuarantine:
		s.phase.close()
		l.quarantine(a.Kind, until, now)
	case engine.ActionQuarantineEverywhere:
		s.phase.close()
		l.Source.RecordBlocklistedBy(s.host.target())
		l.quarantine(a.Kind, until, now)
	}
}

package readyqueue

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"probity/engine"
	"probity/engine/charset"
	"probity/engine/smtp"
	"probity/prober/budget"
	"probity/prober/conn"
	"probity/prober/hosthealth"
	"probity/prober/hostqueue"
	"probity/prober/source"
)

// connect resolves, dials and greets the session's host. If that fails, it reports the reason to the queue: no
// recipient could be sent on this connection.
func (s *session) connect(ctx context.Context) bool {
	q, env, began := s.queue, s.queue.env, time.Now()
	reenter := s.seat.LeaveWhileWaiting()
	addrs, event := env.Opener.Addresses(ctx, s.host.Name, q.Source)
	reenter()
	// The address of the session's pool, if the host is still there, else the preferred one.
	l := q.lock()
	addr, was := l.shared.preferredAddr(addrs), s.pool
	if was != nil && slices.Contains(addrs, was.addr) && !l.hostHealth.AddressFailed(was.addr, began) {
		addr = was.addr
	}
	s.addr, s.addrs, s.dialogue = addr, addrs, l.hostHealth.Dialogue(s.host.Name, began)
	s.onTrial = (q.unknownProvider || s.dialogue.Careful) && !s.dialogue.Confirmed
	if l.shared.sharesByAddress(s.host) {
		s.host.lookup.at = time.Now()
		l.shared.setHostAddr(s.host, addr)
	}
	if event == engine.EventReply {
		s.source = env.Opener.SourceFor(addr, q.Source)
		l.shared.attach(s, addr)
		if was != nil && s.pool != was {
			l.dispatch(time.Now()) // for hosts that requested this session
		}
	}
	l.unlock()
	f := smtp.Fault{Event: event}
	switch {
	case ctx.Err() != nil:
		return false
	case event != engine.EventReply:
		q.Source.ReturnTrial(s.nextTrial, "", time.Now().Add(q.scaled(source.TrialCheckInterval)))
	case env.Opener.LacksIdentity(s.source, addr):
		now := time.Now()
		q.Source.ReturnTrial(s.nextTrial, "", now.Add(q.scaled(source.TrialCheckInterval)))
		env.warned.Do(func() {
			env.Log.Warn("public mail servers are not asked: no EHLO host name or no MAIL FROM is configured")
		})
		l = q.lock()
		l.noSenderIdentity = true // all probes of the queue go on without SMTP, now and later: its hosts are public
		out := l.drain(now, nil)
		l.unlock()
		env.Finish(q, out, now)
		return false
	case q.unknownProvider && !s.reserveAddress(addr):
		q.Source.ReturnTrial(s.nextTrial, q.Key.Route, time.Now())
		return false
	default:
		f = s.dial(ctx, addr)
	}
	if f.None() {
		x := s.conn.Extensions()
		s.maxRcpt, s.maxMail, s.oneDomain = x.RcptMax, x.MailMax, x.RcptDomainMax == 1
		env.NodeRTT.Record(s.conn.RoundTrip())
		l = q.lock()
		l.latency.RecordConnect(time.Since(began), s.conn.BannerWait(), s.conn.RoundTrip())
		l.hostHealth.MarkAddressUp(addr)
		l.unlock()
		return true
	}
	// A reachability trial is expected to fail while the source reaches no host, so it blames none; a reply to one is
	// reported like any other.
	if ctx.Err() == nil && (!s.host.reachTrial || f.Event == engine.EventReply) {
		now := time.Now()
		l = q.lock()
		out := s.handleFailure(l, f, s.sighting(l, f, now), now, nil)
		l.unlock()
		env.Finish(q, out, now)
	}
	return false
}

// dial connects to the session's host and greets it.
func (s *session) dial(ctx context.Context, addr netip.Addr) smtp.Fault {
	q, env := s.queue, s.queue.env
	s.dialled, s.began = true, time.Now()
	env.Metrics.Connections.Inc()
	reenter := s.seat.LeaveWhileWaiting()
	tcp, f := env.Opener.Dial(ctx, s.source, addr)
	reenter()
	if ctx.Err() == nil { // else it was cancelled by us, which says nothing about the source
		now := time.Now()
		if s.source.RecordConnect(f.None(), s.host.reachTrial, q.Key.Route, now) {
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
			return len(s.addrs) == 1 && !env.Slots.Scarce() && time.Since(s.began) < q.scaled(5*time.Minute)
		}
		s.conn, f = env.Opener.Greet(ctx, s.seat.Conn(tcp), s.source, host)
	}
	// The connection counts in the rates now, as the peer has seen it.
	now := time.Now()
	l := q.lock()
	l.budget.SettleConnect(now)
	if tcp != nil && f.Event != engine.EventConnectFailed { // a host that closes at once has refused
		l.hostHealth.ForgetFailures(s.host.Name)
	}
	reached := s.host.target()
	l.unlock()
	if s.addressLimit != nil {
		s.addressLimit.SettleConnect(now)
	}
	if f.None() && s.source == q.Source {
		s.source.RecordReached(reached)
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
func (s *session) handleFailure(l *locked, f smtp.Fault, seen engine.Sighting, now time.Time,
	out []hostqueue.Finished) []hostqueue.Finished {
	m := s.host
	if actual := l.hosts[m.Key]; m.reachTrial && actual != nil {
		m = actual // the reply to the trial counts for the probes that wait for the host
	}
	switch {
	case f.RetryPlain: // the next connections use no TLS
		m.tlsFailed = true
		return out
	// the next one sends one command at a time
	case f.Event == engine.EventOutOfStep && l.hostHealth.DistrustDialogue(m.Name, now):
		return out
	case f.Event == engine.EventInternal:
		l.env.Log.Warn("a connection failed for a local reason", "detail", f.Detail, "stage", f.Stage.String())
		l.delay.BackOff(minBackoff, maxBackoff, now) // not scaled: this machine needs the time
		return out
	}
	// A greeting that takes no further connection for now (Exim, smtp_accept_max_per_host) is no reason to pause while
	// another one is open.
	if m.sessions > 1 && f.Event == engine.EventReply && f.Reply.Stage <= engine.StageBanner &&
		f.Reply.Code/100 == 4 && seen.Finding.Meaning == engine.RateLimited {
		l.delay.BackOff(l.scaled(minBackoff), l.scaled(maxBackoff), now)
		return out
	}
	out = s.applyAction(l, seen.Reply, seen.Finding, now, out)
	// another connection to the host or its address works
	if m.healthy > 0 || s.dialled && s.pool != nil && s.pool.healthy > 0 {
		l.delay.BackOff(l.scaled(minBackoff), l.scaled(maxBackoff), now)
		return out
	}
	if s.dialled && l.hostHealth.FailAddress(s.addr, s.addrs, &seen, now) ||
		s.needsSecondFailure(l, f, seen.MaybeOurFault, now) {
		return out
	}
	l.env.Metrics.Failures.WithLabelValues(seen.Event.String()).Inc()
	l.hostHealth.MarkDown(m.Name, seen, now.Add(l.scaled(failureLife)))
	out = l.drainQueues(m, now, out)
	if len(s.group.Recipients) > 0 { // the recipients have counted it
		return out
	}
	out, pending, soon := m.FailDecoys(seen.Event, s.dialled && s.source.MayBeOurFault(s.began), now, out)
	if pause := failureLife; pending {
		if soon {
			pause = minBackoff
		}
		m.block(budget.Single, now.Add(l.scaled(pause)), now)
	}
	return out
}

// needsSecondFailure reports whether the failure counts only if it repeats, where only jobs wait: a host's first,
// because the first failures of an outage of ours look like the host's; and a second refused connect while the source
// is suspect, because it may come before a reachability trial is answered. It holds for a refused connect and for a
// timeout that may be an outage of ours: another try may not meet them.
func (s *session) needsSecondFailure(l *locked, f smtp.Fault, ourFault bool, now time.Time) bool {
	m := s.host
	l.dropUnconfirmed(now)
	mayRecover := f.Event == engine.EventConnectFailed ||
		f.Event == engine.EventTimeout && f.Stage == engine.StageConnect && s.dialled && s.source.MayBeOutage(s.began)
	if !mayRecover || m.Queued(budget.Single) > 0 {
		l.hostHealth.ForgetFailures(m.Name)
		return false
	}
	try := hosthealth.Try{Began: s.began, Backoff: l.scaled(minBackoff), Doubtful: ourFault &&
		f.Event == engine.EventConnectFailed}
	confirmed, again := l.hostHealth.RecordFailure(m.Name, try, now)
	if again.After(l.delay.ConnectAt) {
		l.delay.ConnectAt = again // the back-off does not grow: a single call that comes now must not wait longer
	}
	return !confirmed
}

// dropUnconfirmed forgets failures that were not repeated in time, and returns how many are left.
func (l *locked) dropUnconfirmed(now time.Time) (left int) {
	return l.hostHealth.DropUnconfirmed(now.Add(-max(l.scaled(unconfirmedLife),
		minUnconfirmedLife+l.env.Opener.ConnectTimeout)))
}

// recordActionEvery is how often a reply is recorded, for people, that asks for the same action again.
const recordActionEvery = time.Second

// applyAction applies the action of a reply's finding to the queue.
func (s *session) applyAction(l *locked, r engine.Reply, f engine.Finding, now time.Time,
	out []hostqueue.Finished) []hostqueue.Finished {
	a := f.Action
	if a.Kind == engine.ActionNone {
		return out
	}
	until := now.Add(l.scaled(a.For))
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
		s.closing = true
		l.delay.Pause(until)
	case engine.ActionQuarantine, engine.ActionQuarantineEverywhere:
		s.closing = true
		if a.Kind == engine.ActionQuarantineEverywhere {
			l.Source.RecordBlocklistedBy(s.host.target())
		}
		out = l.quarantine(until, a.Kind == engine.ActionQuarantineEverywhere, now, out)
	}
	return out
}

package readyqueue

import (
	"context"
	"slices"
	"time"

	"probity/engine"
	"probity/engine/smtp"
	"probity/prober/hostqueue"
)

// A tarpit answers more slowly the more errors it has seen, until no reply comes in time. When replies take far longer
// than the fastest, the host is paused, the longer the slower it is, so it recovers about as fast as it slows down.
const maxTarpitPause = 15 * time.Minute

// sendTransaction sends the filled transaction and handles its replies. It returns false if the connection is of no
// more use.
func (s *session) sendTransaction(ctx context.Context) bool {
	s.seen = slices.Grow(s.seen[:0], len(s.group.Recipients))
	began := time.Now()
	o := s.conn.Transaction(ctx, s.group.Rcpts, func(i int, r engine.Reply) {
		r, f := s.classify(r, s.group.Rcpts[i].Local)
		s.seen = append(s.seen, hostqueue.Answer{Recipient: i, Reply: r, Finding: f})
		if f.Meaning == engine.Accepted {
			s.acceptedDomains[s.group.Recipients[i].Domain.Name] = true
		}
	})
	q, m, now := s.queue, s.host, time.Now()
	pipelining := s.conn.Extensions().Pipelining
	l := q.lock()
	s.collectInto(l)
	rh := replyHandler{Replies: m.NewReplies(&s.group, s.seen, s.shown, &s.unproven, now), s: s, l: l, o: &o}
	cost := s.group.Cost(s.seen, &o, pipelining)
	l.budget.Settle(&s.used, cost, now)
	refused := l.budget.Refusals(now)
	if s.addressLimit != nil {
		s.addressLimit.Settle(&s.addressUsed, cost, now)
		refused = max(refused, s.addressLimit.Refusals(now))
	}
	rh.RecordRefusals(refused, q.Provider.Limits.RefusalsPerHour)
	rh.un = hostqueue.Unanswered{Outcome: &o, Pipelining: pipelining, First: !s.progress,
		MayConnect: func() bool { return !l.connectDisabled(now) }, Accepted: s.acceptedDomains}
	switch {
	// A recipient that was alone in its group and timed out is sent again in any case, and that counts.
	case rh.NeedCare(&rh.un) && l.hostHealth.DistrustDialogue(m.Name, now) &&
		(o.Fault.Event != engine.EventTimeout || len(s.group.Recipients) > 1):
		s.phase.close()
		rh.RequeueUntried(&rh.un)
	case s.group.RefusedAtMail(&o) && len(s.seen) == 0:
		rh.handleMailRefused()
	default:
		rh.deliverReplies()
	}
	rh.Resolve()
	s.group.RemoveEmpty()
	// Wide providers and those with tenants have many machines behind a name: one that is slow is not a tarpit.
	took := now.Sub(began)
	if len(s.seen) > 0 && !l.Provider.Shared() {
		pause := l.hostHealth.RecordReplyTime(m.Name, took/time.Duration(len(s.seen)), l.Scaled(maxTarpitPause))
		if pause > 0 {
			s.phase.close()
			l.delay.Pause(now.Add(pause))
		}
	}
	if s.recordTiming(l, took, len(s.group.Recipients)-len(o.NoUTF8)) {
		m.scheduleNeeded()
	}
	q.env.Metrics.Recipients.Add(float64(len(s.group.Recipients)))
	q.env.Metrics.Sent.Add(uint64(len(s.group.Recipients)))
	q.env.Metrics.Replies.Add(float64(len(s.seen)))
	s.group.Reset()
	if s.phase != reset {
		l.dispatch(now)
	}
	s.collectInto(l)
	goesOn := s.phase == open
	l.unlock()
	if !s.answersUnproven || s.conn.Confirmed() {
		q.env.release(q, &s.unproven)
	}
	return goesOn && !s.conn.Unusable()
}

// recordTiming gives the latency estimate the time of a transaction of n recipients, less what does not grow with n.
// Without PIPELINING each recipient is a round trip, and so are RSET and MAIL. It returns true if another connection
// has become worthwhile: nothing else looks at the probes that wait already.
func (s *session) recordTiming(l *locked, all time.Duration, n int) bool {
	oldWorth := l.worthConnection()
	switch {
	case n <= 0: // no recipient was asked
	case !s.conn.Extensions().Pipelining:
		l.latency.RecordTransaction(all, n+2)
	case s.host.OneAtATime || s.host.MaxRecipients > 0:
		l.latency.RecordTransaction(all, n)
	default:
		l.latency.RecordTransaction(all-s.conn.RoundTrip(), n)
	}
	return l.worthConnection() < oldWorth
}

// replyHandler handles the replies of one group of transactions, with the queue locked throughout.
type replyHandler struct {
	hostqueue.Replies
	s  *session
	l  *locked
	o  *smtp.Outcome
	un hostqueue.Unanswered
}

// handleMailRefused handles a refused MAIL. The first of a connection is about us at this host (RFC 5321 section 3.3);
// after a later one the connection is used up, and all recipients come first on another.
func (rh *replyHandler) handleMailRefused() {
	s, l, f := rh.s, rh.l, rh.o.Fault
	if rh.o.Mail.Code != 0 {
		f = smtp.Fault{Stage: engine.StageMail, Reply: rh.o.Mail}
	}
	s.phase.close()
	if !s.progress && f.Event != engine.EventInternal {
		seen := s.sighting(l, f, rh.Now)
		another := l.hostHealth.FailAddress(s.addr, s.addrs, &seen, rh.Now)
		for _, r := range s.group.Recipients {
			if r.Probe != nil && !another {
				r.Probe.Ev.Append(seen)
			}
		}
		rh.un.MailRefused = true
		rh.RequeueUntried(&rh.un)
		if !another {
			s.handleFailure(l, f, seen, rh.Now)
		}
		return
	}
	rh.applyMailReply()
	if f.Event == engine.EventInternal && f.Stage == engine.StageRcpt && s.phase != reset {
		s.host.MaxRecipients = max(1, len(s.group.Recipients)/2)
		// it cannot be sent at all: our own failure
		if alone := s.group.Recipients[0].Probe; len(s.group.Recipients) == 1 && alone != nil {
			alone.Ev.Append(engine.Sighting{Event: engine.EventInternal, Host: s.host.Name, At: rh.Now})
		}
	}
	rh.RequeueUntried(&rh.un)
}

// applyMailReply applies what the reply to a refused MAIL asks of the queue.
func (rh *replyHandler) applyMailReply() {
	r := rh.o.Mail
	if r.Code == 0 {
		r = rh.o.Fault.Reply
	}
	if r.Code != 0 {
		r, finding := rh.s.classify(r, "")
		rh.s.applyAction(rh.l, r, finding, rh.Now)
	}
}

// deliverReplies delivers each reply to its target, or to all probes that wait for its decoy, requeues recipients
// without one, and applies what the replies ask of the queue.
func (rh *replyHandler) deliverReplies() {
	s, l, m := rh.s, rh.l, rh.s.host
	delivered := slices.Grow(s.delivered[:0], len(s.group.Recipients))[:len(s.group.Recipients)]
	clear(delivered)
	s.delivered = delivered
	for k, a := range s.seen {
		l.waiting.Answers++
		if notRecipient, closing := rh.LearnFromReply(k); notRecipient {
			if closing {
				s.applyAction(l, a.Reply, a.Finding, rh.Now)
			}
			continue
		}
		delivered[a.Recipient] = true
		rh.deliver(k)
		s.shown.Answers++
	}
	for _, i := range rh.o.NoUTF8 {
		delivered[i] = true
		rh.DeliverTarget(s.group.Recipients[i].Probe,
			engine.Sighting{Subject: engine.SubjectTarget, Event: engine.EventNoSMTPUTF8, Host: m.Name, At: rh.Now})
	}
	if !rh.o.Fault.None() || slices.Contains(delivered, false) {
		rh.un.Delivered = delivered
		rh.RequeueUnanswered(&rh.un)
	}
	rh.endQuarantineOnReply()
	switch {
	case len(s.seen) > 0:
		if !s.answered {
			s.answered = true
			m.healthy++
		}
		if !s.progress {
			s.progress = true
			if s.pool != nil {
				s.pool.healthy++
			}
		}
		l.delay.Answered()
		l.hostHealth.RecordAnswer(m.Name)
	case s.conn.Unusable() && s.phase != reset:
		l.backOff(rh.Now)
		rh.recordUnresponsive()
	}
	// MAIL was refused after answered transactions of the group: the connection is used up, and no more groups are
	// sent.
	if s.group.RefusedAtMail(rh.o) {
		s.phase.close()
		m.OneAtATime = true
		rh.applyMailReply()
	}
}

// deliver delivers the reply of this index, which is about its recipient.
func (rh *replyHandler) deliver(k int) {
	s, l, a := rh.s, rh.l, rh.s.seen[k]
	r := s.group.Recipients[a.Recipient]
	seen := engine.Sighting{Subject: engine.SubjectTarget, Host: s.host.Name, Reply: a.Reply, Finding: a.Finding,
		At: rh.Now, Conn: s.shown.Connection,
		NeighbourAccepted: s.acceptedDomains[r.Domain.Name] && a.Finding.Meaning != engine.Accepted}
	s.applyAction(l, a.Reply, r.DueFinding(&seen), rh.Now)
	rh.RecordReply(a, &seen)
	switch {
	case r.Probe != nil:
		rh.DeliverTarget(r.Probe, seen)
	case r.Control:
		if !rh.DeliverControl(a) {
			return
		}
		s.phase.close()
		if s.shown.Answers == 0 { // the host refuses everybody: what waits for it is deferred; its decoys have failed
			rh.pauseHour()
			l.markDown(s.host, engine.Sighting{Host: s.host.Name, Reply: a.Reply, Finding: hostqueue.RefusesKnown(),
				At: rh.Now}, failureLife)
			s.host.FailDecoys(engine.EventClosed, false, rh.Now)
		}
	default:
		seen.Subject = engine.SubjectDecoy
		l.env.Metrics.Decoys.Inc()
		if rh.DeliverDecoy(r.Domain, seen, k) {
			s.phase.close()
			rh.pauseHour()
		}
	}
}

// pauseHour pauses a receiver that accepts or refuses without checking: past the hour that it counts.
func (rh *replyHandler) pauseHour() {
	rh.l.delay.Pause(rh.Now.Add(rh.l.Scaled(time.Hour)))
	rh.l.env.Metrics.Actions.WithLabelValues(engine.ActionPause.String()).Inc()
}

// recordUnresponsive records a host that answered no recipient: three times in a row it is down, or rows would start
// again forever.
func (rh *replyHandler) recordUnresponsive() {
	s, l := rh.s, rh.l
	if rh.o.Fault.Event != engine.EventInternal && s.host.healthy == 0 && l.hostHealth.RecordSilence(s.host.Name) {
		l.markDown(s.host, s.sighting(l, rh.o.Fault, rh.Now), unresponsiveLife)
	}
}

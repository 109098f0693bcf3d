package readyqueue

import (
	"context"
	"slices"
	"time"

	"probity/engine"
	"probity/engine/smtp"
	"probity/prober/hostqueue"
)

// sendTransaction sends the filled transaction and handles its replies. It returns false if the connection is of no
// more use.
func (s *session) sendTransaction(ctx context.Context) bool {
	s.seen = slices.Grow(s.seen[:0], len(s.group.Recipients))
	began := time.Now()
	o := s.conn.Transaction(ctx, s.group.Rcpts, s.recordReply)
	q, m, now := s.queue, s.host, time.Now()
	l := q.lock()
	rh := replyHandler{Replies: m.NewReplies(&s.group, now, slices.Grow(s.finished[:0], len(s.group.Recipients))),
		s: s, l: l, o: &o}
	cost := s.group.Cost(s.seen, &o, s.conn.Extensions().Pipelining)
	l.budget.Settle(&s.used, cost, now)
	refused := l.budget.Refusals(now)
	if addrLimit := s.addressLimit; addrLimit != nil {
		addrLimit.Settle(&s.addressUsed, cost, now)
		refused = max(refused, addrLimit.Refusals(now))
	}
	rh.RecordRefusals(&s.group, refused, q.Provider.Limits.RefusalsPerHour, s.seen)
	rh.ConfirmSuspects()
	s.group.RecordAnswered()
	rh.un = hostqueue.Unanswered{Outcome: &o, Seen: s.seen, Pipelining: s.conn.Extensions().Pipelining,
		First:      !s.progress,
		MayConnect: func() bool { return !l.connectDisabled(now) }, Accepted: s.acceptedDomains}
	switch {
	// A recipient that was alone in its group and timed out is sent again in any case, and that counts.
	case rh.un.NeedsCare() && l.hostHealth.DistrustDialogue(m.Name, now) &&
		(o.Fault.Event != engine.EventTimeout || len(s.group.Recipients) > 1):
		s.closing = true
		rh.RequeueUntried(&s.group, rh.un)
	case s.group.RefusedAtMail(rh.o) && len(s.seen) == 0:
		rh.handleMailRefused()
	default:
		rh.deliverReplies()
	}
	rh.Resolve()
	s.group.RemoveEmpty()
	rh.detectTarpit(now.Sub(began))
	if s.recordTiming(l, now.Sub(began), len(s.group.Recipients)-len(o.NoUTF8)) {
		m.scheduleNeeded()
	}
	q.env.Metrics.Recipients.Add(float64(len(s.group.Recipients)))
	q.env.Metrics.Sent.Add(uint64(len(s.group.Recipients)))
	q.env.Metrics.Replies.Add(float64(len(s.seen)))
	s.group.Reset()
	if !s.wasReset {
		l.dispatch(now)
	}
	l.unlock()
	s.unproven.Add(&rh.Replies)
	if !s.onTrial || s.conn.Confirmed() {
		q.env.release(q, &s.unproven)
	}
	clear(rh.Finished)
	s.finished = rh.Finished
	return !s.conn.Unusable() && !s.closing
}

// recordTiming gives the latency estimate the time of a transaction of n recipients, less what does not grow with n.
// Without PIPELINING each recipient is a round trip, and so are RSET and MAIL. It returns true if another connection
// has become worthwhile: nothing else looks at the probes that wait already.
func (s *session) recordTiming(l *locked, all time.Duration, n int) bool {
	m := s.host
	oldWorth := l.worthConnection()
	switch {
	case n <= 0: // no recipient was asked
	case !s.conn.Extensions().Pipelining:
		l.latency.RecordTransaction(all, n+2)
	case m.OneAtATime || m.MaxRecipients > 0:
		l.latency.RecordTransaction(all, n)
	default:
		l.latency.RecordTransaction(all-s.conn.RoundTrip(), n)
	}
	return l.worthConnection() < oldWorth
}

// recordReply keeps a reply with its finding, and the domains of which a recipient was accepted.
func (s *session) recordReply(i int, r engine.Reply) {
	r, f := s.classify(r, s.group.Rcpts[i].Local)
	s.seen = append(s.seen, hostqueue.Answer{Recipient: i, Reply: r, Finding: f})
	if f.Meaning == engine.Accepted {
		s.acceptedDomains[s.group.Recipients[i].Domain.Name] = true
	}
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
	s, f := rh.s, rh.o.Fault
	if rh.o.Mail.Code != 0 {
		f = smtp.Fault{Stage: engine.StageMail, Reply: rh.o.Mail}
	}
	s.closing = true
	if !s.progress && f.Event != engine.EventInternal {
		seen := s.sighting(rh.l, f, rh.Now)
		another := rh.l.hostHealth.FailAddress(s.addr, s.addrs, &seen, rh.Now)
		for _, r := range s.group.Recipients {
			if r.Probe != nil && !another {
				r.Probe.Ev.Append(seen)
			}
		}
		rh.RequeueRefused(&s.group, rh.un)
		if !another {
			rh.Finished = s.handleFailure(rh.l, f, seen, rh.Now, rh.Finished)
		}
		return
	}
	if f.Reply.Code != 0 {
		r, finding := s.classify(f.Reply, "")
		rh.Finished = s.applyAction(rh.l, r, finding, rh.Now, rh.Finished)
	}
	if f.Event == engine.EventInternal && f.Stage == engine.StageRcpt && !s.wasReset {
		s.host.MaxRecipients = max(1, len(s.group.Recipients)/2)
		// it cannot be sent at all: our own failure
		if len(s.group.Recipients) == 1 && s.group.Recipients[0].Probe != nil {
			s.group.Recipients[0].Probe.Ev.Append(engine.Sighting{Event: engine.EventInternal, Host: s.host.Name,
				At: rh.Now})
		}
	}
	rh.RequeueUntried(&s.group, rh.un)
}

// deliverReplies delivers each reply to its target, or to all probes that wait for its decoy, requeues recipients
// without one, and applies what the replies ask of the queue.
func (rh *replyHandler) deliverReplies() {
	s, l, host := rh.s, rh.l, rh.s.host.Name
	delivered := slices.Grow(s.delivered[:0], len(s.group.Recipients))[:len(s.group.Recipients)]
	clear(delivered)
	s.delivered = delivered
	for k, a := range s.seen {
		l.waiting.Answers++
		if notRecipient, closing := rh.LearnFromReply(&s.group, s.seen, k, s.so.Answers); notRecipient {
			if closing {
				rh.Finished = s.applyAction(l, a.Reply, a.Finding, rh.Now, rh.Finished)
			}
			continue
		}
		delivered[a.Recipient] = true
		r, d := s.group.Recipients[a.Recipient], s.group.Recipients[a.Recipient].Domain
		seen := engine.Sighting{Subject: engine.SubjectTarget, Host: host, Reply: a.Reply, Finding: a.Finding,
			At: rh.Now, Conn: s.so.Connection,
			NeighbourAccepted: s.acceptedDomains[d.Name] && a.Finding.Meaning != engine.Accepted}
		rh.Finished = s.applyAction(l, a.Reply, r.DueFinding(&seen), rh.Now, rh.Finished)
		rh.RecordReply(&s.so, r, s.group.Rcpts[a.Recipient], &seen)
		switch {
		case r.Probe != nil:
			rh.RecordAnswer(r.Probe, &seen)
			rh.DeliverTarget(r.Probe, seen)
		case r.Control:
			if rh.DeliverControl(&s.group, s.so, a) {
				rh.handleRefusedControl(a)
			}
		default:
			seen.Subject = engine.SubjectDecoy
			l.env.Metrics.Decoys.Inc()
			if rh.DeliverDecoy(d, seen, &s.group, s.seen[k+1:]) {
				s.closing = true
				rh.pauseHour()
			}
		}
		s.so.Answers++
	}
	for _, i := range rh.o.NoUTF8 {
		delivered[i] = true
		rh.DeliverTarget(s.group.Recipients[i].Probe,
			engine.Sighting{Subject: engine.SubjectTarget, Event: engine.EventNoSMTPUTF8, Host: host, At: rh.Now})
	}
	if !rh.o.Fault.None() || slices.Contains(delivered, false) {
		rh.un.Delivered = delivered
		rh.RequeueUnanswered(&s.group, rh.un)
	}
	rh.endQuarantineOnReply()
	if len(s.seen) > 0 {
		if !s.answered {
			s.answered = true
			s.host.healthy++
		}
		if !s.progress {
			s.progress = true
			if s.pool != nil {
				s.pool.healthy++
			}
		}
		l.delay.Answered()
		l.hostHealth.RecordAnswer(host)
	} else if s.conn.Unusable() && !s.wasReset {
		l.delay.BackOff(l.scaled(minBackoff), l.scaled(maxBackoff), rh.Now)
		rh.recordUnresponsive()
	}
	// MAIL was refused after answered transactions of the group: the connection is used up, and no more groups are
	// sent.
	if s.group.RefusedAtMail(rh.o) {
		r := rh.o.Mail
		if r.Code == 0 {
			r = rh.o.Fault.Reply
		}
		s.closing, s.host.OneAtATime = true, true
		if r.Code != 0 {
			r, finding := s.classify(r, "")
			rh.Finished = s.applyAction(l, r, finding, rh.Now, rh.Finished)
		}
	}
}

// handleRefusedControl closes the connection. If the host refuses everybody, it is paused, and what waits for it is
// deferred.
func (rh *replyHandler) handleRefusedControl(a hostqueue.Answer) {
	s, l := rh.s, rh.l
	s.closing = true
	if s.so.Answers > 0 {
		return
	}
	rh.pauseHour()
	seen := engine.Sighting{Host: s.host.Name, Reply: a.Reply, Finding: hostqueue.RefusesKnown(), At: rh.Now}
	l.hostHealth.MarkDown(seen.Host, seen, rh.Now.Add(l.scaled(failureLife)))
	rh.Finished = l.drainQueues(s.host, rh.Now, rh.Finished)
}

// pauseHour pauses a receiver that accepts or refuses without checking: past the hour that it counts.
func (rh *replyHandler) pauseHour() {
	rh.l.delay.Pause(rh.Now.Add(rh.l.scaled(time.Hour)))
	rh.l.env.Metrics.Actions.WithLabelValues(engine.ActionPause.String()).Inc()
}

// recordUnresponsive records a host that answered no recipient: three times in a row it is down, or rows would start
// again forever.
func (rh *replyHandler) recordUnresponsive() {
	l, host := rh.l, rh.s.host.Name
	if rh.o.Fault.Event == engine.EventInternal || rh.s.host.healthy > 0 || !l.hostHealth.RecordSilence(host) {
		return
	}
	l.hostHealth.MarkDown(host, rh.s.sighting(l, rh.o.Fault, rh.Now), rh.Now.Add(l.scaled(unresponsiveLife)))
	rh.Finished = l.drainQueues(rh.s.host, rh.Now, rh.Finished)
}

// A tarpit answers more slowly the more errors it has seen, until no reply comes in time. When replies take far longer
// than the fastest, the host is paused, the longer the slower it is, so it recovers about as fast as it slows down.
const maxTarpitPause = 15 * time.Minute

// detectTarpit records how long the replies of a transaction took, and pauses a host that has become a tarpit. Wide
// providers and those with tenants have many machines behind a name: one that is slow is not a tarpit.
func (rh *replyHandler) detectTarpit(took time.Duration) {
	l, s := rh.l, rh.s
	if len(s.seen) == 0 || l.Provider.Shared() {
		return
	}
	pause := l.hostHealth.RecordReplyTime(s.host.Name, took/time.Duration(len(s.seen)), l.scaled(maxTarpitPause))
	if pause > 0 {
		s.closing = true
		l.delay.Pause(rh.Now.Add(pause))
	}
}

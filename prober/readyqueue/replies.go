package readyqueue

import (
	"context"
	"slices"
	"strings"
	"time"

	"probity/engine"
	"probity/engine/smtp"
)

// answer is the reply to one recipient of a transaction.
type answer struct {
	i       int
	reply   engine.Reply
	finding engine.Finding
}

// sendTransaction sends the filled transaction and handles its replies. It returns false if the connection is of no more use.
func (s *session) sendTransaction(ctx context.Context) bool {
	s.seen = slices.Grow(s.seen[:0], len(s.recipients))
	began := time.Now()
	o := s.conn.Transaction(ctx, s.rcpts, s.recordReply)
	q, hq, now := s.queue, s.hostQueue, time.Now()
	q.mu.Lock()
	rh := replyHandler{s: s, q: q, o: &o, now: now, finished: slices.Grow(s.finished[:0], len(s.recipients))}
	cost := costOf(s.recipients, s.seen, &o, s.conn.Extensions().Pipelining)
	q.budget.Settle(&s.used, cost, now)
	if addrLimit := s.addressLimit; addrLimit != nil {
		addrLimit.Settle(&s.addressUsed, cost, now)
	}
	if i := slices.Index(hq.inFlightGroups, inFlightGroup{s.answersAtSend, len(s.recipients)}); i >= 0 {
		hq.inFlightGroups = slices.Delete(hq.inFlightGroups, i, i+1)
	}
	rh.updateSuspicion()
	rh.confirmSuspects()
	for _, r := range s.recipients {
		r.domainQueue.inFlight--
	}
	if rh.refusedAtMail() && len(s.seen) == 0 {
		rh.handleMailRefused()
	} else {
		rh.deliverReplies()
	}
	rh.resolveUnconfirmed()
	for _, r := range s.recipients {
		r.domainQueue.removeIfEmpty()
	}
	rh.detectTarpit(now.Sub(began))
	if s.recordTiming(now.Sub(began), len(s.recipients)-len(o.NoUTF8)) {
		q.scheduleNeeded(hq)
	}
	q.env.Metrics.countTransaction(len(s.recipients), len(s.seen))
	s.recipients = s.recipients[:0]
	if !s.wasReset {
		q.dispatch(now)
	}
	q.mu.Unlock()
	for _, f := range rh.facts {
		if err := q.env.Cache.PutFact(f.domain, f.Host, &f.Fact); err != nil {
			q.env.Log.Error("catch-all result not cached", "error", err)
		}
	}
	q.env.Finish(q, rh.finished, now)
	clear(rh.finished)
	s.finished = rh.finished
	return !s.conn.Unusable() && !s.closing
}

// recordTiming gives the latency estimate the time of a transaction of n recipients, less what does not grow with n. Without
// PIPELINING each recipient is a round trip, and so are RSET and MAIL. It returns true if another connection has become
// worthwhile: nothing else looks at the probes that wait already.
func (s *session) recordTiming(all time.Duration, n int) bool {
	q, hq := s.queue, s.hostQueue
	oldWorth := q.worthConnection()
	switch {
	case n <= 0: // no recipient was asked
	case !s.conn.Extensions().Pipelining:
		q.latency.RecordTransaction(all, n+2)
	case hq.oneAtATime || hq.maxRecipients > 0:
		q.latency.RecordTransaction(all, n)
	default:
		q.latency.RecordTransaction(all-s.conn.RoundTrip(), n)
	}
	return q.worthConnection() < oldWorth
}

// recordReply keeps a reply with its finding, and the domains of which a recipient was accepted.
func (s *session) recordReply(i int, r engine.Reply) {
	f := s.classify(r)
	s.seen = append(s.seen, answer{i, r, f})
	if f.Meaning == engine.Accepted {
		s.acceptedDomains[s.recipients[i].domainQueue.domain] = true
	}
}

// replyHandler handles the replies of one transaction. The queue's mutex is held throughout.
type replyHandler struct {
	s   *session
	q   *Queue
	o   *smtp.Outcome
	now time.Time

	finished []Finished
	facts    []DomainFact
	first    int // index of the first answer of the present transaction

	becameAcceptAll *engine.Sighting // the decoy that showed that every recipient is accepted now

	unconfirmed   int          // unconfirmed acceptances that wait for a target's refusal; no decoy is requested for them
	unconfirmedAt *domainQueue // the first of them
}

// refusedAtMail reports that no recipient of a transaction could be named: MAIL was refused or never answered.
func (rh *replyHandler) refusedAtMail() bool {
	return !rh.o.Mail.Positive() && len(rh.o.NoUTF8) < len(rh.s.recipients)
}

// handleMailRefused handles a refused MAIL. The first of a connection is about us at this host (RFC 5321 section 3.3); a later
// one means that the connection is used up, and all recipients come first on another.
func (rh *replyHandler) handleMailRefused() {
	s, f := rh.s, rh.o.Fault
	if rh.o.Mail.Code != 0 {
		f = smtp.Fault{Stage: engine.StageMail, Reply: rh.o.Mail}
	}
	s.closing = true
	for _, r := range s.recipients {
		if r.probe == nil {
			rh.decoyUnanswered(r.domainQueue, f.Event, !s.progress)
		}
	}
	if !s.progress && f.Event != engine.EventInternal {
		seen := s.sighting(f, rh.now)
		for _, r := range s.recipients {
			if r.probe != nil {
				r.probe.Ev.Append(seen)
				rh.finished = rh.q.advance(r.probe, rh.now, true, rh.finished)
			}
		}
		rh.finished = rh.q.handleFailure(s, f, seen, rh.now, rh.finished)
		return
	}
	if f.Reply.Code != 0 {
		rh.finished = rh.q.applyAction(s, f.Reply, s.classify(f.Reply), rh.now, rh.finished)
	}
	if f.Event == engine.EventInternal && f.Stage == engine.StageRcpt && !s.wasReset {
		s.hostQueue.maxRecipients = max(1, len(s.recipients)/2)
		if len(s.recipients) == 1 && s.recipients[0].probe != nil { // it cannot be sent at all: our own failure
			s.recipients[0].probe.Ev.Append(engine.Sighting{Event: engine.EventInternal, Host: s.hostQueue.host, At: rh.now})
		}
	}
	for _, r := range slices.Backward(s.recipients) {
		if r.probe != nil {
			rh.finished = rh.q.advance(r.probe, rh.now, true, rh.finished)
		}
	}
}

// deliverReplies delivers each reply to its target, or to all probes that wait for its decoy, requeues recipients without one,
// and applies what the replies ask of the queue.
func (rh *replyHandler) deliverReplies() {
	s, q, host := rh.s, rh.q, rh.s.hostQueue.host
	delivered := slices.Grow(s.delivered[:0], len(s.recipients))[:len(s.recipients)]
	clear(delivered)
	s.delivered = delivered
	for k, a := range s.seen {
		q.answersSeen++
		if s.rcpts[a.i].NewTransaction {
			rh.first = k
		}
		if rh.notAboutRecipient(k, a) {
			continue
		}
		delivered[a.i] = true
		r, dq := s.recipients[a.i], s.recipients[a.i].domainQueue
		seen := engine.Sighting{Subject: engine.SubjectTarget, Host: host, Reply: a.reply, Finding: a.finding, At: rh.now, Conn: s.number,
			NeighbourAccepted: s.acceptedDomains[dq.domain] && a.finding.Meaning != engine.Accepted}
		rh.finished = q.applyAction(s, a.reply, r.dueFinding(&seen), rh.now, rh.finished)
		if r.probe != nil {
			r.probe.lastAnswer, r.probe.Suspicion, r.probe.answeredAfter = q.answersSeen, s.hostQueue.suspicion(), rh.now.Sub(q.env.Created)
			rh.deliverTarget(r.probe, seen)
			continue
		}
		seen.Subject = engine.SubjectDecoy
		rh.judgeDecoy(dq, &seen)
		q.env.Metrics.Decoys.Inc()
		rh.finished = dq.deliverDecoy(seen, rh.now, rh.finished)
		if dq.decoy.suspectAt == 0 {
			rh.keepFact(dq)
		}
	}
	for _, i := range rh.o.NoUTF8 {
		delivered[i] = true
		rh.deliverTarget(s.recipients[i].probe, engine.Sighting{Subject: engine.SubjectTarget, Event: engine.EventNoSMTPUTF8, Host: host, At: rh.now})
	}
	if !rh.o.Fault.None() || slices.Contains(delivered, false) {
		rh.requeueUnanswered(delivered)
	}
	rh.endQuarantineOnReply()
	if len(s.seen) > 0 {
		if !s.answered {
			s.answered = true
			s.hostQueue.healthy++
		}
		if !s.progress {
			s.progress = true
			if s.pool != nil {
				s.pool.healthy++
			}
		}
		q.backoff = 0
		q.hostHealth.RecordAnswer(host)
	} else if s.conn.Unusable() && !s.wasReset {
		q.backOff(q.scaled(minBackoff), q.scaled(maxBackoff), rh.now)
		rh.recordUnresponsive()
	}
	// MAIL was refused after answered transactions of the same group: the connection is used up, and the host is sent no more
	// groups.
	if rh.refusedAtMail() {
		r := rh.o.Mail
		if r.Code == 0 {
			r = rh.o.Fault.Reply
		}
		s.closing, s.hostQueue.oneAtATime = true, true
		if r.Code != 0 {
			rh.finished = q.applyAction(s, r, s.classify(r), rh.now, rh.finished)
		}
	}
}

// recordUnresponsive records a host that took recipients and answered none. After three times in a row the host counts as down:
// rows are returned between two tries of a slow host, and would start again forever.
func (rh *replyHandler) recordUnresponsive() {
	q, host := rh.q, rh.s.hostQueue.host
	if rh.o.Fault.Event == engine.EventInternal || rh.s.hostQueue.healthy > 0 || !q.hostHealth.RecordSilence(host, rh.now) {
		return
	}
	q.hostHealth.MarkDown(host, rh.s.sighting(rh.o.Fault, rh.now), rh.now.Add(q.scaled(unresponsiveLife)), rh.now)
	rh.finished = q.drainQueues(rh.s.hostQueue, rh.now, rh.finished)
}

// notAboutRecipient reports a reply that is about the transaction or the connection and not about its recipient, which is asked
// again: a 421 behind answers on its connection (RFC 5321 section 3.8), too many recipients (section 4.5.3.1.10), too many
// domains.
func (rh *replyHandler) notAboutRecipient(k int, a answer) bool {
	s := rh.s
	closing := a.reply.Code == 421
	if k -= rh.first; a.reply.Code/100 != 4 || k == 0 && !(closing && s.progress) {
		return false
	}
	switch x := a.reply.Enhanced; {
	case closing:
		rh.finished = rh.q.applyAction(s, a.reply, a.finding, rh.now, rh.finished)
		return true
	case x.Subject == 5 && x.Detail == 3 || a.reply.Code == 452 && strings.Contains(strings.ToLower(a.reply.Text()), "too many recipients"): // RFC 3463 section 3.6
		if s.hostQueue.maxRecipients == 0 || k < s.hostQueue.maxRecipients {
			s.hostQueue.maxRecipients = k
		}
		return true
	}
	// Some receivers take one domain a transaction, and defer the recipients of other domains than the first. It is believed once.
	first := s.seen[rh.first]
	if s.hostQueue.oneDomain || isDeferral(first.finding.Meaning) || !isDeferral(a.finding.Meaning) ||
		s.recipients[a.i].domainQueue.domain == s.recipients[first.i].domainQueue.domain {
		return false
	}
	s.hostQueue.oneDomain = true
	return true
}

// dueFinding is the finding of a reply with the action that is due now. A refusal of the sender only slows the queue while it
// may not be final: the same connection accepted another recipient from this sender, or the refusal is temporary and its
// recipient will be asked again, when a callout to our domain may be complete.
func (r recipient) dueFinding(seen *engine.Sighting) engine.Finding {
	f := seen.Finding
	again := seen.Deferred() && (r.probe == nil || r.probe.Ev.Attempts < len(r.probe.Policy.Schedule))
	if f.Meaning == engine.SenderRefused && f.Action.Kind == engine.ActionQuarantine && (again || seen.NeighbourAccepted) {
		f.Action = engine.Action{Kind: engine.ActionSlow, For: 10 * time.Minute}
		if seen.Reply.Code == 421 {
			f.Action.Kind = engine.ActionClose
		}
	}
	return f
}

func (rh *replyHandler) deliverTarget(p *Probe, seen engine.Sighting) {
	rh.q.env.appendSeen(p, seen)
	rh.finished = rh.q.advance(p, rh.now, true, rh.finished)
}

// decoyUnanswered requests a decoy again, up to a bound; then the waiting probes get that it was not answered. If the queue may
// not connect now, they go on without it.
func (rh *replyHandler) decoyUnanswered(dq *domainQueue, e engine.Event, wasAsked bool) {
	if wasAsked {
		dq.decoy.tries++
	}
	switch d := &dq.decoy; {
	case d.waiting.n == 0: // no probe waits for it any more
		d.state = decoyUnknown
		return
	case rh.q.connectDisabled(rh.now):
		d.state = decoyUnknown
		rh.finished = dq.releaseWaiters(rh.now, rh.finished)
		return
	case d.tries < maxDecoyTries && d.asked < maxSends:
		dq.requestDecoy()
		return
	}
	rh.finished = dq.deliverDecoy(unansweredDecoy(dq, e, rh.now), rh.now, rh.finished)
}

// requeueUnanswered requeues recipients without a reply. The first of them was asked, and so were all if a pipelined group was
// the first of its connection and got no reply: that is evidence, and they come first on the next connection. The others were
// not asked.
func (rh *replyHandler) requeueUnanswered(delivered []bool) {
	s, f := rh.s, rh.o.Fault
	whole := len(s.seen) == 0 && !s.progress && s.conn.Extensions().Pipelining
	silent := -1 // the first recipient that the server read and did not answer
	if !f.None() && !rh.refusedAtMail() {
		silent = slices.Index(delivered, false)
		n := 0 // replies that were about their recipients
		for _, a := range s.seen {
			if delivered[a.i] {
				n++
			}
		}
		if n > 0 && f.Event != engine.EventInternal {
			s.hostQueue.maxRecipients, s.hostQueue.answeredBeforeClose = n, n
		}
	}
	if f.Event == engine.EventOutOfStep {
		s.hostQueue.maxRecipients = max(1, len(s.recipients)/2)
	}
	for i := len(delivered) - 1; i >= 0; i-- {
		if delivered[i] {
			continue
		}
		r := s.recipients[i]
		evidence := whole || i == silent
		if r.probe == nil {
			rh.decoyUnanswered(r.domainQueue, f.Event, evidence)
			continue
		}
		if evidence && f.Event != engine.EventReply && f.Event != engine.EventInternal {
			r.probe.Ev.Append(engine.Sighting{Subject: engine.SubjectTarget, Event: f.Event, Host: s.hostQueue.host, At: rh.now,
				NeighbourAccepted: s.acceptedDomains[r.domainQueue.domain]})
			r.probe.connectionLosses++
			if f.Event == engine.EventTimeout {
				r.probe.connectionLosses++ // as it weighs in engine.Next
			}
		}
		rh.finished = rh.q.advance(r.probe, rh.now, true, rh.finished)
	}
}

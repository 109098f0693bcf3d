package readyqueue

import (
	"context"
	"slices"
	"strings"
	"time"

	"probity/engine"
	"probity/engine/smtp"
	"probity/prober/hostqueue"
)

// sendTransaction sends the filled transaction and handles its replies. It returns false if the connection is of no more use.
func (s *session) sendTransaction(ctx context.Context) bool {
	s.seen = slices.Grow(s.seen[:0], len(s.group.Recipients))
	began := time.Now()
	o := s.conn.Transaction(ctx, s.group.Rcpts, s.recordReply)
	q, hq, now := s.queue, s.hostQueue, time.Now()
	q.mu.Lock()
	rh := replyHandler{Replies: hq.NewReplies(&s.group, now, slices.Grow(s.finished[:0], len(s.group.Recipients))), s: s, q: q, o: &o}
	cost := s.group.Cost(s.seen, &o, s.conn.Extensions().Pipelining)
	q.budget.Settle(&s.used, cost, now)
	if addrLimit := s.addressLimit; addrLimit != nil {
		addrLimit.Settle(&s.addressUsed, cost, now)
	}
	rh.updateSuspicion()
	rh.ConfirmSuspects()
	s.group.Answered()
	if rh.refusedAtMail() && len(s.seen) == 0 {
		rh.handleMailRefused()
	} else {
		rh.deliverReplies()
	}
	rh.ResolveUnconfirmed()
	s.group.RemoveEmpty()
	rh.detectTarpit(now.Sub(began))
	if s.recordTiming(now.Sub(began), len(s.group.Recipients)-len(o.NoUTF8)) {
		hq.scheduleNeeded()
	}
	q.env.Metrics.countTransaction(len(s.group.Recipients), len(s.seen))
	s.group.Reset()
	if !s.wasReset {
		q.dispatch(now)
	}
	q.mu.Unlock()
	for _, f := range rh.Facts {
		if err := q.env.Cache.PutFact(f.Domain, f.Host, &f.Fact); err != nil {
			q.env.Log.Error("catch-all result not cached", "error", err)
		}
	}
	q.env.Finish(q, rh.Finished, now)
	clear(rh.Finished)
	s.finished = rh.Finished
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
	s.seen = append(s.seen, hostqueue.Answer{Recipient: i, Reply: r, Finding: f})
	if f.Meaning == engine.Accepted {
		s.acceptedDomains[s.group.Recipients[i].Domain.Name] = true
	}
}

// silentAcceptPause is how long a receiver that accepts without checking is paused: past the hour that it counts.
const silentAcceptPause = time.Hour

// replyHandler handles the replies of one group of transactions. The queue's mutex is held throughout.
type replyHandler struct {
	hostqueue.Replies
	s *session
	q *Queue
	o *smtp.Outcome

	first int // index of the first answer of the present transaction
}

// updateSuspicion records how many recipients were refused in this hour, over the route or at the address, if the host may be one that
// begins to accept without checking.
func (rh *replyHandler) updateSuspicion() {
	q, limit := rh.q, rh.q.Provider.Limits.RefusalsPerHour/2
	if !q.unknownProvider && !q.Provider.AcceptsSilently || limit == 0 {
		return
	}
	refused, _ := q.budget.Refusals(rh.Now)
	reserved := 0
	if addrLimit := rh.s.addressLimit; addrLimit != nil {
		atAddress, more := addrLimit.Refusals(rh.Now)
		refused, reserved = max(refused, atAddress), more
	}
	rh.UpdateSuspicion(limit, refused, reserved, rh.s.seen)
}

// refusedAtMail reports that no recipient of a transaction could be named: MAIL was refused or never answered.
func (rh *replyHandler) refusedAtMail() bool {
	return !rh.o.Mail.Positive() && len(rh.o.NoUTF8) < len(rh.s.group.Recipients)
}

// handleMailRefused handles a refused MAIL. The first of a connection is about us at this host (RFC 5321 section 3.3); a later
// one means that the connection is used up, and all recipients come first on another.
func (rh *replyHandler) handleMailRefused() {
	s, f := rh.s, rh.o.Fault
	if rh.o.Mail.Code != 0 {
		f = smtp.Fault{Stage: engine.StageMail, Reply: rh.o.Mail}
	}
	s.closing = true
	for _, r := range s.group.Recipients {
		if r.Probe == nil {
			rh.DecoyUnanswered(r.Domain, f.Event, !s.progress, !rh.q.connectDisabled(rh.Now))
		}
	}
	if !s.progress && f.Event != engine.EventInternal {
		seen := s.sighting(f, rh.Now)
		for _, r := range s.group.Recipients {
			if r.Probe != nil {
				r.Probe.Ev.Append(seen)
				rh.Finished = rh.q.advance(r.Probe, rh.Now, true, rh.Finished)
			}
		}
		rh.Finished = rh.q.handleFailure(s, f, seen, rh.Now, rh.Finished)
		return
	}
	if f.Reply.Code != 0 {
		rh.Finished = rh.q.applyAction(s, f.Reply, s.classify(f.Reply), rh.Now, rh.Finished)
	}
	if f.Event == engine.EventInternal && f.Stage == engine.StageRcpt && !s.wasReset {
		s.hostQueue.maxRecipients = max(1, len(s.group.Recipients)/2)
		if len(s.group.Recipients) == 1 && s.group.Recipients[0].Probe != nil { // it cannot be sent at all: our own failure
			s.group.Recipients[0].Probe.Ev.Append(engine.Sighting{Event: engine.EventInternal, Host: s.hostQueue.Name, At: rh.Now})
		}
	}
	for _, r := range slices.Backward(s.group.Recipients) {
		if r.Probe != nil {
			rh.Finished = rh.q.advance(r.Probe, rh.Now, true, rh.Finished)
		}
	}
}

// deliverReplies delivers each reply to its target, or to all probes that wait for its decoy, requeues recipients without one,
// and applies what the replies ask of the queue.
func (rh *replyHandler) deliverReplies() {
	s, q, host := rh.s, rh.q, rh.s.hostQueue.Name
	delivered := slices.Grow(s.delivered[:0], len(s.group.Recipients))[:len(s.group.Recipients)]
	clear(delivered)
	s.delivered = delivered
	for k, a := range s.seen {
		q.waiting.Answers++
		if s.group.Rcpts[a.Recipient].NewTransaction {
			rh.first = k
		}
		if rh.notAboutRecipient(k, a) {
			continue
		}
		delivered[a.Recipient] = true
		r, dq := s.group.Recipients[a.Recipient], s.group.Recipients[a.Recipient].Domain
		seen := engine.Sighting{Subject: engine.SubjectTarget, Host: host, Reply: a.Reply, Finding: a.Finding, At: rh.Now, Conn: s.number,
			NeighbourAccepted: s.acceptedDomains[dq.Name] && a.Finding.Meaning != engine.Accepted}
		rh.Finished = q.applyAction(s, a.Reply, dueFinding(r, &seen), rh.Now, rh.Finished)
		if r.Probe != nil {
			rh.RecordAnswer(r.Probe)
			rh.deliverTarget(r.Probe, seen)
			continue
		}
		seen.Subject = engine.SubjectDecoy
		q.env.Metrics.Decoys.Inc()
		if rh.DeliverDecoy(dq, seen) {
			s.closing = true
			q.hold.Pause(rh.Now.Add(q.scaled(silentAcceptPause)))
			q.env.Metrics.Actions.WithLabelValues(engine.ActionPause.String()).Inc()
		}
	}
	for _, i := range rh.o.NoUTF8 {
		delivered[i] = true
		rh.deliverTarget(s.group.Recipients[i].Probe, engine.Sighting{Subject: engine.SubjectTarget, Event: engine.EventNoSMTPUTF8, Host: host, At: rh.Now})
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
		q.hold.Answered()
		q.hostHealth.RecordAnswer(host)
	} else if s.conn.Unusable() && !s.wasReset {
		q.hold.BackOff(q.scaled(minBackoff), q.scaled(maxBackoff), rh.Now)
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
			rh.Finished = q.applyAction(s, r, s.classify(r), rh.Now, rh.Finished)
		}
	}
}

// recordUnresponsive records a host that took recipients and answered none. After three times in a row the host counts as down:
// rows are returned between two tries of a slow host, and would start again forever.
func (rh *replyHandler) recordUnresponsive() {
	q, host := rh.q, rh.s.hostQueue.Name
	if rh.o.Fault.Event == engine.EventInternal || rh.s.hostQueue.healthy > 0 || !q.hostHealth.RecordSilence(host, rh.Now) {
		return
	}
	q.hostHealth.MarkDown(host, rh.s.sighting(rh.o.Fault, rh.Now), rh.Now.Add(q.scaled(unresponsiveLife)), rh.Now)
	rh.Finished = q.drainQueues(rh.s.hostQueue, rh.Now, rh.Finished)
}

// notAboutRecipient reports a reply that is about the transaction or the connection and not about its recipient, which is asked
// again: a 421 behind answers on its connection (RFC 5321 section 3.8), too many recipients (section 4.5.3.1.10), too many
// domains.
func (rh *replyHandler) notAboutRecipient(k int, a hostqueue.Answer) bool {
	s := rh.s
	closing := a.Reply.Code == 421
	if k -= rh.first; a.Reply.Code/100 != 4 || k == 0 && !(closing && s.progress) {
		return false
	}
	switch x := a.Reply.Enhanced; {
	case closing:
		rh.Finished = rh.q.applyAction(s, a.Reply, a.Finding, rh.Now, rh.Finished)
		return true
	case x.Subject == 5 && x.Detail == 3 || a.Reply.Code == 452 && strings.Contains(strings.ToLower(a.Reply.Text()), "too many recipients"): // RFC 3463 section 3.6
		if s.hostQueue.maxRecipients == 0 || k < s.hostQueue.maxRecipients {
			s.hostQueue.maxRecipients = k
		}
		return true
	}
	// Some receivers take one domain a transaction, and defer the recipients of other domains than the first. It is believed once.
	first := s.seen[rh.first]
	if s.hostQueue.oneDomain || hostqueue.IsDeferral(first.Finding.Meaning) || !hostqueue.IsDeferral(a.Finding.Meaning) ||
		s.group.Recipients[a.Recipient].Domain.Name == s.group.Recipients[first.Recipient].Domain.Name {
		return false
	}
	s.hostQueue.oneDomain = true
	return true
}

// dueFinding is the finding of a reply with the action that is due now. A refusal of the sender only slows the queue while it
// may not be final: the same connection accepted another recipient from this sender, or the refusal is temporary and its
// recipient will be asked again, when a callout to our domain may be complete.
func dueFinding(r hostqueue.Recipient, seen *engine.Sighting) engine.Finding {
	f := seen.Finding
	again := seen.Deferred() && (r.Probe == nil || r.Probe.Ev.Attempts < len(r.Probe.Policy.Schedule))
	if f.Meaning == engine.SenderRefused && f.Action.Kind == engine.ActionQuarantine && (again || seen.NeighbourAccepted) {
		f.Action = engine.Action{Kind: engine.ActionSlow, For: 10 * time.Minute}
		if seen.Reply.Code == 421 {
			f.Action.Kind = engine.ActionClose
		}
	}
	return f
}

func (rh *replyHandler) deliverTarget(p *hostqueue.Probe, seen engine.Sighting) {
	rh.q.env.appendSeen(p, seen)
	rh.Finished = rh.q.advance(p, rh.Now, true, rh.Finished)
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
			if delivered[a.Recipient] {
				n++
			}
		}
		if n > 0 && f.Event != engine.EventInternal {
			s.hostQueue.maxRecipients, s.hostQueue.answeredBeforeClose = n, n
		}
	}
	if f.Event == engine.EventOutOfStep {
		s.hostQueue.maxRecipients = max(1, len(s.group.Recipients)/2)
	}
	for i := len(delivered) - 1; i >= 0; i-- {
		if delivered[i] {
			continue
		}
		r := s.group.Recipients[i]
		evidence := whole || i == silent
		if r.Probe == nil {
			rh.DecoyUnanswered(r.Domain, f.Event, evidence, !rh.q.connectDisabled(rh.Now))
			continue
		}
		if evidence && f.Event != engine.EventReply && f.Event != engine.EventInternal {
			r.Probe.Ev.Append(engine.Sighting{Subject: engine.SubjectTarget, Event: f.Event, Host: s.hostQueue.Name, At: rh.Now,
				NeighbourAccepted: s.acceptedDomains[r.Domain.Name]})
			r.Probe.RecordLoss(f.Event)
		}
		rh.Finished = rh.q.advance(r.Probe, rh.Now, true, rh.Finished)
	}
}

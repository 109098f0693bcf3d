package hostqueue

import (
	"slices"
	"strings"

	"probity/engine"
	"probity/engine/smtp"
)

// RefusedAtMail reports whether no recipient of a transaction could be named: MAIL was refused or never answered.
func (g *Group) RefusedAtMail(o *smtp.Outcome) bool {
	return !o.Mail.Positive() && len(o.NoUTF8) < len(g.Recipients)
}

// LearnFromReply records what a reply shows of the host's limits. It reports an answer that is about the transaction or
// the connection and not about its recipient, which is asked again: a 421 behind answers on its connection (RFC 5321
// section 3.8), which closes it; too many recipients of a transaction (section 4.5.3.1.10) or, to the first of one, of
// the connection; too many domains. It is called for each answer in turn, by its index.
func (r *Replies) LearnFromReply(k int) (notRecipient, closing bool) {
	g, before := r.group, r.on.Answers // to recipients, before this one
	switch {
	case !g.Rcpts[r.Seen[k].Recipient].NewTransaction:
		r.place = placeBehind
	case before == 0:
		r.first, r.place = k, placeFirst
	default:
		r.first, r.place = k, placeLeads
	}
	a, first, place := r.Seen[k], r.Seen[r.first], k-r.first
	if a.Reply.Code/100 != 4 || place == 0 && before == 0 {
		return false, false
	}
	q, x := r.queue, a.Reply.Enhanced
	tooMany := x.Subject == 5 && x.Detail == 3 || // RFC 3463 section 3.6
		a.Reply.Code == 452 && strings.Contains(strings.ToLower(a.Reply.Text()), "too many recipients")
	switch {
	case a.Reply.Code == 421:
		return true, true
	case tooMany && place == 0:
		q.memory.perConnection = before
		return true, true
	case place == 0:
		return false, false
	case tooMany:
		if q.MaxRecipients == 0 || place < q.MaxRecipients {
			q.MaxRecipients = place
		}
		return true, false
	}
	// Some receivers take one domain a transaction, and defer the recipients of other domains than the first. It is
	// believed once.
	if r.queue.OneDomain || isDeferral(first.Finding.Meaning) || !isDeferral(a.Finding.Meaning) ||
		g.Recipients[a.Recipient].Domain.Name == g.Recipients[first.Recipient].Domain.Name {
		return false, false
	}
	r.queue.OneDomain = true
	return true, false
}

// Unanswered is how a group ended of which not all recipients were answered.
type Unanswered struct {
	Outcome     *smtp.Outcome
	Delivered   []bool // by recipient: it was answered
	Pipelining  bool
	First       bool            // it is the first group of its connection
	MailRefused bool            // it was never sent: the host refused its MAIL
	MayConnect  func() bool     // a decoy may be tried again: asked when the replies have had their effect
	Accepted    map[string]bool // domains of which the connection accepted a recipient
}

// NeedCare reports whether a group without an answer about a recipient may get some one by one: its replies were out of
// step, or the server offered PIPELINING and did not endure the first group of the connection.
func (r *Replies) NeedCare(u *Unanswered) bool {
	f := u.Outcome.Fault
	ended := f.Event == engine.EventTimeout || f.Event == engine.EventClosed && f.Reply.Code == 0
	return len(r.Seen) == 0 && (f.Event == engine.EventOutOfStep || ended && u.First && u.Pipelining)
}

// RequeueUntried requeues all recipients of a group, without evidence of theirs: none was asked. A decoy whose MAIL was
// refused counts as tried.
func (r *Replies) RequeueUntried(u *Unanswered) {
	for _, to := range slices.Backward(r.group.Recipients) {
		if to.Probe == nil {
			r.unanswered(to, u, u.MailRefused)
		} else {
			r.queue.set.Owner.Advance(to.Probe, r.Now, First)
		}
	}
}

// RequeueUnanswered requeues recipients without a reply. The first of them was asked, and so were all if a pipelined
// group was the first of its connection and got no reply: that is evidence, and they come first on the next connection.
// The others were not asked.
func (r *Replies) RequeueUnanswered(u *Unanswered) {
	q, g, f := r.queue, r.group, u.Outcome.Fault
	whole := len(r.Seen) == 0 && u.First && u.Pipelining
	silent := -1 // the first recipient that the server read and did not answer
	if !f.None() && !g.RefusedAtMail(u.Outcome) {
		silent = slices.Index(u.Delivered, false)
		n := 0 // replies that were about their recipients
		for _, a := range r.Seen {
			if u.Delivered[a.Recipient] {
				n++
			}
		}
		if n > 0 && f.Event != engine.EventInternal {
			q.MaxRecipients, q.AnsweredBeforeClose = n, n
		}
	}
	if f.Event == engine.EventOutOfStep {
		q.MaxRecipients = max(1, len(g.Recipients)/2)
	}
	for i, to := range slices.Backward(g.Recipients) {
		evidence := whole || i == silent
		switch {
		case u.Delivered[i]:
			continue
		case to.Probe == nil:
			r.unanswered(to, u, evidence)
			continue
		case evidence && f.Event != engine.EventReply && f.Event != engine.EventInternal:
			to.Probe.Ev.Append(engine.Sighting{Subject: engine.SubjectTarget, Event: f.Event, Host: q.Name, At: r.Now,
				NeighbourAccepted: u.Accepted[to.Domain.Name]})
			to.Probe.connectionLosses++
			if f.Event == engine.EventTimeout {
				to.Probe.connectionLosses++ // as it weighs in engine.Next
			}
		}
		q.set.Owner.Advance(to.Probe, r.Now, First)
	}
}

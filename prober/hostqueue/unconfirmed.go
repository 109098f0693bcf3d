package hostqueue

import (
	"slices"
	"time"

	"probity/engine"
	"probity/engine/control"
	"probity/prober/budget"
)

// The negative control. Some receivers react to unknown recipients by accepting every recipient for a while. What a
// decoy showed in the morning then proves nothing about a later acceptance. So once a receiver that may do that has
// refused a recipient within the hour, or may be about to, an acceptance is confirmed only when the host has refused a
// recipient as unknown after it: another target, or a decoy, which is sent when one waits long, or no other target of
// their kind of job is left. "After" is the host's order: later in the same transaction, or in one that was sent after
// the acceptance was received, because replies of two connections arrive in any order. An acceptance stays unconfirmed
// when nothing was refused in time: by then the receiver may have begun to check again.
//
// A receiver may have machines of which one accepts every recipient. So a connection must not have accepted every
// recipient itself, until enough connections have shown that its host's do not. The last recipient of one that may have
// is left to a decoy.
//
// An accepted decoy is an acceptance like any other (suspect_decoy.go).

// Replies handles the replies to one group of transactions.
type Replies struct {
	Now  time.Time
	Seen []Answer // in the order in which they came

	queue           *Queue
	group           *Group
	on              *Progress        // of the connection
	unproven        *Unproven        // of the connection
	first           int              // index of the first answer of the present transaction
	place           place            // of the present answer
	becameAcceptAll *engine.Sighting // the decoy that showed that every recipient is accepted now
}

// NewReplies begins to handle the replies to a group on a connection: it is in flight no more.
func (q *Queue) NewReplies(g *Group, seen []Answer, on *Progress, to *Unproven, now time.Time) Replies {
	q.inFlight--
	for _, r := range g.Recipients {
		r.Domain.inFlight--
	}
	return Replies{Now: now, Seen: seen, queue: q, group: g, on: on, unproven: to}
}

// Answer is the reply to the recipient of a group.
type Answer struct {
	Recipient int // its place in the group
	Reply     engine.Reply
	Finding   engine.Finding
}

// RecordRefusals records how many recipients the receiver refused in this hour, of the limit of an hour, and which of
// this group it refused as unknown. The last of them is the witness of acceptances before it.
func (r *Replies) RecordRefusals(refused, limit int) {
	q := r.queue
	if q.set.AcceptsSilently {
		q.refusing = refused > 0 || limit > 0 && q.inFlight > 0
		q.suspect = limit > 0 && refused >= max(1, limit/2)
	}
	for k, a := range slices.Backward(r.Seen) {
		s := engine.Sighting{Subject: r.group.Recipients[a.Recipient].subject(), Host: q.Name, Reply: a.Reply,
			Finding: a.Finding, At: r.Now}
		if refusesAsUnknown(&s) {
			r.recordRefusal(q.set.Answers+uint64(k)+1, s, r.group.Rcpts[a.Recipient].Local)
			break
		}
	}
}

// recordRefusal records that the answer of this number refused a recipient as unknown.
func (r *Replies) recordRefusal(number uint64, seen engine.Sighting, local string) {
	m := r.queue.memory
	m.confirmedUpTo = max(m.confirmedUpTo, r.group.answersAtSend)
	if number > m.lastRefused {
		m.lastRefused, m.refusal = number, r.queue.witness(seen, local)
	}
}

// confirmTime is how soon after an acceptance a refusal must come to confirm it: later the host may check again. What
// is not confirmed by then is asked again. After four fifths of it a decoy is sent: a list of existing mailboxes then
// uses fifteen of an hour's refusals. minConfirmTime is its least in real time, at any speed-up.
const (
	confirmTime    = 5 * time.Minute
	minConfirmTime = time.Second
)

// ConfirmTime is confirmTime under the current provider table.
func (s *Set) ConfirmTime() time.Duration { return max(s.Owner.Scaled(confirmTime), minConfirmTime) }

// answeredAt returns the time at which a probe's target was answered.
func (s *Set) answeredAt(p *Probe) time.Time { return s.Created.Add(p.answered.since) }

// pastConfirming reports whether nothing can confirm an acceptance any more.
func (s *Set) pastConfirming(p *Probe, now time.Time) bool {
	return p.answered.unconfirmed && now.Sub(s.answeredAt(p)) > s.ConfirmTime()
}

// isConfirmed reports whether what the decoy has shown may be used with the acceptance of a probe.
func (d *Domain) isConfirmed(p *Probe, now time.Time) bool {
	switch q := d.queue; {
	case d.decoy.answered.unconfirmed:
		return false
	case !d.decoy.sighting.RefusesUnknown() || !p.answered.unconfirmed:
		return true
	default:
		return !q.set.pastConfirming(p, now) && q.memory.refusedAfter(&p.answered)
	}
}

// unchecked returns a domain of the queue of which an acceptance waits that came over this connection, which has
// accepted every recipient; nil if there is none, or its decoy is asked.
func (p *Progress) unchecked(q *Queue) *Domain {
	if q.memory.checks(p) {
		return nil
	}
	for _, d := range q.unconfirmed {
		if d.decoy.state.busy() || d.decoy.answered.unconfirmed {
			continue
		}
		for probe := range d.decoy.waiting.all() {
			if probe.answered.over == p {
				return d
			}
		}
	}
	return nil
}

// appendDecoy adds to a probe's evidence what the decoy has shown, and what controls its acceptance.
func (d *Domain) appendDecoy(p *Probe) {
	q, m, decoy := d.queue, d.queue.memory, &d.decoy
	p.Ev.Append(decoy.sighting)
	if decoy.witness == nil {
		decoy.witness = q.witness(decoy.sighting, decoy.local)
	}
	p.Ev.Witness = decoy.witness
	number, of := p.answered.number, decoy.answered.number
	switch answered := q.set.answeredAt(p); {
	case !decoy.sighting.RefusesUnknown():
	case of > number:
		p.Ev.Control = p.Ev.Control.By(control.DecoyRefused, of-number, decoy.sighting.At.Sub(answered))
	case m.refusedAfter(&p.answered):
		p.Ev.Control = p.Ev.Control.By(control.TargetRefused, m.lastRefused-number, m.refusal.At.Sub(answered))
		p.Ev.Witness = m.refusal
	default:
		p.Ev.Control.Kind = control.Fact
		if back := number - of; of > 0 &&
			(p.Ev.Control.Replies == 0 || back < uint64(p.Ev.Control.Replies)) {
			p.Ev.Control = p.Ev.Control.By(control.Fact, back, answered.Sub(decoy.sighting.At))
		}
	}
}

// leaveUnconfirmed lets the accepted probes of a domain wait until its host refuses a recipient.
func (d *Domain) leaveUnconfirmed() {
	if q := d.queue; !slices.Contains(q.unconfirmed, d) {
		q.unconfirmed = append(q.unconfirmed, d)
	}
}

// Resolve releases the probes that this transaction has resolved, and requests a decoy for the others if it is time.
// Then it releases the probes that wait for a refusal after an accepted decoy (suspect_decoy.go) if none can be
// expected: nothing more is asked or in flight at the host, it accepts without checking, or a single call waits.
func (r *Replies) Resolve() {
	q := r.queue
	waiting := q.unconfirmed
	q.unconfirmed = nil
	asking, late, priority := false, false, budget.LongJob
	var first *Domain
	for _, d := range waiting {
		r.resolveSuspect(d)
		d.release(r.Now, r.becameAcceptAll)
		d.RemoveIfEmpty()
		decoy := &d.decoy
		if decoy.waiting.n == 0 {
			continue
		}
		asking = asking || decoy.state.busy()
		if !decoy.answered.unconfirmed {
			late = late || r.Now.Sub(q.set.answeredAt(decoy.waiting.first)) >= q.set.ConfirmTime()*4/5
			if highest := decoy.priority(); first == nil || highest > priority {
				first, priority = d, highest
			}
		}
	}
	if first != nil && !asking && (late || q.noTargetLeft(priority)) {
		first.requestDecoy()
	}
	for _, d := range slices.Clone(q.unconfirmed) {
		priority := d.decoy.priority()
		none := r.becameAcceptAll != nil || priority == budget.Single ||
			q.noTargetLeft(priority) && q.pendingDecoyCount()+q.inFlight == 0
		if d.decoy.answered.unconfirmed && none {
			d.decoy.discard(r.Now)
			d.release(r.Now, r.becameAcceptAll)
			d.RemoveIfEmpty()
		}
	}
	q.settleWithoutControl(r.Now)
}

// noTargetLeft reports whether no target is left that may soon be answered for probes that wait for it, the highest of
// which has this priority. A single call does not wait for other probes. A short job does not wait for a long job,
// which may not be served for hours.
func (q *Queue) noTargetLeft(priority budget.Priority) bool {
	switch priority {
	case budget.Single:
		return true
	case budget.ShortJob:
		return q.queued[budget.ShortJob]+q.queued[budget.Single] == 0
	}
	return q.queued[budget.LongJob]+q.queued[budget.ShortJob]+q.queued[budget.Single] == 0
}

// release advances the probes that wait for a decoy that is known and not suspect: the host has refused a recipient
// since, has begun to accept every one, or their time is over. The others stay, unconfirmed.
func (d *Domain) release(now time.Time, becameAcceptAll *engine.Sighting) {
	q, decoy := d.queue, &d.decoy
	known := !decoy.state.busy() && !decoy.answered.unconfirmed
	for n := decoy.waiting.n; n > 0 && known; n-- {
		p := decoy.waiting.pop()
		switch {
		case becameAcceptAll != nil:
			p.Ev.Append(*becameAcceptAll)
		case d.isConfirmed(p, now):
			d.appendDecoy(p)
		// only over another connection
		case q.set.pastConfirming(p, now) || q.memory.confirmedUpTo >= p.answered.number && q.noTargetLeft(p.Priority):
			at := q.set.answeredAt(p).Add(q.set.ConfirmTime())
			if at.After(now) {
				at = now
			}
			p.Ev.Append(engine.Sighting{Subject: engine.SubjectDecoy, Host: q.Name, Reply: decoy.sighting.Reply,
				Finding: silentAcceptance(), At: at})
		default:
			decoy.waiting.push(p)
			continue
		}
		q.set.Owner.Advance(p, now, Last)
	}
	if decoy.waiting.n > 0 {
		d.leaveUnconfirmed()
	}
}

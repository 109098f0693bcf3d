package hostqueue

import (
	"time"

	"probity/engine"
	"probity/engine/control"
	"probity/prober/budget"
)

// The positive control. Some receivers defend themselves by refusing everybody in the words of an unknown user: after a
// number of unknown recipients, past a quota, or for the rest of a connection. So a refusal that would condemn waits
// until its connection has accepted a recipient after it. Mostly that is another target. Where none is left, or the
// connection may have one refusal more, the control is sent: a recipient that the host has accepted before. If it is
// refused, the refusals that wait are taken for a rate limit, and the next connection begins with the control. What a
// connection leaves without a control goes to the host's next one, whose first recipient is then the control. Where the
// host has accepted no recipient yet, a refusal waits for one while targets are left.
//
// Some receivers answer truthfully only to the first recipient of a connection or of a transaction. So a refusal in a
// later place is controlled when the host is known to accept recipients in such a place, over a connection that refused
// one before. Until then the control is sent twice in one transaction, and behind a decoy. A decoy that was refused in
// a later place without it comes first on the next connection.

// maxMemories bounds the hosts that a set remembers; what is learnt of others goes with their rows.
const maxMemories = 256

// maxUncontrolled is how many refusals of a connection wait until the control is sent.
const maxUncontrolled = 20

// awaitControl keeps a refused probe until its refusal is controlled. It returns false if it need not wait.
func (r *Replies) awaitControl(p *Probe, seen *engine.Sighting) bool {
	q := r.queue
	if !q.set.BlocksAsUnknown || !seen.Condemns() {
		return false
	}
	if m := q.memory; m.local == p.Ev.Address.Local() && m.domain == p.Ev.Address.Domain() { // the control itself
		m.doubtful, m.suspectedMost = true, 0
		p.disbelieve()
		return false
	}
	p.ApplyUrgency()
	p.domain.listed++
	q.uncontrolled.push(p)
	return true
}

// ruling is what becomes of a refusal that waits for a control.
type ruling uint8

const (
	waits       ruling = iota
	believed           // it counts
	disbelieved        // it is taken for a rate limit: its row is asked again
)

// when is the ruling on a condition; else the refusal waits.
func (r ruling) when(condition bool) ruling {
	if condition {
		return r
	}
	return waits
}

// settle moves on the uncontrolled probes that do not wait by a rule.
func (q *Queue) settle(now time.Time, rule func(*Probe) ruling) {
	for n := q.uncontrolled.n; n > 0; n-- {
		p := q.uncontrolled.pop()
		switch rule(p) {
		case waits:
			q.uncontrolled.push(p)
			continue
		case disbelieved:
			p.disbelieve()
		}
		p.domain.listed--
		q.set.Owner.Advance(p, now, Last)
		p.domain.RemoveIfEmpty()
	}
}

// settleWithoutControl believes the refusals that wait for the first recipient that the host accepts, if no target is
// left or in flight that it may accept. A single call waits for none.
func (q *Queue) settleWithoutControl(now time.Time) {
	if !q.hasControl() {
		q.settle(now, func(p *Probe) ruling {
			return believed.when(p.Priority == budget.Single || q.inFlight == 0 && q.noTargetLeft(p.Priority))
		})
	}
}

// maxControlWait is how long a refusal waits for a control over another connection. Where targets are left, the hour of
// a budget may lie between.
const maxControlWait = 2 * time.Hour

// SettleOverdue settles the refusals that have waited too long, and those that a single call waits for while no control
// is known. They count where the host has accepted no recipient: it looks like one without mailboxes.
func (s *Set) SettleOverdue(now time.Time) {
	done := map[*Queue]bool{}
	for _, d := range s.domains {
		q := d.queue
		if q.uncontrolled.n == 0 || done[q] {
			continue
		}
		done[q] = true
		last := believed
		if q.hasControl() {
			last = disbelieved
		}
		q.settle(now, func(p *Probe) ruling {
			alone := p.Priority == budget.Single && !q.hasControl()
			late := now.Sub(s.answeredAt(p)) > s.Owner.Scaled(maxControlWait)
			return last.when(p.answered.carried && (alone || late))
		})
	}
}

// hasControl reports whether a control is known that can be sent for refusals of the host.
func (q *Queue) hasControl() bool { return q.set.BlocksAsUnknown && q.memory.local != "" }

// NeedsControl reports whether what a connection has shown needs a recipient of ours: refusals of it wait for a
// control, and one is known, or it has accepted every recipient.
func (q *Queue) NeedsControl(on *Progress) bool {
	if on.unchecked(q) != nil {
		return true
	}
	if !q.hasControl() {
		return false
	}
	for p := range q.uncontrolled.all() {
		if p.answered.isOn(on) {
			return true
		}
	}
	return false
}

// fewRefusals is how many refusals a connection may have when the last of them is left to the control.
const fewRefusals = 3

// TargetsLeft returns how many more targets and decoys a connection may have, to which so many recipients were sent, so
// many more may be sent, and so many of them refused. Three refusals sent together would leave none for what controls
// them.
func (q *Queue) TargetsLeft(on *Progress, sent, recipients, refusals int) int {
	left := recipients
	if q.refusing && !q.memory.checks(on) { // the last one is left to the decoy
		left--
	}
	if bound := q.memory.perConnection; bound > 0 {
		left = min(left, bound-sent)
	}
	if !q.hasControl() && !(q.set.BlocksAsUnknown && q.inFlight > 0) { // another connection may find one meanwhile
		return max(0, left)
	}
	if refusals <= fewRefusals {
		left = min(left, refusals)
	}
	if left <= fewRefusals && (left > 1 || sent > 0) {
		left--
	}
	return max(0, left)
}

// RecordReply records what a reply shows of its recipient, of the connection and of the host; it is counted already. If
// it accepts a recipient, the refusals of the connection that wait are controlled, and those that it was sent after.
func (r *Replies) RecordReply(a Answer, seen *engine.Sighting) {
	q, m, on := r.queue, r.queue.memory, r.on
	to, rcpt := r.group.Recipients[a.Recipient], r.group.Rcpts[a.Recipient]
	answered := moment{number: q.set.Answers, since: r.Now.Sub(q.set.Created), over: on, refusedBefore: on.Refused,
		in: r.place}
	m.record(on, r.place, seen)
	accepted := seen.Finding.Meaning == engine.Accepted
	switch p := to.Probe; {
	case p != nil:
		p.answered = answered
		p.answered.unconfirmed = q.refusing
		p.Ev.Control, p.Ev.Witness = m.recordAnswer(seen, answered.number), nil
		if accepted && m.local == "" && !rcpt.NeedsUTF8() {
			m.local, m.domain = rcpt.Local, rcpt.Domain
		}
	case to.isDecoy():
		to.Domain.decoy.answered, to.Domain.decoy.local = answered, rcpt.Local
	}
	if !accepted {
		return
	}
	var witness *engine.Witness
	q.settle(r.Now, func(p *Probe) ruling {
		refused, late := &p.answered, r.Now.Sub(q.set.answeredAt(p))
		switch {
		case !m.acceptedAfter(refused, on, r.group.answersAtSend):
			return waits
		case refused.carried && late > q.set.ConfirmTime(): // the host may have refused everybody then, and not now
			return disbelieved
		case witness == nil:
			witness = q.witness(*seen, rcpt.Local)
			witness.Subject = to.subject()
		}
		kind := control.AcceptedSameConnection
		if refused.carried {
			kind = control.AcceptedElsewhere
		}
		p.Ev.Control, p.Ev.Witness = p.Ev.Control.By(kind, answered.number-refused.number, late), witness
		return believed
	})
}

// DeliverControl handles the reply to a control of a group. It returns true if the control was refused: then the
// connection is of no more use, and if it was the first recipient, the host refuses everybody.
func (r *Replies) DeliverControl(a Answer) (refused bool) {
	q, m, on := r.queue, r.queue.memory, r.on
	q.controlsInFlight--
	ended := func(p *Probe) bool { return p.answered.isOn(on) || p.answered.carried }
	switch {
	case a.Finding.Meaning == engine.Accepted:
		if m.doubtful && m.suspectedMost > 0 {
			m.perConnection = m.suspectedMost
		}
		m.doubtful = false
		if q.controlsInFlight == 0 {
			q.settle(r.Now, func(p *Probe) ruling {
				switch refused := &p.answered; {
				case !refused.carried || refused.number > r.group.answersAtSend:
					return waits
				case refused.in > r.group.controlledTo || refused.refusedBefore > m.acceptsAfter,
					r.Now.Sub(q.set.answeredAt(p)) > q.set.ConfirmTime(): // a block may have ended since
					return disbelieved
				}
				return believed
			})
			q.carry(on)
		}
	case a.refusesControl():
		m.doubtful, m.suspectedMost, refused = true, on.AcceptedUpTo, true
		if on.Answers == 0 {
			m.refusedAll, q.MaxRecipients = true, 1
		}
		// it may answer only to the first, of a connection or of a transaction
		if r.place == placeBehind && m.acceptsIn < placeBehind {
			m.suspectedMost = 1
		}
		q.settle(r.Now, func(p *Probe) ruling { return disbelieved.when(ended(p) || on.Answers == 0) })
	case a.Finding.Meaning == engine.MailboxFull: // the host does not refuse everybody
		q.settle(r.Now, func(p *Probe) ruling { return believed.when(ended(p)) })
	default: // it says nothing about the host: another connection may
		q.carry(on)
	}
	return refused
}

// refusesControl reports whether a reply to a control shows that what the host refuses may exist.
func (a *Answer) refusesControl() bool {
	return a.Reply.Permanent() && a.Finding.Meaning != engine.MailboxFull
}

// RefusesKnown is the finding for a host that refuses a recipient which it accepted: the probes are retried.
func RefusesKnown() engine.Finding {
	return engine.Finding{Meaning: engine.RateLimited, Blame: engine.BlameUs, Rule: "default/refuses-known"}
}

// disbelieve takes a probe's refusal for a rate limit.
func (p *Probe) disbelieve() { p.Ev.Seen[len(p.Ev.Seen)-1].Finding = RefusesKnown() }

// carry leaves the refusals of a connection that wait to the host's next one.
func (q *Queue) carry(from *Progress) {
	for p := range q.uncontrolled.all() {
		p.answered.carried = p.answered.carried || p.answered.over == from
	}
}

// Leave settles or carries over what a connection leaves that has ended, or goes on to another host. Its refusals wait
// for the host's next one, but no single call does. Those that came after a refused control are not believed.
func (q *Queue) Leave(left *Progress, now time.Time) {
	q.settle(now, func(p *Probe) ruling {
		switch {
		case !p.answered.isOn(left):
			return waits
		case q.memory.doubtful:
			return disbelieved
		}
		return believed.when(p.Priority == budget.Single)
	})
	q.carry(left)
	q.settleWithoutControl(now)
}

// addControl adds the control if it is due. It reports whether it goes alone: a single call waits for it, or the host
// is in doubt.
func (f *filling) addControl(with Fill, rooms [budget.NumPriorities]int) (alone bool) {
	q := f.queue
	if !q.hasControl() || f.g.Control {
		return false
	}
	m, doubtful := q.memory, with.First && q.memory.doubtful
	sure := m.acceptsIn // the place of refusals that one control is enough for
	if !with.First {
		sure = max(sure, placeLeads)
	}
	own, refusals, priority := 0, 0, budget.LongJob
	due, twice := doubtful, false
	for p := range q.uncontrolled.all() {
		if refused := &p.answered; refused.isOn(with.On) || refused.carried && q.controlsInFlight == 0 {
			refusals++
			if !refused.carried {
				own++
			}
			due = due || refused.carried
			twice = twice || refused.in > sure
			priority = max(priority, p.Priority)
		}
	}
	due = due || refusals > 0 && (m.refusedAll || with.ControlOnly || with.TargetsLeft == 0 ||
		refusals >= maxUncontrolled || q.noTargetLeft(priority))
	// it may use what jobs leave to single calls: their own room may be used up
	room := rooms[budget.Single] - len(f.g.Recipients)
	leave := twice && own == 0 && room == 1 && !with.First // to a connection with room for two
	if !due || room <= 0 || leave {
		return doubtful
	}
	f.sendControl(priority, sure)
	switch {
	case !twice || doubtful:
	case room > 1:
		f.sendControl(priority, placeBehind)
	case with.First && m.perConnection == 0: // the host takes one recipient a transaction
		f.g.controlledTo = placeBehind
	}
	return doubtful || priority == budget.Single
}

// decoysToControl returns the priority of the pending decoys if the control is to be sent behind them.
func (f *filling) decoysToControl() (of budget.Priority, due bool) {
	q, m := f.queue, f.queue.memory
	if !q.hasControl() || f.g.Control || m.acceptsIn == placeBehind || m.perConnection > 0 {
		return 0, false
	}
	for priority := range budget.NumPriorities {
		if q.pendingDecoysFor(priority) > 0 {
			of, due = priority, true
		}
	}
	return of, due
}

// sendControl adds the control to the transaction. It controls refusals in places up to one.
func (f *filling) sendControl(priority budget.Priority, upTo place) {
	q, m := f.queue, f.queue.memory
	d := q.set.Domain(m.domain, q.Name)
	if d == nil {
		d = q.AddDomain(m.domain)
	}
	q.controlsInFlight++
	f.g.Control, f.g.controlledTo = true, upTo
	f.add(Recipient{Domain: d, Control: true, LongJob: priority == budget.LongJob}, m.local)
}

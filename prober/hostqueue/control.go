package hostqueue

import (
	"math"
	"time"

	"probity/engine"
	"probity/engine/control"
	"probity/engine/smtp"
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

// memory is what a ready queue remembers of a host for as long as the queue lives: rows that were deferred find it
// again.
type memory struct {
	local, domain string // the control; empty until the host has accepted a recipient
	doubtful      bool   // it was refused over the last connection: the next one begins with it, alone
	refusedAll    bool   // it was refused as the first recipient of a connection: each refusal is controlled at once
	perConnection int    // recipients of a connection that are answered truthfully; 0 for no bound
	suspectedMost int    // the same, until a connection accepts the control
	acceptsIn     place  // the last place in which a connection accepted a recipient after it had refused one
	acceptsAfter  uint16 // the most refusals of unknown users after which a connection accepted a recipient

	acceptedDecoy bool   // it has accepted a decoy
	checking      uint32 // connections that did not accept every recipient
	mostRefused   uint16 // as unknown over one connection

	refused, accepted lastAnswer // targets
}

// lastAnswer is how many targets a host has answered in one way, and when it last did.
type lastAnswer struct {
	count  uint8  // at most 255
	answer uint64 // by the set's count
	at     time.Time
}

func (a *lastAnswer) record(answer uint64, at time.Time) {
	if a.count < math.MaxUint8 {
		a.count++
	}
	a.answer, a.at = answer, at
}

// recordAnswer counts the answer to a target, and returns what the host had shown before: the last answer of the
// opposite sort, and how many there were of each.
func (m *memory) recordAnswer(seen *engine.Sighting, answer uint64) control.Control {
	before := control.Control{Refused: m.refused.count, Accepted: m.accepted.count}
	var opposite lastAnswer
	switch {
	case seen.Finding.Meaning == engine.Accepted:
		opposite = m.refused
		m.accepted.record(answer, seen.At)
	case seen.Condemns():
		opposite = m.accepted
		m.refused.record(answer, seen.At)
	}
	if opposite.count == 0 {
		return before
	}
	return before.By(control.None, answer-opposite.answer, seen.At.Sub(opposite.at))
}

// place is where a recipient is among those of its connection.
type place uint8

const (
	placeFirst  place = iota // of its connection
	placeLeads               // of its transaction, which is not the first one
	placeBehind              // behind another of its transaction
)

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
		disbelieve(p)
		return false
	}
	p.ApplyUrgency()
	p.connection, p.refusedIn = seen.Conn, r.place
	p.domain.listed++
	q.uncontrolled.push(p)
	return true
}

// settleRefusals takes those of the uncontrolled probes that are wanted, changes the evidence of each, and moves it on.
func (q *Queue) settleRefusals(now time.Time, wanted func(*Probe) bool, change func(*Probe)) {
	for n := q.uncontrolled.n; n > 0; n-- {
		p := q.uncontrolled.pop()
		if !wanted(p) {
			q.uncontrolled.push(p)
			continue
		}
		p.domain.listed--
		if change != nil {
			change(p)
		}
		q.set.Owner.Advance(p, now, Last)
		p.domain.RemoveIfEmpty()
	}
}

// SettleUncontrolled settles the refusals that wait for the first recipient that the host accepts, if no target is left
// or in flight that it may accept. A single call waits for none.
func (q *Queue) SettleUncontrolled(now time.Time) {
	if !q.hasControl() {
		q.settleRefusals(now, func(p *Probe) bool {
			return p.Priority == budget.Single || q.inFlight == 0 && q.noTargetLeft(p.Priority)
		}, nil)
	}
}

// maxControlWait is how long a refusal waits for a control over another connection. Where targets are left, the hour of
// a budget may lie between.
const maxControlWait = 2 * time.Hour

// SettleOverdue settles the refusals that have waited too long, and those that a single call waits for while no control
// is known. They count, unless the host refused its control last.
func (s *Set) SettleOverdue(now time.Time) {
	done := map[*Queue]bool{}
	for _, d := range s.domains {
		q := d.queue
		if q.uncontrolled.n == 0 || done[q] {
			continue
		}
		done[q] = true
		change := disbelieve
		if !q.memory.doubtful {
			change = nil
		}
		q.settleRefusals(now, func(p *Probe) bool {
			alone := p.Priority == budget.Single && !q.hasControl()
			return p.connection == 0 && (alone || now.Sub(s.answeredAt(p)) > s.Owner.Scaled(maxControlWait))
		}, change)
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
		if p.connection == on.Connection {
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

// RecordReply records what a reply shows of the connection. If it accepts a recipient, the refusals of the connection
// that wait are controlled, and those that it was sent after.
func (r *Replies) RecordReply(on *Progress, to Recipient, rcpt smtp.Rcpt, seen *engine.Sighting) {
	q, m := r.queue, r.queue.memory
	if to.Probe != nil {
		to.Probe.over, to.Probe.refusedBefore = on, on.Refused
	}
	if to.isDecoy() {
		to.Domain.decoy.local = rcpt.Local
	}
	if seen.Condemns() || seen.NamesUnknown() {
		r.countRefusal(on)
	}
	if seen.Finding.Meaning != engine.Accepted {
		if !on.Checks {
			on.Checks = true
			m.checking++
		}
		return
	}
	on.AcceptedUpTo = on.Answers + 1
	var accepted *engine.Witness
	m.acceptsAfter = max(m.acceptsAfter, on.Refused)
	if on.Refused > 0 {
		m.acceptsIn = max(m.acceptsIn, r.place)
	}
	if to.Probe != nil && m.local == "" && !rcpt.NeedsUTF8() {
		m.local, m.domain = rcpt.Local, rcpt.Domain
	}
	after := func(p *Probe) bool {
		return p.refusedIn <= m.acceptsIn && p.refusedBefore <= m.acceptsAfter &&
			(p.connection == on.Connection || p.connection == 0 && p.lastAnswer <= r.answersAtSend)
	}
	q.settleRefusals(r.Now, after, func(p *Probe) {
		kind, late := control.AcceptedSameConnection, r.Now.Sub(q.set.answeredAt(p))
		if p.connection == 0 {
			kind = control.AcceptedElsewhere
		}
		if p.connection == 0 && late > q.set.ConfirmTime() { // the host may have refused everybody then, and not now
			disbelieve(p)
			return
		}
		if accepted == nil {
			accepted = q.witness(*seen, rcpt.Local)
			accepted.Subject = to.subject()
		}
		p.Ev.Control, p.Ev.Witness = p.Ev.Control.By(kind, q.set.Answers-p.lastAnswer, late), accepted
	})
}

// countRefusal counts a recipient that a connection refused as unknown.
func (r *Replies) countRefusal(on *Progress) {
	on.Refused++
	m := r.queue.memory
	m.mostRefused = max(m.mostRefused, on.Refused)
}

// Progress is what a connection has brought so far at the host that it serves.
type Progress struct {
	Connection   uint32 // its number
	Answers      int    // to recipients, at the hosts before too
	AcceptedUpTo int    // the last of them that accepted one
	Refused      uint16 // recipients of this host, as unknown
	Checks       bool   // it has not accepted every recipient of this host
}

// AtNextHost is the progress of a connection that goes on to another host: what it has shown of one proves nothing of
// the other.
func (p *Progress) AtNextHost() *Progress {
	return &Progress{Connection: p.Connection, Answers: p.Answers, AcceptedUpTo: p.AcceptedUpTo}
}

// DeliverControl handles the reply to a control of a group. It returns true if the control was refused: then the
// connection is of no more use, and if it was the first recipient, the host refuses everybody.
func (r *Replies) DeliverControl(g *Group, on *Progress, a Answer) (refused bool) {
	q, m := r.queue, r.queue.memory
	q.controlsInFlight--
	ended := func(p *Probe) bool {
		return p.connection == on.Connection || p.connection == 0 || refused && on.Answers == 0
	}
	switch {
	case a.Finding.Meaning == engine.Accepted:
		if m.doubtful && m.suspectedMost > 0 {
			m.perConnection = m.suspectedMost
		}
		m.doubtful = false
		if q.controlsInFlight == 0 {
			carried := func(p *Probe) bool { return p.connection == 0 && p.lastAnswer <= r.answersAtSend }
			q.settleRefusals(r.Now, carried, func(p *Probe) {
				if p.refusedIn > g.controlledTo || p.refusedBefore > m.acceptsAfter {
					disbelieve(p)
				}
			})
			q.Carry(on.Connection)
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
		q.settleRefusals(r.Now, ended, disbelieve)
	default: // it says nothing about the host
		q.settleRefusals(r.Now, ended, nil)
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
func disbelieve(p *Probe) { p.Ev.Seen[len(p.Ev.Seen)-1].Finding = RefusesKnown() }

// Carry leaves the refusals of a connection that wait to the host's next one: it has ended, or serves another host.
func (q *Queue) Carry(connection uint32) {
	for p := range q.uncontrolled.all() {
		if p.connection == connection {
			p.connection = 0
		}
	}
}

// EndConnection settles or carries over what a connection has left. Its refusals wait for the host's next one, but no
// single call does. Those that came after a refused control are not believed.
func (q *Queue) EndConnection(connection uint32, now time.Time) {
	if q.memory.doubtful {
		q.settleRefusals(now, func(p *Probe) bool { return p.connection == connection }, disbelieve)
		return
	}
	single := func(p *Probe) bool { return p.connection == connection && p.Priority == budget.Single }
	q.settleRefusals(now, single, nil)
	q.Carry(connection)
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
		if p.connection == with.On.Connection || p.connection == 0 && q.controlsInFlight == 0 {
			refusals++
			if p.connection == with.On.Connection {
				own++
			}
			due = due || p.connection == 0
			twice = twice || p.refusedIn > sure
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

package hostqueue

import (
	"slices"
	"time"

	"probity/engine"
	"probity/engine/redact"
	"probity/engine/smtp"
	"probity/internal/ring"
	"probity/prober/budget"
	"probity/store/cache"
)

// Group is what a connection sends at one time: one or more transactions. Its memory is reused.
type Group struct {
	Recipients []Recipient
	Rcpts      []smtp.Rcpt
	Control    bool // one of them is the control

	controlledTo place // the last place of a refusal that it controls

	answersAtSend uint64 // the set's count of answers when it was filled
}

// Recipient is one recipient of a transaction: a target, or if Probe is nil the control or the decoy of a domain.
type Recipient struct {
	Probe   *Probe
	Domain  *Domain
	Control bool
	LongJob bool // for a row of a long job
}

func (r Recipient) isDecoy() bool { return r.Probe == nil && !r.Control }

func (r Recipient) subject() engine.Subject {
	if r.isDecoy() {
		return engine.SubjectDecoy
	}
	return engine.SubjectTarget
}

// Waiter is the probe that a recipient is asked for, or one of those that wait for a decoy; nil if none does any more.
func (r Recipient) Waiter() *Probe {
	switch {
	case r.Probe != nil:
		return r.Probe
	case r.Control:
		return r.Domain.queue.uncontrolled.first
	}
	return r.Domain.decoy.waiting.first
}

// DueFinding is the finding of a reply with the action that is due now. A refusal of the sender only slows the queue
// while it may not be final: the same connection accepted another recipient from this sender, or the refusal is
// temporary and its recipient will be asked again, when a callout to our domain may be complete.
func (r Recipient) DueFinding(seen *engine.Sighting) engine.Finding {
	f := seen.Finding
	again := seen.Deferred() && (r.Probe == nil || r.Probe.Ev.Attempts < len(r.Probe.Policy.Schedule))
	if f.Meaning == engine.SenderRefused && f.Action.Kind == engine.ActionQuarantine &&
		(again || seen.NeighbourAccepted) {
		f.Action = engine.Action{Kind: engine.ActionSlow, For: 10 * time.Minute}
		if seen.Reply.Code == 421 {
			f.Action.Kind = engine.ActionClose
		}
	}
	return f
}

// Redact returns the text of a reply without the addresses of the group's recipients.
func (g *Group) Redact(r engine.Reply) string {
	text := redact.Text(r.Text(), "")
	for _, to := range g.Rcpts {
		text = redact.Text(text, to.Local)
	}
	return text
}

// Reset empties the group.
func (g *Group) Reset() {
	g.Recipients, g.Rcpts = g.Recipients[:0], g.Rcpts[:0]
	g.Control, g.controlledTo = false, placeFirst
}

// RecordSent records that one more group is in flight.
func (q *Queue) RecordSent() { q.inFlight++ }

// RemoveEmpty removes the domains of the group that are not used any more.
func (g *Group) RemoveEmpty() {
	for _, r := range g.Recipients {
		r.Domain.RemoveIfEmpty()
	}
}

// longJobs counts the recipients that are for rows of long jobs.
func longJobs(recipients []Recipient) (n int) {
	for i := range recipients {
		if recipients[i].LongJob {
			n++
		}
	}
	return n
}

// Fill says how one transaction is to be filled.
type Fill struct {
	Rooms       [budget.NumPriorities]int // recipients that it may have, by priority
	TargetsLeft int                       // how many of them may be targets or decoys
	On          *Progress                 // its connection
	OneDomain   bool                      // they must share their domain
	First       bool                      // it is the first of its connection: recipients that lost one come first
	ControlOnly bool                      // the connection ends
	Keyer       *cache.Keyer
	Now         time.Time
}

// Fill adds a transaction to a group, single calls first, then decoys, then jobs. It returns how many recipients it
// has, and how many of them are for rows of long jobs.
func (q *Queue) Fill(g *Group, with Fill) (n, longJobRows int) {
	s, from := q.set, len(g.Recipients)
	f := filling{queue: q, g: g, oneDomain: with.OneDomain || q.OneDomain, keyer: with.Keyer, now: with.Now}
	rooms := with.Rooms
	for priority := range rooms {
		rooms[priority] += from
	}
	alone := f.addControl(with, rooms)
	of, control := f.decoysToControl()
	last := rooms[of] - 1 // is left to the control
	control = control && last > len(g.Recipients)
	for priority := range rooms {
		if control && budget.Priority(priority) <= of {
			rooms[priority] = min(rooms[priority], last)
		}
		rooms[priority] = min(rooms[priority]-len(g.Recipients), with.TargetsLeft) + len(g.Recipients)
	}
	switch {
	case alone, with.ControlOnly:
	case with.First && q.HasRetryFirst() && f.addRetryFirst(rooms): // alone
	default:
		f.addProbes(budget.Single, rooms[budget.Single])
		f.addAllDecoys(rooms)
		// Rows of jobs: first of the priority whose turn it is, then of the other, if there is room left.
		both := s.Queued[budget.ShortJob] > 0 && s.Queued[budget.LongJob] > 0
		first, then := budget.ShortJob, budget.LongJob
		if s.turns.Next(both, s.Queued[budget.ShortJob] > 0) == budget.LongJob {
			first, then = then, first
		}
		for _, priority := range [...]budget.Priority{first, then} {
			before := len(g.Recipients)
			f.addProbes(priority, rooms[priority])
			if both {
				s.turns.Record(priority, len(g.Recipients)-before)
			}
		}
	}
	if len(g.Recipients) == from {
		f.addDecoyOver(with.On, rooms[budget.Single])
	}
	if len(g.Recipients) == from {
		return 0, 0
	}
	fits := len(g.Recipients) <= last && (!f.oneDomain || f.domain == q.memory.domain)
	if control && fits && slices.ContainsFunc(g.Recipients[from:], Recipient.isDecoy) {
		f.sendControl(of, placeBehind)
	}
	g.Rcpts[from].NewTransaction = true
	if from == 0 {
		g.answersAtSend = s.Answers
	}
	return len(g.Recipients) - from, longJobs(g.Recipients[from:])
}

// filling is a transaction that is being filled.
type filling struct {
	queue     *Queue
	g         *Group
	oneDomain bool
	domain    string // of the transaction, if it may have only one
	keyer     *cache.Keyer
	now       time.Time
}

// domainFits reports whether a domain may be in this transaction.
func (f *filling) domainFits(d *Domain) bool {
	return !f.oneDomain || f.domain == "" || f.domain == d.Name
}

// add adds a recipient with its local part.
func (f *filling) add(r Recipient, local string) {
	r.Domain.inFlight++
	f.domain = r.Domain.Name
	f.g.Recipients = append(f.g.Recipients, r)
	f.g.Rcpts = append(f.g.Rcpts, smtp.Rcpt{Local: local, Domain: r.Domain.Name})
}

// addProbe takes a probe out of its queue.
func (f *filling) addProbe(p *Probe) {
	f.queue.set.dequeue(p)
	p.Sends++
	f.add(Recipient{Probe: p, Domain: p.domain, LongJob: p.Priority == budget.LongJob}, p.Ev.Address.Local())
}

// addProbes takes probes of one priority while the transaction holds fewer than room. A domain that has more goes to
// the ring's end, so that no domain keeps the others waiting.
func (f *filling) addProbes(priority budget.Priority, room int) {
	r := &f.queue.domains[priority]
	for looked := r.Len(); looked > 0 && len(f.g.Recipients) < room; looked-- {
		d := r.Pop()
		list := &d.queues[priority]
		for fits := f.domainFits(d); fits && list.n > 0 && len(f.g.Recipients) < room; {
			f.addProbe(list.first)
		}
		if list.n > 0 {
			r.Push(d)
		} else {
			d.scheduled[priority] = false
			d.RemoveIfEmpty()
		}
	}
}

// addAllDecoys adds the pending decoys, those of the highest priority first.
func (f *filling) addAllDecoys(rooms [budget.NumPriorities]int) {
	for _, priority := range [...]budget.Priority{budget.Single, budget.ShortJob, budget.LongJob} {
		r := &f.queue.pendingDecoys[priority]
		f.addDecoys(r, r.Len(), rooms[priority])
	}
}

// addDecoys adds pending decoys of one priority, looking at so many at most, while the transaction holds fewer than
// room.
func (f *filling) addDecoys(r *ring.Ring[*Domain], look, room int) {
	for looked := min(look, r.Len()); looked > 0 && len(f.g.Recipients) < room; looked-- {
		d := r.Pop()
		if d.decoy.waiting.n == 0 { // no probe waits for it any more
			d.decoy.state = decoyUnknown
			d.RemoveIfEmpty()
			continue
		}
		if !f.domainFits(d) {
			r.Push(d)
			continue
		}
		f.addDecoy(d)
	}
}

// addDecoy adds the decoy of a domain.
func (f *filling) addDecoy(d *Domain) {
	d.decoy.state = decoyAsking
	d.decoy.asked++
	f.add(Recipient{Domain: d, LongJob: d.decoy.priority() == budget.LongJob},
		DecoyLocalPart(f.keyer, d.Name, f.now))
}

// addDecoyOver adds a decoy to a connection that would end or wait, and has accepted every recipient so far.
func (f *filling) addDecoyOver(on *Progress, room int) {
	if d := on.unchecked(f.queue); d != nil && len(f.g.Recipients) < room {
		f.addDecoy(d)
	}
}

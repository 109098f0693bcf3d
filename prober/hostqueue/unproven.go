package hostqueue

import (
	"slices"
	"time"

	"probity/engine"
	"probity/prober/budget"
)

// Unproven is what the replies of a connection came to, until it is known that each was the reply to its command
// (smtp.Session.Confirmed): a server that once sent a reply too many would have answered for the wrong recipients.
type Unproven struct {
	Finished []Finished
	Facts    []DomainFact
}

// maxUnproven is how many transactions a connection carries while its answers are unproven.
const maxUnproven = 8

// Overdue reports whether what is unproven must wait no longer for the end of its connection: answers of single calls
// for nothing but their decoys, those of jobs for maxUnproven transactions.
func (u *Unproven) Overdue(at *Queue, transactions int) bool {
	ofSingle := func(f Finished) bool {
		f.Probe.ApplyUrgency() // a single call may wait for it since
		return f.Probe.Priority == budget.Single
	}
	if slices.ContainsFunc(u.Finished, ofSingle) {
		return at.Waiting(budget.Single) == 0
	}
	return len(u.Finished) > 0 && transactions >= maxUnproven
}

// Void takes back all that a connection has shown: its replies to targets and decoys count for nothing, and are asked
// for again. why is what targets see instead; EventReply for nothing. All probes that were answered are in the queue
// again, and how many is returned.
func (u *Unproven) Void(at *Queue, number uint32, why engine.Event, now time.Time) (queued int) {
	s := at.set
	for _, d := range s.domains {
		if d.queue == at && d.decoy.state == decoyKnown && d.decoy.sighting.Conn == number {
			d.decoy.state, d.decoy.answered = decoyUnknown, moment{}
		}
	}
	if at.memory.refusedAll {
		at.MaxRecipients = 0
	}
	*at.memory = memory{refused: at.memory.refused, accepted: at.memory.accepted}
	void := engine.Sighting{Subject: engine.SubjectTarget, Event: why, Host: at.Name, At: now}
	var again []*Probe
	for _, f := range u.Finished {
		f.Probe.void(number, void)
		again = append(again, f.Probe)
	}
	queued = len(again)
	for _, p := range s.Unsent(nil) {
		waits := p.inList == &p.domain.decoy.waiting || p.inList == &at.uncontrolled
		if p.void(number, void) && waits || p.inList == &at.uncontrolled { // what waits for it has no control any more
			s.dequeue(p)
			again = append(again, p)
		}
	}
	*u = Unproven{}
	for _, p := range again {
		s.Owner.Advance(p, now, First)
	}
	return queued
}

// void drops the replies of a connection from a probe's evidence. It reports whether there were any; one to the target
// becomes why.
func (p *Probe) void(number uint32, why engine.Sighting) (concerned bool) {
	kept, target := p.Ev.Seen[:0], false
	for _, seen := range p.Ev.Seen {
		if seen.Conn != number || seen.Event != engine.EventReply {
			kept = append(kept, seen)
			continue
		}
		concerned, target = true, target || seen.Subject == engine.SubjectTarget
	}
	clear(p.Ev.Seen[len(kept):])
	p.Ev.Seen = kept
	if target && why.Event != engine.EventReply {
		p.Ev.Append(why)
	}
	return concerned
}

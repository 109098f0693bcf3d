package hostqueue

import (
	"math"
	"time"

	"probity/engine"
	"probity/engine/control"
)

// What a host has shown, as values: a moment is one of its answers, a Progress what one connection has brought, a
// memory what all have. Their methods say what an answer proves of another; they know no probe and no queue.

// moment is where and when a host answered a recipient. What it answers later is held against that.
type moment struct {
	number        uint64        // of the answer, by the set's count; 0 for a fact of another day
	since         time.Duration // Set.Created
	over          *Progress     // of its connection
	refusedBefore uint16        // recipients that the connection had refused as unknown before
	in            place
	unconfirmed   bool // an acceptance that counts only with a later refusal: the host may accept every recipient
	carried       bool // a refusal that any connection's acceptance may control: its own connection has ended
}

// isOn reports whether a refusal waits for an acceptance over this connection.
func (m *moment) isOn(p *Progress) bool { return m.over == p && !m.carried }

// place is where a recipient is among those of its connection.
type place uint8

const (
	placeFirst  place = iota // of its connection
	placeLeads               // of its transaction, which is not the first one
	placeBehind              // behind another of its transaction
)

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

	// By the set's count of answers: a recipient that was sent after the answers up to confirmedUpTo was refused as
	// unknown, the last one with the answer lastRefused, which is refusal.
	confirmedUpTo, lastRefused uint64
	refusal                    *engine.Witness

	acceptedDecoy bool   // it has accepted a decoy
	checking      uint32 // connections that did not accept every recipient
	mostRefused   uint16 // as unknown over one connection

	refused, accepted lastAnswer // targets
}

// record adds an answer over a connection, in a place.
func (m *memory) record(on *Progress, in place, seen *engine.Sighting) {
	if refusesAsUnknown(seen) {
		m.countRefusal(on)
	}
	switch {
	case seen.Finding.Meaning == engine.Accepted:
		on.AcceptedUpTo = on.Answers + 1
		m.acceptsAfter = max(m.acceptsAfter, on.Refused)
		if on.Refused > 0 {
			m.acceptsIn = max(m.acceptsIn, in)
		}
	case !on.Checks:
		on.Checks = true
		m.checking++
	}
}

// refusesAsUnknown reports whether a reply, temporary or not, says that its recipient does not exist.
func refusesAsUnknown(seen *engine.Sighting) bool { return seen.Condemns() || seen.NamesUnknown() }

// countRefusal counts a recipient that a connection refused as unknown.
func (m *memory) countRefusal(on *Progress) {
	on.Refused++
	m.mostRefused = max(m.mostRefused, on.Refused)
}

// refusedAfter reports whether the host has refused a recipient as unknown after it accepted one. Some receivers have
// machines that accept every recipient: a connection that refuses no recipient confirms nothing. Others accept every
// recipient of a connection over which they have refused some. So a refusal over another counts where the connection
// refused some recipient too, and some connection, now or before, more than this one had.
func (m *memory) refusedAfter(accepted *moment) bool {
	return accepted.over.Refused > accepted.refusedBefore ||
		m.checks(accepted.over) && m.confirmedUpTo >= accepted.number && m.mostRefused > accepted.refusedBefore
}

// acceptedAfter reports whether an acceptance over a connection controls a refusal: it came after it there, or its
// recipient was sent when the set had counted so many answers, and its place and the connection's refusals are none
// after which the host may accept no recipient.
func (m *memory) acceptedAfter(refused *moment, on *Progress, answersAtSend uint64) bool {
	return refused.in <= m.acceptsIn && refused.refusedBefore <= m.acceptsAfter &&
		(refused.isOn(on) || refused.carried && refused.number <= answersAtSend)
}

// enoughChecking is how many connections of a host must not have accepted every recipient until others are believed not
// to. If half of its machines accept everybody, one such host in a thousand has not shown it by then.
const enoughChecking = 10

// checks reports whether a connection is known, or believed, not to accept every recipient. Where the host answers only
// so many of a connection, there may be none to show it with. A host that has accepted a decoy is not believed.
func (m *memory) checks(on *Progress) bool {
	return on.Checks || !m.acceptedDecoy && (m.perConnection > 0 || m.checking >= enoughChecking)
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

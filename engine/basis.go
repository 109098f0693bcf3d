package engine

import (
	"encoding/binary"
	"time"
)

// Check says how close to the answer about the mailbox the catch-all check of a verdict was made. The zero value
// claims nothing and counts least.
type Check uint8

// The checks, from none to the closest.
const (
	CheckNone              Check = iota
	CheckElsewhereAccepted       // only another MX host of the domain was checked: it accepts made-up recipients
	CheckElsewhereRefused        // the same, and it refuses them
	CheckSameHost                // the same host, over another connection
	CheckSameConnection          // the same host, over the connection that answered about the mailbox
)

// Suspicion says how likely it is that the host accepted everything, unchecked, when it accepted this mailbox.
type Suspicion uint8

// The degrees of suspicion.
const (
	SuspicionNone Suspicion = iota
	SuspicionLow            // high, if the recipients in flight had been refused by then
	SuspicionHigh           // it had sent at least half of the refusals that such receivers allow in an hour
)

// Learned is what an attempt without an acceptance showed about the host.
type Learned uint8

// What was learned, from nothing to the most.
const (
	LearnedNothing   Learned = iota
	LearnedRefuses           // the host refuses a made-up recipient of this domain
	LearnedNeighbour         // the host accepted another recipient of this domain on the same connection
)

// Basis is what a score depends on besides the reason, the flags and the time of the evidence. The core of a verdict keeps
// it exactly, so that the score can be computed whenever the verdict is shown. The zero value knows nothing.
type Basis struct {
	Check        Check
	Suspicion    Suspicion
	Learned      Learned
	Before       uint8 // how often the same answer was seen before; at most maxBefore
	NamesUnknown bool  // a temporary refusal whose text names an unknown user
	// CheckAge is 1 plus the minutes by which the check is older than the answer; 0 is not known. Both times are cut to the
	// minute first: so the minute of the check can be recovered, and a later answer never makes the check look older.
	CheckAge uint16
}

const (
	maxBefore   = 3
	maxCheckAge = 1<<14 - 1 // eleven days; a catch-all fact lives seven
)

// Earlier is a kept answer about the same address.
type Earlier struct {
	Reason Reason
	Times  uint8 // how often it was seen; 0 when there is none
}

// earlierApart is the least time between two equal answers that count twice: probing again at once proves nothing more.
const earlierApart = time.Hour

// EarlierOf is what a kept verdict adds to evidence that is taken at now.
func EarlierOf(kept *Verdict, now time.Time) Earlier {
	times := kept.Basis.Before
	if now.Sub(kept.VerifiedAt) >= earlierApart {
		times++
	}
	return Earlier{kept.Reason, times}
}

// basisOf computes the basis of a verdict whose reason and time are set.
func basisOf(ev *Evidence, v *Verdict, d *decision) Basis {
	b := Basis{}
	switch {
	case v.Status == Unknown:
		b.Before = uint8(min(maxBefore, ev.Attempts))
	case ev.Earlier.Reason == v.Reason:
		b.Before = min(maxBefore, ev.Earlier.Times)
	}
	b.NamesUnknown = v.Reason == ReasonTemporaryError && d.from != nil && d.from.Finding.NamesUnknown
	target, answered := ev.answer(SubjectTarget, "")
	if answered && target.Finding.Meaning == Accepted {
		b.Suspicion = ev.Suspicion
	} else {
		b.Learned = learnedFrom(ev)
	}
	switch {
	case !answered:
	case v.Details.CatchAll == NotKnown:
		b.Check = checkElsewhere(ev, target.Host)
	default:
		decoy, _ := ev.answer(SubjectDecoy, target.Host)
		b.Check, b.CheckAge = CheckSameHost, checkAge(v.VerifiedAt, decoy.At)
		if decoy.Conn != 0 && decoy.Conn == target.Conn {
			b.Check = CheckSameConnection
		}
	}
	return b
}

// checkElsewhere is what checks at hosts other than the given one have shown.
func checkElsewhere(ev *Evidence, host string) Check {
	for i := range ev.Seen {
		s := &ev.Seen[i]
		if s.Subject != SubjectDecoy || s.Host == host {
			continue
		}
		switch ev.catchAll(s.Host) {
		case Yes:
			return CheckElsewhereAccepted
		case No:
			return CheckElsewhereRefused
		}
	}
	return CheckNone
}

func learnedFrom(ev *Evidence) Learned {
	most := LearnedNothing
	for i := range ev.Seen {
		s := &ev.Seen[i]
		switch {
		case s.Subject == SubjectTarget && s.NeighbourAccepted:
			return LearnedNeighbour
		case s.Subject == SubjectDecoy && ev.catchAll(s.Host) == No:
			most = LearnedRefuses
		}
	}
	return most
}

const minute = 60 * 1000 // in milliseconds

func checkAge(answer, check time.Time) uint16 {
	apart := floorMinute(answer) - floorMinute(check)
	return uint16(1 + min(max(apart, 0), maxCheckAge-1))
}

// checkedFor is the age of an answer's check at now, in milliseconds; false if it is not known.
func (b *Basis) checkedFor(answer, now time.Time) (int64, bool) {
	if b.CheckAge == 0 {
		return 0, false
	}
	at := answer.UnixMilli() // a check of the same minute counts as made with the answer
	if apart := int64(b.CheckAge - 1); apart > 0 {
		at = (floorMinute(answer) - apart + 1) * minute
	}
	return now.UnixMilli() - at, true
}

func floorMinute(t time.Time) int64 {
	ms := t.UnixMilli()
	if ms < 0 {
		ms -= minute - 1
	}
	return ms / minute
}

// The three bytes of a basis: check (3 bits), suspicion (2), times before (2), names-unknown (1); then learned (2) and the
// age of the check (14). All bits of the zero value are 0, as in cores without a basis.
func (b *Basis) put(dst []byte) {
	dst[0] = byte(b.Check) | byte(b.Suspicion)<<3 | b.Before<<5
	if b.NamesUnknown {
		dst[0] |= 1 << 7
	}
	binary.BigEndian.PutUint16(dst[1:], uint16(b.Learned)<<14|b.CheckAge)
}

func (b *Basis) read(src []byte) bool {
	word := binary.BigEndian.Uint16(src[1:])
	*b = Basis{Check: Check(src[0] & 7), Suspicion: Suspicion(src[0] >> 3 & 3), Before: src[0] >> 5 & 3, NamesUnknown: src[0]>>7 != 0,
		Learned: Learned(word >> 14), CheckAge: word & maxCheckAge}
	return b.Check <= CheckSameConnection && b.Suspicion <= SuspicionHigh && b.Learned <= LearnedNeighbour
}

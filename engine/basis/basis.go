package basis

import (
	"encoding/binary"
	"time"

	"probity/engine/control"
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

// Learned is what an attempt without an acceptance showed about the host.
type Learned uint8

// What was learned, from nothing to the most.
const (
	LearnedNothing   Learned = iota
	LearnedRefuses           // the host refuses a made-up recipient of this domain
	LearnedNeighbour         // the host accepted another recipient of this domain on the same connection
)

// Grounds is on what a refusal was read as about the mailbox. The zero value is not known, or no refusal.
type Grounds uint8

// The grounds, from the weakest to the strongest.
const (
	GroundsNone     Grounds = iota
	GroundsOne              // words without an enhanced code, or such a code without words
	GroundsBoth             // words and an enhanced code that agree (RFC 3463)
	GroundsProvider         // a rule of that provider
)

// Tally is how many recipients a host had answered in one way, by powers of two: 0, 1, 2 to 3, 4 to 15, 16 to 63, or
// more.
type Tally uint8

// TallyMost is the greatest Tally.
const TallyMost Tally = 5

// TallyOf returns the tally of n recipients.
func TallyOf(n uint8) Tally {
	switch {
	case n < 2:
		return Tally(n)
	case n < 4:
		return 2
	case n < 16:
		return 3
	case n < 64:
		return 4
	}
	return TallyMost
}

// Distance is how far apart, in answers of the host, a reply and its control are. The zero value is not known.
type Distance uint8

// The distances. Without a control it is the distance back to the last answer of the opposite kind.
const (
	DistanceUnknown Distance = iota
	Distance2                // at most 2 answers
	Distance8
	Distance32
	DistanceFar // more
)

// DistanceOf returns the distance of n answers; 0 answers are not known.
func DistanceOf(n uint16) Distance {
	switch {
	case n == 0:
		return DistanceUnknown
	case n <= 2:
		return Distance2
	case n <= 8:
		return Distance8
	case n <= 32:
		return Distance32
	}
	return DistanceFar
}

// Delay is how long a reply and its control are apart. The zero value is not known.
type Delay uint8

// The delays.
const (
	DelayUnknown Delay = iota
	Delay10s           // at most ten seconds
	Delay2min
	DelayLong // more
)

// DelayOf returns the delay of a known time.
func DelayOf(d time.Duration) Delay {
	switch {
	case d <= 10*time.Second:
		return Delay10s
	case d <= 2*time.Minute:
		return Delay2min
	}
	return DelayLong
}

// Limits of the numbers of a Basis.
const (
	MaxBefore   = 3
	MaxCheckAge = 1<<14 - 1 // eleven days; a catch-all fact lives seven
)

// Basis is what a score depends on. The core of a verdict keeps it exactly, so that the score can be computed whenever
// the verdict is shown. The zero value knows nothing.
type Basis struct {
	Check    Check
	Control  control.Kind // of an acceptance or of a refusal
	Distance Distance
	Delay    Delay
	Refused  Tally // recipients that the host had refused as unknown
	Accepted Tally // and accepted
	Grounds  Grounds
	Learned  Learned
	// Before is how often the same answer was seen before; an answer after greylisting counts as seen once more. Of an
	// UNKNOWN it is how often the address was deferred. At most MaxBefore.
	Before       uint8
	NamesUnknown bool // a temporary refusal whose text names an unknown user
	// CheckAge is 1 plus the minutes by which the check is older than the answer; 0 is not known. Both times are cut to
	// the minute first: so the minute of the check can be recovered, and a later answer never makes the check look
	// older.
	CheckAge uint16
}

// Size is the length in bytes of a stored basis.
const Size = 5

// Put writes b to the first Size bytes of dst: check (3 bits), control (3), times before (2); distance (3), delay (2),
// names-unknown (1), learned (2); grounds (2) and the age of the check (14); refused (3) and accepted (3).
func (b *Basis) Put(dst []byte) {
	_ = dst[Size-1]
	dst[0] = byte(b.Check) | byte(b.Control)<<3 | b.Before<<6
	dst[1] = byte(b.Distance) | byte(b.Delay)<<3 | byte(b.Learned)<<6
	if b.NamesUnknown {
		dst[1] |= 1 << 5
	}
	binary.BigEndian.PutUint16(dst[2:], uint16(b.Grounds)<<14|b.CheckAge)
	dst[4] = byte(b.Refused) | byte(b.Accepted)<<3
}

// Read reads what Put wrote, and reports whether the first Size bytes of src were that.
func (b *Basis) Read(src []byte) bool {
	word := binary.BigEndian.Uint16(src[2:])
	*b = Basis{
		Check: Check(src[0] & 7), Control: control.Kind(src[0] >> 3 & 7), Before: src[0] >> 6,
		Distance: Distance(src[1] & 7), Delay: Delay(src[1] >> 3 & 3), NamesUnknown: src[1]>>5&1 != 0,
		Learned: Learned(src[1] >> 6),
		Grounds: Grounds(word >> 14), CheckAge: word & MaxCheckAge,
		Refused: Tally(src[4] & 7), Accepted: Tally(src[4] >> 3 & 7),
	}
	return b.Check <= CheckSameConnection && b.Control <= control.AcceptedSameConnection && b.Distance <= DistanceFar &&
		b.Learned <= LearnedNeighbour && b.Refused <= TallyMost && b.Accepted <= TallyMost && src[4]>>6 == 0
}

const minute = 60 * 1000 // in milliseconds

// CheckAgeOf returns the CheckAge of a check and an answer at these times.
func CheckAgeOf(answer, check time.Time) uint16 {
	apart := floorMinute(answer) - floorMinute(check)
	return uint16(1 + min(max(apart, 0), MaxCheckAge-1))
}

// CheckedFor returns the age at now of the check of an answer, in milliseconds; false if it is not known.
func (b *Basis) CheckedFor(answer, now time.Time) (int64, bool) {
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

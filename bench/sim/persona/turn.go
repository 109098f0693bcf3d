package persona

import "time"

// Turn is how a host stops answering truthfully: after some answers it accepts every recipient, or refuses every one in
// the words that it has for unknown users.
type Turn struct {
	After   int           // counted answers that it gives before it turns; 0: it never turns
	Counts  TurnCount     // which answers count
	Scope   TurnScope     // whose answers count together, and who is misled
	For     time.Duration // how long it lies, before speed-up; 0: as long as the scope lasts
	Accepts bool          // it accepts every recipient; else it refuses every one with ReplyTurned
}

// TurnCount is the kind of answer that a host counts.
type TurnCount uint8

// The kinds of answer.
const (
	CountUnknown    TurnCount = iota // recipients refused as unknown
	CountAccepted                    // accepted recipients
	CountRecipients                  // all recipients
)

// TurnScope is whose answers a host counts together.
type TurnScope uint8

// The scopes.
const (
	ScopeSource      TurnScope = iota // one source at one operator's hosts
	ScopeEveryone                     // all sources
	ScopeConnection                   // one connection
	ScopeTransaction                  // one transaction
)

// BackEnds is what the host behind every second connection does differently.
type BackEnds uint8

// The kinds of back ends.
const (
	BackEndsAgree  BackEnds = iota
	OneAcceptsAll           // one accepts every recipient
	OneHasOldNames          // one has an old directory and refuses some mailboxes that exist
)

// RefusesName reports whether the host refuses a name whatever mailbox it has: by its look, or because the directory of
// the other of two back ends is old and lacks it. It does so for a third of all names.
func (b *Behaviour) RefusesName(name []byte, otherBackEnd bool) bool {
	if !b.RefusesByLook && (b.BackEnds != OneHasOldNames || !otherBackEnd) {
		return false
	}
	return len(name) > 0 && name[0]%3 == 0
}

package engine

import "time"

// Flags are what the lists say about one address. They follow each row's own string.
type Flags uint8

// The flags.
const (
	FlagDisposable Flags = 1 << iota
	FlagRole
	FlagFree
	FlagTypo // the domain is one edit from a great provider and in no provider or free list
)

// Has reports whether all of f are set.
func (fl Flags) Has(f Flags) bool { return fl&f == f }

// Subject is what a sighting is about.
type Subject uint8

// The subjects; the zero value is the session: connection, banner, EHLO, STARTTLS, MAIL.
const (
	SubjectSession Subject = iota
	SubjectTarget
	SubjectDecoy
)

// Event is the kind of thing that was seen.
type Event uint8

// The events. Only EventReply carries a Reply and a Finding.
const (
	EventReply         Event = iota
	EventConnectFailed       // refused, unreachable, reset before the banner
	EventTimeout             // a deadline of the session passed
	EventClosed              // the peer closed or reset in mid-session: what was pending was not answered
	EventOutOfStep           // the peer broke the protocol; nothing later on that connection is believed
	EventNoSMTPUTF8          // the address needs SMTPUTF8 (RFC 6531), the host does not offer it
	EventTLSFailed           // STARTTLS is required and failed
	EventNoAddress           // the host has no address that we may or can connect to
	EventHostServFail        // the address of the host could not be looked up
	EventRefusedHost         // the host's addresses are private, loopback or bogus
	EventSourceBlocked       // no egress identity may ask this provider now
	EventInternal            // we failed
)

// Sighting is one thing that was seen on the way to an address. Immutable.
type Sighting struct {
	Subject Subject
	Event   Event
	Host    string // MX host name
	Reply   Reply
	Finding Finding
	At      time.Time
	// Vouched says that this connection had accepted another recipient of the domain:
	// only then may a permanent reply that no rule knows mean that the mailbox is missing.
	Vouched bool
}

// Evidence is all that was seen about one address, append-only. The zero value has seen nothing.
type Evidence struct {
	Address   Address
	SyntaxBad bool // the address did not parse; Address is zero then
	Flags     Flags
	Route     Route
	Seen      []Sighting // at most MaxSightings
	Attempts  int        // attempts that ended in a deferral, before this one included
}

// MaxSightings bounds the evidence kept for one address; the oldest session sightings give way.
const MaxSightings = 32

// Append adds a sighting. When the evidence is full, the oldest sighting of a session is dropped;
// what was said of the target or a decoy is never dropped for a later session failure.
func (ev *Evidence) Append(s Sighting) {
	if len(ev.Seen) >= MaxSightings {
		ev.dropOldestSession()
	}
	if len(ev.Seen) < MaxSightings {
		ev.Seen = append(ev.Seen, s)
	}
}

func (ev *Evidence) dropOldestSession() {
	for i, s := range ev.Seen {
		if s.Subject == SubjectSession {
			ev.Seen = append(ev.Seen[:i:i], ev.Seen[i+1:]...)
			return
		}
	}
}

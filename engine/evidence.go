package engine

import (
	"slices"
	"time"

	"probity/engine/control"
)

// Flags are what the lists say about one address. Each row has its own. The bits are on disk and on the wire: add at
// the end only.
type Flags uint8

// The flags.
const (
	FlagDisposable Flags = 1 << iota
	FlagRole
	FlagFree
	FlagTypo  // the domain is one typo from a major provider and in no provider, free or alias list
	FlagAlias // an alias service: mail is forwarded to a mailbox elsewhere
	// FlagNoDomain is of an address that was not looked up: an earlier answer of the DNS, still cached, says that there
	// is no such domain.
	FlagNoDomain
)

// Has reports whether all of f are set.
func (fl Flags) Has(f Flags) bool { return fl&f == f }

// Subject is what a sighting is about.
type Subject uint8

// The subjects; the zero value is the session: connection, banner, EHLO, STARTTLS, MAIL. A target that got no answer is
// SubjectTarget with EventTimeout, EventClosed or EventOutOfStep: only the first of a connection.
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
	EventOutOfStep           // the peer broke the protocol; nothing later on that connection counts
	EventNoSMTPUTF8          // the address needs SMTPUTF8 (RFC 6531), the host does not offer it
	EventTLSFailed           // STARTTLS is required and failed
	EventNoAddress           // the host has no address record at all
	EventNoEgress            // the host has addresses only of a family that no egress source has
	EventHostServFail        // the address of the host could not be looked up
	EventRefusedHost         // the host's addresses are private, loopback or bogus
	EventSourceBlocked       // no egress source may probe this provider now
	EventInternal            // we failed
)

// Sighting is one thing that was seen while an address was verified. Immutable. Its fields, and those of Reply and
// Finding, are ordered to take the least memory: two sightings, a target and its decoy, are most of what a probe keeps.
type Sighting struct {
	Host    string // MX host name
	Reply   Reply
	Finding Finding
	At      time.Time
	Subject Subject
	Event   Event
	// NeighbourAccepted says that this connection had accepted another recipient of the domain before it gave a target
	// no clear answer.
	NeighbourAccepted bool
	// Controlled says that a decoy's refusal which proves nothing alone was controlled: see RefusesUnknown.
	Controlled bool
	// MaybeOurFault says that this failure may be on our side: other connections fail, too, or those to this receiver
	// did not fail before.
	MaybeOurFault bool
	// Conn is the number of the connection; 0 is not known, for example for a cached sighting.
	Conn uint32
}

// Witness is the reply to another recipient of the host that a verdict rests on: one that controls the answer (see
// package control), or what the made-up recipient of the domain got. Immutable: many probes share it.
type Witness struct {
	Sighting
	Local   string // part of the recipient's address, to be left out of what is shown; empty if not known
	Message string // the reply as it is shown; only in verdicts with details
	Source  string // egress source that was answered
}

// Evidence is all that was seen about one address, append-only. The zero value has seen nothing.
type Evidence struct {
	Address   Address
	SyntaxBad bool // the address did not parse; Address is zero then
	Flags     Flags
	Control   control.Control // of the target's last reply
	Witness   *Witness        // of the same; nil if it stands alone
	Earlier   Earlier         // a kept answer, if any
	Route     *Route          // shared, never changed; nil before the lookup
	Seen      []Sighting      // at most MaxSightings
	Attempts  int             // attempts before this one that ended in a deferral; Seen holds the current attempt
}

// MaxSightings bounds the evidence kept for one address; the oldest session sightings are dropped.
const MaxSightings = 32

// Append adds a sighting. When the evidence is full, the oldest sighting of a session is dropped, never one of the
// target or a decoy.
func (ev *Evidence) Append(s Sighting) {
	if len(ev.Seen) >= MaxSightings {
		for i := range ev.Seen {
			if ev.Seen[i].Subject == SubjectSession {
				ev.Seen = append(ev.Seen[:i:i], ev.Seen[i+1:]...)
				break
			}
		}
	}
	if ev.Seen == nil {
		ev.Seen = make([]Sighting, 0, 2) // a target and its decoy
	}
	if len(ev.Seen) < MaxSightings {
		ev.Seen = append(ev.Seen, s)
	}
}

// PrependCheck puts a decoy's sighting from before the attempt first, unless the attempt probed a decoy at that host.
func (ev *Evidence) PrependCheck(s Sighting) {
	if len(ev.Seen) < MaxSightings && !ev.decoyAsked(s.Host) {
		ev.Seen = slices.Insert(ev.Seen, 0, s)
	}
}

// LacksChecks reports whether catch-all checks from before the attempt would add to the evidence: true unless the host
// that accepted the target was checked. except is that host, of which no earlier check may be added: whether to use one
// for the acceptance was decided when the acceptance arrived.
func (ev *Evidence) LacksChecks() (except string, lacks bool) {
	target, ok := ev.answer(SubjectTarget, "")
	if !ok || target.Finding.Meaning != Accepted {
		return "", true
	}
	return target.Host, ev.catchAll(target.Host) == NotKnown
}

// answer is the last reply about a subject, at the given host or, when host is empty, at any. The pointer is into the
// evidence.
func (ev *Evidence) answer(about Subject, host string) (*Sighting, bool) {
	for i := len(ev.Seen) - 1; i >= 0; i-- {
		s := &ev.Seen[i]
		if s.Subject == about && s.Event == EventReply && (host == "" || s.Host == host) {
			return s, true
		}
	}
	return nil, false
}

// decoyAsked reports whether a decoy was sent to host, answered or not.
func (ev *Evidence) decoyAsked(host string) bool {
	for i := range ev.Seen {
		if ev.Seen[i].Subject == SubjectDecoy && ev.Seen[i].Host == host {
			return true
		}
	}
	return false
}

// unansweredTarget is the host at which the target was last sent without an answer, and how heavily that weighs.
func (ev *Evidence) unansweredTarget() (host string, weight int) {
	for i := range ev.Seen {
		s := &ev.Seen[i]
		if s.Subject != SubjectTarget || s.Event == EventReply {
			continue
		}
		host = s.Host
		weight++
		if s.Event == EventTimeout {
			weight++
		}
	}
	return host, weight
}

// failed reports whether a session with host failed before any recipient was named.
func (ev *Evidence) failed(host string) bool {
	for i := range ev.Seen {
		s := &ev.Seen[i]
		if s.Subject == SubjectSession && s.Host == host && !s.succeeded() {
			return true
		}
	}
	return false
}

// maybeOurFault reports whether ev may be on our side.
func (ev *Evidence) maybeOurFault() bool {
	for i := range ev.Seen {
		if ev.Seen[i].MaybeOurFault {
			return true
		}
	}
	return false
}

// hasNoAddress reports whether host has no address that mail could go to.
func (ev *Evidence) hasNoAddress(host string) bool {
	for i := range ev.Seen {
		s := &ev.Seen[i]
		if s.Host == host && (s.Event == EventNoAddress || s.Event == EventRefusedHost) {
			return true
		}
	}
	return false
}

func (ev *Evidence) has(e Event) bool {
	for i := range ev.Seen {
		if ev.Seen[i].Event == e {
			return true
		}
	}
	return false
}

// RefusesUnknown reports whether a reply to a decoy shows that the host refuses unknown recipients. One that would
// condemn a target does. Two others must be controlled: a permanent one that no rule matches, by a recipient that the
// connection accepted after it, and a temporary one that names an unknown user, by being given twice, a retry apart:
// the first may be greylisting. (Postfix, ADDRESS_VERIFICATION_README: unverified_recipient_reject_code is 450 by
// default.)
func (s *Sighting) RefusesUnknown() bool {
	return s.Condemns() || s.Controlled && (s.NamesUnknown() ||
		s.Reply.Permanent() && s.Finding.Meaning == MeaningUnknown)
}

// Condemns reports whether s is a reply that makes a target INVALID: permanent, to RCPT, about the recipient. What the
// same connection accepted before is no evidence for another reading of a reply that no rule matches: it may be one
// person's refusal of us, a closed group, a full or a busy mailbox.
func (s *Sighting) Condemns() bool {
	f := s.Finding
	return s.Reply.Stage == StageRcpt && s.Reply.Permanent() && f.Blame == BlameRecipient &&
		(f.Meaning == NoMailbox || f.Meaning == MailboxDisabled)
}

// NamesUnknown reports whether s names an unknown user.
func (s *Sighting) NamesUnknown() bool { return s.Finding.NamesUnknown && !s.Reply.Permanent() }

func (s *Sighting) succeeded() bool {
	return s.Event == EventReply && s.Reply.Code < 400 && s.Reply.Code >= 200
}

// sessionFailure is the failure that explains most when no host answered about the target.
func (ev *Evidence) sessionFailure() (best *Sighting, ok bool) {
	rank := -1
	for i := range ev.Seen {
		s := &ev.Seen[i]
		if s.Subject == SubjectDecoy || s.succeeded() {
			continue
		}
		if r := failureRank(s); r >= rank {
			best, rank = s, r
		}
	}
	return best, rank >= 0
}

// failureRank orders failures by how much they explain: a reply before a timeout, a timeout before a failed connection.
func failureRank(s *Sighting) int {
	switch s.Event {
	case EventReply:
		if s.Deferred() {
			return 7
		}
		return 9
	case EventSourceBlocked:
		return 10
	case EventNoSMTPUTF8: // it is final, whatever another host deferred
		return 8
	case EventHostServFail:
		return 6
	case EventOutOfStep:
		return 5
	case EventTimeout:
		return 4
	case EventClosed, EventTLSFailed, EventConnectFailed, EventNoEgress:
		return 3
	case EventInternal:
		return 2
	}
	return 1
}

var eventNames = [...]string{"reply", "connect-failed", "timeout", "closed", "out-of-step", "no-smtputf8", "tls-failed",
	"no-address",
	"no-egress", "host-servfail", "refused-host", "source-blocked", "internal"}

func (e Event) String() string { return nameOf(eventNames[:], uint8(e)) }

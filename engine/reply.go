package engine

import (
	"slices"
	"strings"
)

// Stage is the point of an SMTP session at which a reply arrived (RFC 5321 section 3).
// The zero value is the TCP connection itself.
type Stage uint8

// The stages in the order of a session.
const (
	StageConnect Stage = iota
	StageBanner
	StageEHLO
	StageTLS
	StageMail
	StageRcpt
	StageReset
	StageQuit
	// StageSession is a reply known to be about the session as a whole, exact point unknown.
	StageSession
)

var stageNames = [...]string{"connect", "banner", "ehlo", "starttls", "mail", "rcpt", "rset", "quit", "session"}

func (s Stage) String() string { return nameOf(stageNames[:], uint8(s)) }

// StageNames are the names that StageNamed knows, in the order of a session.
func StageNames() []string { return slices.Clone(stageNames[:]) }

// StageNamed is the stage of that name.
func StageNamed(name string) (Stage, bool) {
	i := slices.Index(stageNames[:], name)
	return Stage(max(i, 0)), i >= 0
}

// Enhanced is an enhanced status code (RFC 3463); the zero value means that the reply had none.
type Enhanced struct{ Class, Subject, Detail uint16 }

// Reply is one SMTP reply as received. Lines hold the text after the code and its separator,
// an enhanced code included as sent. Code is 200 to 599.
type Reply struct {
	Lines    []string
	Code     int
	Enhanced Enhanced
	Stage    Stage
}

// Text joins the lines of a reply with one space.
func (r Reply) Text() string {
	if len(r.Lines) == 1 {
		return r.Lines[0]
	}
	return strings.Join(r.Lines, " ")
}

// Positive reports whether r is a 2xx reply.
func (r Reply) Positive() bool { return r.Code/100 == 2 }

// Permanent reports whether r is a 5xx reply.
func (r Reply) Permanent() bool { return r.Code/100 == 5 }

// Meaning is what a reply means, from its stage, provider, code and text.
type Meaning uint8

// The meanings; the zero value claims nothing.
const (
	MeaningUnknown Meaning = iota
	Accepted
	NoMailbox
	MailboxFull
	MailboxDisabled
	Greylisted
	RateLimited
	Blocked
	SenderRefused
	PolicyRefused
	RelayDenied
	Temporary
	SyntaxRefused
	ProtocolFault
)

var meaningNames = [...]string{"unknown", "accepted", "no_mailbox", "mailbox_full", "mailbox_disabled", "greylisted",
	"rate_limited", "blocked", "sender_refused", "policy", "relay_denied", "temporary", "syntax", "protocol"}

func (m Meaning) String() string { return nameOf(meaningNames[:], uint8(m)) }

// Blame says whose fault a refusal is. Only BlameRecipient may condemn an address.
type Blame uint8

// The blames; the zero value is for replies that refuse nothing.
const (
	BlameNone Blame = iota
	BlameUs
	BlameNetwork
	BlameSite
	BlameRecipient
)

var blameNames = [...]string{"none", "us", "network", "site", "recipient"}

func (b Blame) String() string { return nameOf(blameNames[:], uint8(b)) }

// Finding is what one reply means, whose fault it is, which rule says so,
// and what the ready queue that got it must do.
type Finding struct {
	Rule    string // id of the rule, e.g. "google/no-such-user" or "generic/5.1.1"
	Action  Action
	Meaning Meaning
	Blame   Blame
	// NamesUnknown marks a temporary refusal whose text names an unknown user (450 4.1.1).
	NamesUnknown bool
}

// SenderIdentity is what a reply may quote of us: evidence that it is about the sender, not the recipient.
type SenderIdentity struct {
	MailFrom string   // reverse-path, empty for <>
	EHLO     string   // the name given in EHLO
	Sources  []string // our addresses as the receiver sees them
	// Local is the local part of the recipient that the reply answers; empty if it answers none. Its words are not the
	// server's: "monday: no such user" says nothing of Monday.
	Local string
}

// To is the identity in a reply to the recipient with this local part.
func (s SenderIdentity) To(local string) SenderIdentity {
	s.Local = local
	return s
}

func nameOf(names []string, i uint8) string {
	if int(i) < len(names) {
		return names[i]
	}
	return "invalid"
}

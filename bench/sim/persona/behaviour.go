package persona

import "time"

// Behaviour is how a persona's hosts behave: data for the server.
type Behaviour struct {
	texts      texts            // its replies; defaults fill the gaps
	replies    *compiledReplies // the same, compiled
	Extensions Extension

	BannerWait      time.Duration // before the banner
	RcptWait        time.Duration // before each RCPT reply
	RefuseEarlyTalk bool          // refuse a client that talks during BannerWait

	AcceptsAll  bool                // accepts every recipient of its domains
	AcceptsMost bool                // accepts every recipient but the disabled and the full
	hides       [MailboxStates]bool // states that it does not reveal: see Shown
	becomes     Mailbox             // if not Absent: the state of a Present mailbox here

	Greylisting GreyKind
	GreyWait    time.Duration // from first contact until it accepts

	MaxRcpts      int  // recipients in one transaction before ReplyTooManyRcpts; no excess
	OneDomainOnly bool // recipients of one transaction must share their domain

	RequireTLS       bool // 530 before STARTTLS
	BrokenTLS        bool // offers STARTTLS, then fails the handshake
	RefuseNullSender bool // refuses MAIL FROM:<>
	PrimaryBusy      bool // the first MX host refuses every client with 421
	RefuseAt         Stage
	Fault            Fault
	FaultDelay       time.Duration // before the second reply of FaultGreetsTwice and the like
	ThrottleMode     ThrottleMode  // past RefusalsPerHour
	HiddenLimits     HiddenLimits

	Turn          Turn
	BackEnds      BackEnds
	RefusesByLook bool // refuses some names as unknown, whether a mailbox exists or not
}

// Shown is the state that the persona reveals to a client. A hidden full mailbox
// is shown as accepted, a hidden disabled or moved one as unknown.
func (b *Behaviour) Shown(m Mailbox) Mailbox {
	if m == Present && b.becomes != Absent {
		m = b.becomes
	}
	if !b.hides[m] {
		return m
	}
	if m == Full {
		return Present
	}
	return Absent
}

// Keywords are the extensions of the EHLO reply; secure is true under TLS.
func (b *Behaviour) Keywords(secure bool) []string {
	var words []string
	for _, e := range []struct {
		bit  Extension
		word string
	}{
		{ExtSize, "SIZE 52428800"}, {Ext8BitMIME, "8BITMIME"}, {ExtStartTLS, "STARTTLS"},
		{ExtEnhanced, "ENHANCEDSTATUSCODES"}, {ExtPipelining, "PIPELINING"}, {ExtChunking, "CHUNKING"},
		{ExtUTF8, "SMTPUTF8"},
	} {
		// RFC 3207 section 4.2: not offered again under TLS.
		if b.Extensions&e.bit != 0 && (e.bit != ExtStartTLS || !secure) {
			words = append(words, e.word)
		}
	}
	return words
}

// Extension is a set of SMTP extensions.
type Extension uint8

// The extensions.
const (
	ExtPipelining Extension = 1 << iota
	Ext8BitMIME
	ExtSize
	ExtEnhanced
	ExtStartTLS
	ExtUTF8
	ExtChunking
)

// GreyKind is what a greylisting host remembers of the first contact.
type GreyKind uint8

// The kinds of greylisting.
const (
	GreyNone    GreyKind = iota
	GreyTriple           // remembers source, sender and recipient
	GreyAddress          // remembers the recipient only
	GreySource           // remembers source and sender, for any recipient
)

// Stage is where in the dialogue a host refuses every client.
type Stage uint8

// The stages.
const (
	StageNone   Stage = iota
	StageBanner       // every client is refused at the banner
	StageMail         // at MAIL FROM
	StageRcpt         // at RCPT TO
)

// Fault is how a host breaks the protocol.
type Fault uint8

// The faults.
const (
	FaultNone         Fault = iota
	FaultGarbage            // bytes that are no SMTP reply
	FaultEndless            // a banner whose continuation lines never end
	FaultExtraReply         // one reply more than there were commands
	FaultMidClose           // closes instead of the third recipient's reply
	FaultReset              // resets the connection at RCPT
	FaultSilent             // banner and EHLO, then nothing
	FaultUnresponsive       // not even a banner
	FaultGreetsTwice        // a second banner, in a segment of its own
	FaultEhloTwice          // a second reply to EHLO, in a segment of its own
	FaultMailTwice          // a second reply to MAIL, in a segment of its own
)

// ThrottleMode is what a host does past RefusalsPerHour.
type ThrottleMode uint8

// The modes.
const (
	ThrottleBlock     ThrottleMode = iota // says that it blocks
	ThrottleAcceptAll                     // says so five times, then accepts every recipient
)

package sim

import "time"

// Mailbox is the true state of one address, whatever its server says.
type Mailbox uint8

const (
	Absent   Mailbox = iota // no such mailbox
	Present                 // exists and takes mail
	Full                    // exists, over its quota
	Disabled                // existed, disabled by its owner or the site
	Moved                   // lives elsewhere now (RFC 5321 section 3.4)
	mailboxStates
)

// Outcome is one answer that an honest verifier may give. Reason is "" when the
// status is VALID.
type Outcome struct{ Status, Reason string }

// Limits is what a persona tolerates from one source address, summed over one
// cluster of its hosts: all hosts of a provider, or one address of any other
// site. Figures in real time, before speed-up; 0 is no limit.
type Limits struct {
	Connections               int // open at one time
	ConnectionsPerMinute      int
	RcptsPerMinute            int
	RcptsPerTransaction       int
	RcptsPerConnection        int
	TransactionsPerConnection int
	RefusalsPerConnection     int // permanent refusals of a recipient
	RefusalsPerHour           int
}

// Persona is one kind of receiver: its domains in the DNS, the behaviour of its
// hosts, their limits, and the honest outcomes for its mailboxes. Read-only once
// made; two worlds never share one.
type Persona struct {
	Name     string // kebab-case, stable
	Provider string // id in the provider table; "" for a self-hosted server
	Oddity   Oddity
	Limits   Limits
	SMTPUTF8 bool // takes addresses with non-ASCII local parts
	Slow     bool // answers after long waits or never: must be very rare in lists
	// OneRoute means that every domain of the persona has the same MX hosts. It
	// is set for personas that refuse as blocklists do, because a verifier that
	// sees such refusals on several routes must stop everywhere.
	OneRoute bool

	hosts     func(domain string) []string
	expect    func(shown Mailbox) []Outcome
	behaviour behaviour
}

// MXHosts lists the MX host names of one of the persona's domains, best first;
// lower case, no final dot. Empty when the persona has no MX record.
func (p *Persona) MXHosts(domain string) []string {
	if p.hosts == nil {
		return nil
	}
	return p.hosts(domain)
}

// Expect lists the outcomes that an honest verifier may give for a mailbox in
// state m: usually one. Truth adds the effect of lists and role names.
func (p *Persona) Expect(m Mailbox) []Outcome { return p.expect(p.behaviour.shown(m)) }

// All makes the personas of a world without throttlers, in a fixed order.
func All() []*Persona {
	var all []*Persona
	for _, group := range [][]*Persona{
		majorProviders(), gateways(), regionalProviders(),
		mailServers(), policyServers(), refusingServers(), brokenServers(), oddRoutes(),
	} {
		all = append(all, group...)
	}
	return withReplies(all)
}

// Throttlers makes the receivers that tolerate a source at first and throttle it later. Each answers truthfully to a client that
// slows down.
func Throttlers() []*Persona { return withReplies(throttlers()) }

// withReplies compiles the texts of personas.
func withReplies(all []*Persona) []*Persona {
	for _, p := range all {
		p.behaviour.replies = compileReplies(p.behaviour.texts)
	}
	return all
}

// behaviour is how a persona's hosts behave: data for the server.
type behaviour struct {
	texts      texts            // its replies; defaults fill the gaps
	replies    *compiledReplies // the same, compiled
	extensions extension

	bannerWait      time.Duration // before the banner
	rcptWait        time.Duration // before each RCPT reply
	refuseEarlyTalk bool          // refuse a client that talks during bannerWait

	acceptsAll  bool                // accepts every recipient of its domains
	acceptsMost bool                // accepts every recipient but the disabled and the full
	hides       [mailboxStates]bool // states that it does not reveal: see shown
	becomes     Mailbox             // if not Absent: the state of a Present mailbox here

	greylisting greyKind
	greyWait    time.Duration // from first contact until it accepts

	maxRcpts      int  // recipients in one transaction before replyTooManyRcpts; no excess
	oneDomainOnly bool // recipients of one transaction must share their domain

	requireTLS       bool // 530 before STARTTLS
	brokenTLS        bool // offers STARTTLS, then fails the handshake
	refuseNullSender bool // refuses MAIL FROM:<>
	primaryBusy      bool // the first MX host refuses every client with 421
	refuseAt         stage
	fault            fault
	throttleMode     throttleMode // past RefusalsPerHour
	hiddenLimits     hiddenLimits
}

// shown is the state that the persona reveals to a client. A hidden full mailbox
// is shown as accepted, a hidden disabled or moved one as unknown.
func (b *behaviour) shown(m Mailbox) Mailbox {
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

// keywords are the extensions of the EHLO reply; secure is true under TLS.
func (b *behaviour) keywords(secure bool) []string {
	var words []string
	for _, e := range []struct {
		bit  extension
		word string
	}{
		{extSize, "SIZE 52428800"}, {ext8BitMIME, "8BITMIME"}, {extStartTLS, "STARTTLS"},
		{extEnhanced, "ENHANCEDSTATUSCODES"}, {extPipelining, "PIPELINING"}, {extChunking, "CHUNKING"}, {extUTF8, "SMTPUTF8"},
	} {
		// RFC 3207 section 4.2: not offered again under TLS.
		if b.extensions&e.bit != 0 && (e.bit != extStartTLS || !secure) {
			words = append(words, e.word)
		}
	}
	return words
}

type (
	extension    uint8
	greyKind     uint8
	stage        uint8
	fault        uint8
	throttleMode uint8
)

const (
	extPipelining extension = 1 << iota
	ext8BitMIME
	extSize
	extEnhanced
	extStartTLS
	extUTF8
	extChunking
)

const (
	greyNone    greyKind = iota
	greyTriple           // remembers source, sender and recipient
	greyAddress          // remembers the recipient only
	greySource           // remembers source and sender, for any recipient
)

const (
	stageNone   stage = iota
	stageBanner       // every client is refused at the banner
	stageMail         // at MAIL FROM
	stageRcpt         // at RCPT TO
)

const (
	faultNone         fault = iota
	faultGarbage            // bytes that are no SMTP reply
	faultEndless            // a banner whose continuation lines never end
	faultExtraReply         // one reply more than there were commands
	faultMidClose           // closes instead of the third recipient's reply
	faultReset              // resets the connection at RCPT
	faultSilent             // banner and EHLO, then nothing
	faultUnresponsive       // not even a banner
)

const (
	throttleBlock     throttleMode = iota // says that it blocks
	throttleAcceptAll                     // says so five times, then accepts every recipient
)

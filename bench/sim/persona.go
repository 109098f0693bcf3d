package sim

import "time"

// Mailbox is what is true of one address, whatever its server says about it.
type Mailbox uint8

const (
	Absent   Mailbox = iota // no such mailbox
	Present                 // exists and takes mail
	Full                    // exists, over its quota
	Disabled                // existed, switched off by its owner or the site
	Moved                   // lives elsewhere now (RFC 5321 section 3.4)
	mailboxes
)

// Outcome is one answer that an honest verifier may give. Reason is "" when the
// status is VALID.
type Outcome struct{ Status, Reason string }

// Limits is what a persona tolerates from one source address, summed over one
// cluster of its hosts: all hosts of a provider, one address of any other
// site. Real-time figures, before speed-up; 0 is no limit.
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

// Persona is one kind of receiver: how its domains look in the DNS, how its
// hosts speak, what they tolerate, and what may honestly be said about its
// mailboxes. Read-only once made; two worlds never share one.
type Persona struct {
	Name     string // kebab-case, stable
	Provider string // id in the provider table; "" for a self-hosted server
	Oddity   Oddity
	Limits   Limits
	SMTPUTF8 bool // takes addresses with non-ASCII local parts
	Slow     bool // answers only after long waits or never: keep it very rare in lists
	// OneRoute means that every domain of the persona has the same MX hosts. It
	// is so for the ones that answer as blocklists do, because a verifier that
	// meets such refusals on several routes must stop altogether.
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

// Expect lists every outcome that an honest verifier may give for a mailbox in
// state m: usually one. Lists and role names are the world's business.
func (p *Persona) Expect(m Mailbox) []Outcome { return p.expect(p.behaviour.shown(m)) }

// Personas makes the whole table of a world without throttlers, in a fixed order.
func Personas() []*Persona { return personas(false) }

func personas(throttling bool) []*Persona {
	var all []*Persona
	for _, group := range [][]*Persona{
		majorProviders(), gateways(), regionalProviders(),
		mailServers(), policyServers(), refusingServers(), brokenServers(), oddRoutes(),
	} {
		all = append(all, group...)
	}
	if throttling {
		all = append(all, throttlers()...)
	}
	for _, p := range all {
		p.behaviour.replies = compileReplies(p.behaviour.texts)
	}
	return all
}

// behaviour is how a persona's hosts speak: data for the session to follow.
type behaviour struct {
	texts   texts            // what it says; defaults fill the gaps
	replies *compiledReplies // the same, compiled
	ext     extension

	bannerWait      time.Duration // before the banner
	rcptWait        time.Duration // before each RCPT reply
	refuseEarlyTalk bool          // refuse a client that talks during bannerWait

	acceptsAll  bool            // accepts every recipient of its domains
	acceptsMost bool            // so does this one, save the disabled and the full
	hides       [mailboxes]bool // states that it does not tell: see shown
	becomes     Mailbox         // when not Absent: what a Present mailbox is here

	grey     greyKind
	greyWait time.Duration // from first contact until it accepts

	maxRcpts      int  // recipients in one transaction before replyTooManyRcpts; no excess
	oneDomainOnly bool // recipients of one transaction must share their domain

	requireTLS       bool // 530 before STARTTLS
	brokenTLS        bool // offers STARTTLS, then fails the handshake
	refuseNullSender bool // refuses MAIL FROM:<>
	primaryBusy      bool // the first MX host turns everyone away with 421
	refuseAt         stage
	fault            fault
	throttleMode     throttleMode // past RefusalsPerHour
	hiddenLimits     hiddenLimits
}

// shown is the state that the persona lets a client see: sites that do not
// tell a full mailbox accept it, and sites that do not tell a disabled or moved
// one call it unknown.
func (h *behaviour) shown(m Mailbox) Mailbox {
	if m == Present && h.becomes != Absent {
		m = h.becomes
	}
	if !h.hides[m] {
		return m
	}
	if m == Full {
		return Present
	}
	return Absent
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
	greySource           // remembers source and sender, whichever the recipient is
)

const (
	stageNone   stage = iota
	stageBanner       // everyone is refused at the banner
	stageMail         // at MAIL FROM
	stageRcpt         // at RCPT TO
)

const (
	faultNone         fault = iota
	faultGarbage            // bytes that are no SMTP reply
	faultEndless            // a banner whose continuation lines never end
	faultExtraReply         // one reply more than there were commands
	faultMidClose           // closes in place of the third recipient's reply
	faultReset              // resets the connection at RCPT
	faultSilent             // banner and EHLO, then nothing
	faultUnresponsive       // not even a banner
)

const (
	throttleBlock     throttleMode = iota // says that it is a block
	throttleAcceptAll                     // says so five times, then accepts silently
)

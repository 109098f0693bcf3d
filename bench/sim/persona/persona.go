package persona

// Mailbox is the true state of one address, whatever its server says.
type Mailbox uint8

const (
	Absent        Mailbox = iota // no such mailbox
	Present                      // exists and takes mail
	Full                         // exists, over its quota
	Disabled                     // existed, disabled by its owner or the site
	Moved                        // lives elsewhere now (RFC 5321 section 3.4)
	MailboxStates                // how many states there are
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
	// Of a hostile persona: what its replies do, in a few words; why no verifier can tell, empty for all others; and
	// how many domains its hosts serve, 0 for one.
	Deceit, Exempt string
	DomainCount    int

	hosts     func(domain string) []string
	expect    func(shown Mailbox) []Outcome
	Behaviour Behaviour
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
func (p *Persona) Expect(m Mailbox) []Outcome { return p.expect(p.Behaviour.Shown(m)) }

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

// Throttlers makes the receivers that tolerate a source at first and throttle it later. Each answers truthfully to a
// client that slows down.
func Throttlers() []*Persona { return withReplies(throttlers()) }

// withReplies compiles the texts of personas.
func withReplies(all []*Persona) []*Persona {
	for _, p := range all {
		p.Behaviour.replies = compileReplies(p.Behaviour.texts)
	}
	return all
}

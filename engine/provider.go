package engine

import "time"

// Limits are the budgets of one egress source towards one route. Zero means no limit.
type Limits struct {
	Connections               int `toml:"connections"`                 // open at one time
	ConnectionsPerMinute      int `toml:"connections_per_minute"`      // opened in any minute
	RecipientsPerMinute       int `toml:"recipients_per_minute"`       // RCPT commands in any minute
	RecipientsPerTransaction  int `toml:"recipients_per_transaction"`  // RCPT commands between MAIL and RSET
	RecipientsPerConnection   int `toml:"recipients_per_connection"`   // RCPT commands of one connection
	TransactionsPerConnection int `toml:"transactions_per_connection"` // MAIL commands of one connection
	// refused recipients of one connection, decoys counted
	RefusalsPerConnection int `toml:"refusals_per_connection"`
	RefusalsPerHour       int `toml:"refusals_per_hour"` // refused recipients in any hour, decoys counted
}

// each visits all limits with their names.
func (l *Limits) each(visit func(name string, value int)) {
	visit("connections", l.Connections)
	visit("connections_per_minute", l.ConnectionsPerMinute)
	visit("recipients_per_minute", l.RecipientsPerMinute)
	visit("recipients_per_transaction", l.RecipientsPerTransaction)
	visit("recipients_per_connection", l.RecipientsPerConnection)
	visit("transactions_per_connection", l.TransactionsPerConnection)
	visit("refusals_per_connection", l.RefusalsPerConnection)
	visit("refusals_per_hour", l.RefusalsPerHour)
}

// TLSPolicy says when STARTTLS is used towards a provider (RFC 3207).
type TLSPolicy uint8

// The policies; the zero value uses TLS when it is offered and goes on without it when it fails.
const (
	TLSOpportunistic TLSPolicy = iota
	TLSRequired
	TLSNever
)

var tlsNames = [...]string{"opportunistic", "required", "never"}

func (p TLSPolicy) String() string { return nameOf(tlsNames[:], uint8(p)) }

// Kind says how the egress sources of a fleet share a provider.
type Kind uint8

// The kinds; the zero value is the strictest.
const (
	KindNarrow Kind = iota // one source probes: its limits are those of the whole fleet
	KindWide               // very large: domains, or addresses, are spread over all sources; each keeps to the limits
	// shared by domains: they are spread, each stays at its source; each source keeps to the limits
	KindTenants
)

var providerKinds = [...]string{"narrow", "wide", "tenants"}

func (k Kind) String() string { return nameOf(providerKinds[:], uint8(k)) }

// ActionKind is what a ready queue does after a reply.
type ActionKind uint8

// The actions, mildest first.
const (
	ActionNone  ActionKind = iota
	ActionSlow             // half the rate for a time
	ActionPause            // nothing new on this queue for a time
	ActionClose            // close this connection; with a duration the queue pauses as well
	// ActionQuarantine stops probing this provider from this source for a time.
	ActionQuarantine
	// ActionQuarantineEverywhere is a quarantine here and a report that the source is blocklisted: one receiver may be
	// wrong, so the source is quarantined at every provider once three routes have reported it.
	ActionQuarantineEverywhere
)

var actionNames = [...]string{"none", "slow", "pause", "close", "quarantine", "quarantine_everywhere"}

func (k ActionKind) String() string { return nameOf(actionNames[:], uint8(k)) }

// Action is an action and how long it lasts; zero for an action without a duration.
type Action struct {
	Kind ActionKind
	For  time.Duration
}

// Provider is one row of the provider table: how a receiver is recognised, its limits and its reply rules.
// It is immutable once its Table is made.
type Provider struct {
	ID      string   // stable, kebab-case: "google"
	Name    string   // shown as smtp_provider: "Google"
	MX      []string // host-name suffixes with a leading dot; without the dot a whole host name
	Aliases []string // other common names, lower-case: "gmail"
	Kind    Kind     // how the sources of a fleet share it
	// ByAddress names the consumer domains of a wide provider that are spread by address.
	ByAddress []string
	// FleetSources is how many sources at most probe a wide provider, or one with tenants, at one time; 0 is no limit.
	FleetSources int
	AcceptAll    bool // accepts any recipient at RCPT: an acceptance proves nothing
	Probe        bool // false: never probe this receiver
	Parking      bool // parked domains: mail is not read, accepted or not
	// AcceptsSilently says that after many unknown recipients it accepts every recipient for a while, without checking.
	AcceptsSilently bool
	// BlocksAsUnknown says that after some recipients it refuses every recipient for a while in the words of an unknown
	// user.
	BlocksAsUnknown bool
	OneDomain       bool // refuses several recipient domains in one transaction
	TLS             TLSPolicy
	Limits          Limits
	Mailbox         *MailboxRule // local-part rules of the provider's consumer domains, nil where unknown
	Rules           []Rule       // reply rules, tried in order before the generic ones
	Source          string       // where the data comes from
	Date            string       // when it was added to the table, YYYY-MM-DD
	Terms           string       // what the receiver's terms say about probing, if known
	TermsForbid     bool         // the terms forbid address verification
	TermsSource     string       // where the terms say so

	plainRules []*Rule // rules without phrases, best first
	hash       [8]byte // of the table it belongs to
}

// Table is the hash of the provider's table; zero for a provider without one.
func (p *Provider) Table() [8]byte { return p.hash }

// Shared reports whether p is a provider that several sources of a fleet probe at one time.
func (p *Provider) Shared() bool { return p.Kind != KindNarrow }

// Sources returns how many of a fleet's sources probe the provider.
func (p *Provider) Sources(fleet int) int {
	switch {
	case !p.Shared():
		return min(fleet, 1)
	case p.FleetSources > 0:
		return min(fleet, p.FleetSources)
	}
	return fleet
}

package engine

import "time"

// Limits are the budgets that one egress identity keeps towards one route. Zero means no limit.
type Limits struct {
	Connections               int `toml:"connections"`                 // open at one time
	ConnectionsPerMinute      int `toml:"connections_per_minute"`      // opened in any minute
	RecipientsPerMinute       int `toml:"recipients_per_minute"`       // RCPT commands in any minute
	RecipientsPerTransaction  int `toml:"recipients_per_transaction"`  // RCPT commands between MAIL and RSET
	RecipientsPerConnection   int `toml:"recipients_per_connection"`   // RCPT commands of one connection
	TransactionsPerConnection int `toml:"transactions_per_connection"` // MAIL commands of one connection
	RefusalsPerConnection     int `toml:"refusals_per_connection"`     // refused recipients of one connection, decoys counted
	RefusalsPerHour           int `toml:"refusals_per_hour"`           // refused recipients in any hour, decoys counted
}

// TLSPolicy says when STARTTLS is used towards a provider (RFC 3207).
type TLSPolicy uint8

// The policies; the zero value uses TLS when it is offered and goes on without it when it fails.
const (
	TLSOpportunistic TLSPolicy = iota
	TLSRequired
	TLSNever
)

// ActionKind is what a lane does on meeting a reply.
type ActionKind uint8

// The actions, mildest first.
const (
	ActionNone ActionKind = iota
	ActionSlow
	ActionPause
	ActionClose
	ActionQuarantine           // this source at this provider
	ActionQuarantineEverywhere // this source at every provider
)

var actionNames = [...]string{"none", "slow", "pause", "close", "quarantine", "quarantine_everywhere"}

func (k ActionKind) String() string { return nameOf(actionNames[:], uint8(k)) }

// Action is an action and how long it lasts; zero duration where time has no meaning for it.
type Action struct {
	Kind ActionKind
	For  time.Duration
}

// Provider is one row of the provider table: how a receiver is recognised, what it tolerates, how it answers.
// It is immutable once its Table is made.
type Provider struct {
	ID   string   // stable, kebab-case: "google"
	Name string   // shown as smtp_provider: "Google"
	MX   []string // host-name suffixes, with their leading dot
	// Wide providers are spread over all egress identities by domain; ByAddress names the consumer domains spread by address.
	Wide      bool
	ByAddress []string
	AcceptAll bool // accepts any recipient at RCPT: an acceptance proves nothing
	Probe     bool // false: never ask this receiver
	Parking   bool // parked domains: accepts or not, nobody reads
	OneDomain bool // refuses several recipient domains in one transaction
	TLS       TLSPolicy
	Limits    Limits
	Mailbox   *MailboxRule // local-part rules of the provider's consumer domains, nil where unknown
	Rules     []Rule       // reply rules, tried in order before the generic ones
	Source    string       // where these facts come from
	Date      string       // when they were read, YYYY-MM-DD
	Terms     string       // what the receiver's terms say about probing, if known
}

package engine

// Address is a parsed mailbox (RFC 5321 section 4.1.2, RFC 6531). Comparable; made only by Parse.
type Address struct {
	local  string // as RCPT carries it: NFC, lower-case, needless quotes dropped
	domain string // lower-case A-label
	folded string // the identity: like local@domain, with the provider's own folding of dots and tags
}

// Local is the local part as RCPT carries it.
func (a Address) Local() string { return a.local }

// Domain is the domain as a lower-case A-label, without a final dot.
func (a Address) Domain() string { return a.domain }

// Folded is the form under which the address is deduplicated, cached and charged.
func (a Address) Folded() string { return a.folded }

// IsZero reports an Address that nobody parsed.
func (a Address) IsZero() bool { return a.domain == "" }

package engine

// Rule and MailboxRule are data of the provider table.
type Rule struct{}

// MailboxRule says which local parts a provider can have at all.
type MailboxRule struct{}

// Table is the provider table: immutable, shared by all.
type Table struct {
	Unknown   *Provider // limits and rules for hosts nobody knows
	Providers []*Provider
}

// Match finds the provider of a set of MX hosts, best first; t.Unknown where none fits.
func (t *Table) Match(hosts []string) *Provider { return t.Unknown }

// Breaks reports that the provider cannot have a mailbox of that name.
func (m *MailboxRule) Breaks(a Address) bool { return false }

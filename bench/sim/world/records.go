package world

import "net/netip"

// DNSRecords are the DNS records of one name.
type DNSRecords struct {
	MX          []MX
	Addrs       []netip.Addr
	Alias       string
	ServFail    bool // SERVFAIL
	TruncateUDP bool // UDP answers are truncated
}

// RecordsOf finds the records of a name, which is lower case without a final dot. It reports false for a name without
// records.
func (w *World) RecordsOf(name string) (DNSRecords, bool) {
	r, known := w.names[name]
	return r, known
}

// IsEmptyNonTerminal reports whether name has names below it (RFC 8020); the root is one.
func (w *World) IsEmptyNonTerminal(name string) bool {
	_, nonTerminal := w.nonTerminals[name]
	return nonTerminal || name == ""
}

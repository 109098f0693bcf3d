package engine

import "strings"

// Address is a parsed mailbox (RFC 5321 section 4.1.2, RFC 6531). Comparable; made only by Parse.
//
//  1. Parse(a.Mailbox()) gives a again.
//  2. Parse(a.Folded()) gives an address with the same Folded.
//  3. An Address may share the memory of the string that it was parsed from.
type Address struct {
	local  string // as RCPT carries it: NFC, lower-case, needless quotes dropped
	domain string // lower-case A-label
	folded string // the identity: like local@domain, with the provider's own folding of dots and tags
}

// The bounds of RFC 5321 section 4.5.3.1; a path of 256 octets holds two angle brackets.
const (
	maxLocal   = 64
	maxDomain  = 253
	maxLabel   = 63
	maxMailbox = 254

	// maxTyped refuses the hopeless before anything is normalised: each octet of an A-label
	// stands for at most one character, and a character is at most four octets of UTF-8.
	maxTyped = maxLocal + 1 + 4*maxDomain
)

// Parse reads a mailbox strictly: nothing is trimmed, mapped or repaired. Its error is a SyntaxError.
func Parse(s string) (Address, error) {
	if s == "" {
		return Address{}, bad(KindEmpty, "the address is empty; write local@domain")
	}
	if len(s) > maxTyped {
		return Address{}, tooLong()
	}
	typed, rest, err := cutLocal(s)
	if err != nil {
		return Address{}, err
	}
	local, err := canonicalLocal(typed)
	if err != nil {
		return Address{}, err
	}
	domain, err := canonicalDomain(rest)
	if err != nil {
		return Address{}, err
	}
	if max(len(typed), len(local))+1+len(domain) > maxMailbox {
		return Address{}, tooLong()
	}
	return newAddress(s, local, domain), nil
}

// ParseTrimmed is Parse(Trim(s)): what every door of the system uses.
func ParseTrimmed(s string) (Address, error) { return Parse(Trim(s)) }

// newAddress folds. The typed string is shared when it is already the mailbox: no allocation.
func newAddress(typed, local, domain string) Address {
	a := Address{local: local, domain: domain}
	n := len(local)
	same := len(typed) == n+1+len(domain) && typed[:n] == local && typed[n+1:] == domain
	switch base := foldLocal(local, domain); {
	case base != local || !same:
		a.folded = base + "@" + domain
	default:
		a.folded = typed
	}
	return a
}

// Local is the local part as RCPT carries it.
func (a Address) Local() string { return a.local }

// Domain is the domain as a lower-case A-label, without a final dot.
func (a Address) Domain() string { return a.domain }

// Folded is the form under which the address is deduplicated, cached and charged.
func (a Address) Folded() string { return a.folded }

// AppendFolded appends Folded to dst.
func (a Address) AppendFolded(dst []byte) []byte { return append(dst, a.folded...) }

// Mailbox is local@domain as RCPT carries it: a local part that needs quotes has them.
func (a Address) Mailbox() string {
	if a.IsZero() || len(a.folded) == len(a.local)+1+len(a.domain) {
		return a.folded // folding only ever drops octets
	}
	return a.local + "@" + a.domain
}

// String is Mailbox.
func (a Address) String() string { return a.Mailbox() }

// NeedsUTF8 reports that RCPT needs the SMTPUTF8 extension (RFC 6531 section 3.3): the domain is
// always an A-label, so only the local part can.
func (a Address) NeedsUTF8() bool { return !isASCII(a.local) }

// IsZero reports an Address that nobody parsed.
func (a Address) IsZero() bool { return a.domain == "" }

// foldLocal drops what a provider is known to ignore: dots and +tags, at Gmail's consumer domains only.
// A quoted or non-ASCII local part is left alone: no such mailbox can exist there, so nothing is known of it.
func foldLocal(local, domain string) string {
	if domain != "gmail.com" && domain != "googlemail.com" {
		return local
	}
	if !strings.ContainsAny(local, ".+") || local[0] == '"' || !isASCII(local) {
		return local
	}
	base, _, _ := strings.Cut(local, "+")
	base = strings.ReplaceAll(base, ".", "")
	if base == "" {
		return local
	}
	return base
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

package engine

import "strings"

// Address is a parsed mailbox (RFC 5321 section 4.1.2, RFC 6531). Comparable; made only by Parse.
//
//  1. Parse(a.Mailbox()) gives a again.
//  2. Parse(a.Folded()) gives an address with the same Folded.
//  3. An Address may share the memory of the string that it was parsed from.
//
// Hundreds of thousands live while a job runs, and the garbage collector scans each: so it has one string, and a second
// only if needed.
type Address struct {
	// local@domain. The local part as RCPT carries it: NFC, lower-case, needless quotes dropped; the domain a
	// lower-case A-label
	mailbox string
	folded  string // the identity, with the provider's own folding of dots and tags; empty where it is the mailbox
	at      uint16 // where in the mailbox the domain's @ stands
}

// The bounds of RFC 5321 section 4.5.3.1; a path of 256 octets holds two angle brackets.
const (
	maxLocal   = 64
	maxDomain  = 253
	maxLabel   = 63
	maxMailbox = 254

	// maxTyped bounds the input before normalisation: each octet of an A-label
	// stands for at most one character, and a character is at most four octets of UTF-8.
	maxTyped = maxLocal + 1 + 4*maxDomain
)

// Parse reads a mailbox strictly: nothing is trimmed, mapped or repaired. Its error is a SyntaxError. Of a local part
// that a carrier gave out with dots that need quotes it makes the quoted form, which RCPT can carry.
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
	if err != nil && hasCarrierDots(typed, rest) {
		local, err = canonicalQuoted(`"` + typed + `"`)
	}
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

// ParseTrimmed is Parse(Trim(s)). Every entry point of the system uses it.
func ParseTrimmed(s string) (Address, error) { return Parse(Trim(s)) }

// newAddress shares the typed string when it is already the mailbox: no allocation.
func newAddress(typed, local, domain string) Address {
	a := Address{mailbox: typed, at: uint16(len(local))}
	if base := foldLocal(local, domain); len(base) != len(local) { // folding only ever drops octets
		a.folded = base + "@" + domain
	}
	n := len(local)
	if len(typed) != n+1+len(domain) || typed[:n] != local || typed[n+1:] != domain {
		a.mailbox = local + "@" + domain
	}
	return a
}

// Local is the local part as RCPT carries it.
func (a Address) Local() string { return a.mailbox[:a.at] }

// Domain is the domain as a lower-case A-label, without a final dot.
func (a Address) Domain() string {
	if a.IsZero() {
		return ""
	}
	return a.mailbox[a.at+1:]
}

// Folded is the form under which the address is deduplicated, cached and charged.
func (a Address) Folded() string {
	if a.folded == "" {
		return a.mailbox
	}
	return a.folded
}

// Mailbox is local@domain as RCPT carries it: a local part that needs quotes has them.
func (a Address) Mailbox() string { return a.mailbox }

// Clone copies the address into memory of its own, for a caller that keeps it.
func (a Address) Clone() Address {
	return Address{mailbox: strings.Clone(a.mailbox), folded: strings.Clone(a.folded), at: a.at}
}

// String is Mailbox.
func (a Address) String() string { return a.mailbox }

// IsZero reports whether a is an Address that Parse did not make.
func (a Address) IsZero() bool { return a.mailbox == "" }

// foldLocal drops what a provider is known to ignore: dots and +tags, at Gmail's consumer domains only.
// A quoted or non-ASCII local part stays as it is: no such mailbox can exist there.
func foldLocal(local, domain string) string {
	if domain != "gmail.com" && domain != "googlemail.com" {
		return local
	}
	_, ascii := lowerASCII(local)
	if !ascii || !strings.ContainsAny(local, ".+") || local[0] == '"' {
		return local
	}
	base, _, _ := strings.Cut(local, "+")
	base = strings.ReplaceAll(base, ".", "")
	if base == "" {
		return local
	}
	return base
}

// lowerASCII returns s in lower case, and true, if it is ASCII.
func lowerASCII(s string) (string, bool) {
	upper := false
	for i := range len(s) {
		if s[i] >= 0x80 {
			return s, false
		}
		upper = upper || 'A' <= s[i] && s[i] <= 'Z'
	}
	if upper {
		s = strings.ToLower(s)
	}
	return s, true
}

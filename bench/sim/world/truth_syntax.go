package world

import (
	"regexp"
	"strings"
	"unicode/utf8"
)

// Lengths of RFC 5321 section 4.5.3.1 and RFC 1035 section 2.3.4.
const (
	maxLocal   = 64
	maxAddress = 254
	maxDomain  = 253
	maxLabel   = 63
)

// split splits an address: Dot-string "@" Domain of RFC 5321 section 4.1.2, with
// non-ASCII letters as in RFC 6531. The domain is returned in lower case. It is
// stricter than the grammar: no quoted local part, no address literal, no
// comment; the simulated lists have none that are valid.
func split(address string) (local, domain string, ok bool) {
	at := strings.LastIndexByte(address, '@')
	if at <= 0 || len(address) > maxAddress || !utf8.ValidString(address) {
		return "", "", false
	}
	local, domain = address[:at], strings.ToLower(address[at+1:])
	atoms := local
	if domain == dottedCarrier {
		atoms = strings.TrimSuffix(repeatedDots.ReplaceAllString(local, "."), ".")
	}
	return local, domain, len(local) <= maxLocal && isDotString(atoms) && isDomain(domain)
}

// dottedCarrier gave out local parts with dots in a row or at the end until 2009, and delivers to them still.
const dottedCarrier = "docomo.ne.jp"

var repeatedDots = regexp.MustCompile(`\.+`)

// isDotString reports atoms joined by single dots (RFC 5322 section 3.2.3).
func isDotString(local string) bool {
	if local == "" || local[0] == '.' || local[len(local)-1] == '.' {
		return false
	}
	for i := range len(local) {
		c := local[i]
		if c >= utf8.RuneSelf || isAtomByte(c) || c == '.' && local[i-1] != '.' {
			continue
		}
		return false
	}
	return true
}

func isAtomByte(c byte) bool {
	return isLetterOrDigit(c) || strings.IndexByte("!#$%&'*+-/=?^_`{|}~", c) >= 0
}

func isLetterOrDigit(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// isDomain requires at least two labels, the last not all digits.
func isDomain(domain string) bool {
	if len(domain) > maxDomain {
		return false
	}
	dots, rest := 0, domain
	for {
		label, more, found := strings.Cut(rest, ".")
		if !isLabel(label) {
			return false
		}
		if !found {
			return dots > 0 && strings.Trim(label, "0123456789") != ""
		}
		dots, rest = dots+1, more
	}
}

// isLabel reports letters, digits and inner hyphens.
func isLabel(label string) bool {
	if label == "" || len(label) > maxLabel || label[0] == '-' || label[len(label)-1] == '-' {
		return false
	}
	for i := range len(label) {
		if c := label[i]; !isLetterOrDigit(c) && c != '-' && c < utf8.RuneSelf {
			return false
		}
	}
	return true
}

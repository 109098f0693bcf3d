package engine

import (
	"net/netip"
	"strings"
)

// ParseDomain parses a domain alone, as strictly as Parse does, and returns its lower-case A-label form.
func ParseDomain(s string) (string, error) {
	if len(s) > maxTyped {
		return "", domainTooLong()
	}
	return canonicalDomain(s)
}

// canonicalDomain checks a domain (RFC 5321 section 2.3.5, RFC 5890) and returns its lower-case A-label form.
// The result is s itself when nothing changes.
func canonicalDomain(s string) (string, error) {
	switch {
	case s == "":
		return "", bad(KindDomain, "nothing stands after the @; write local@domain")
	case s[0] == '[':
		return "", literalError(s)
	case len(s) > 1 && s[len(s)-1] == '.':
		return "", bad(KindTrailingDot, "the domain ends with a dot; take it out")
	}
	s, ascii := lowerASCII(s)
	if !ascii {
		return idnToASCII(s)
	}
	if err := checkLDH(s); err != nil {
		return "", err
	}
	if strings.Contains(s, acePrefix) {
		return s, checkALabels(s)
	}
	return s, nil
}

// checkLDH checks a lower-case ASCII domain: two labels or more of letters, digits and inner hyphens (RFC 1123 section
// 2.1).
func checkLDH(s string) error {
	if len(s) > maxDomain {
		return domainTooLong()
	}
	labels, start, digits := 0, 0, true
	for i := 0; i <= len(s); i++ {
		if i == len(s) || s[i] == '.' {
			if err := checkLabel(s[start:i]); err != nil {
				return err
			}
			labels, start = labels+1, i+1
			if i < len(s) {
				digits = true
			}
			continue
		}
		if c := s[i]; !isLDH(c) {
			return domainCharError(c)
		}
		digits = digits && s[i] >= '0' && s[i] <= '9'
	}
	switch {
	case labels < 2:
		return bad(KindDotless, "the domain has one label only; write it in full, like example.com")
	case digits:
		// RFC 1123 section 2.1: the top-level label is alphabetic, so a dotted number is never a name.
		return bad(KindDomain, "the domain ends in a number, so that it is not a name; a mail address needs a domain name")
	}
	return nil
}

func isLDH(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' }

func checkLabel(l string) error {
	switch {
	case l == "":
		return bad(KindDots, "the domain begins with a dot or has two in a row; take the extra dot out")
	case len(l) > maxLabel:
		return bad(KindLength, "a label of the domain is longer than 63 octets (RFC 1035 section 2.3.4)")
	case l[0] == '-' || l[len(l)-1] == '-':
		return bad(KindDomain, "a label of the domain begins or ends with a hyphen (RFC 1123 section 2.1)")
	}
	return nil
}

func domainTooLong() error {
	return bad(KindLength, "the domain is longer than 253 octets (RFC 1035 section 2.3.4)")
}

func domainCharError(c byte) error {
	switch {
	case c == '@':
		return bad(KindExtraAt, "there is more than one @; write one address only, as local@domain")
	case c == ' ':
		return bad(KindSpace, "there is a space in the domain; take it out")
	case c < ' ' || c == 0x7f:
		return controlError()
	case c == '(' || c == ')':
		return bad(KindComment, "comments in parentheses are not part of an address; take them out")
	}
	return bad(KindDomain, "the domain has a "+string(rune(c))+
		"; host names have letters, digits, hyphens and dots only")
}

// literalError refuses an address literal (RFC 5321 section 4.1.3). A valid one is an address, but it names a machine
// and not a domain: nothing can be looked up in DNS, so it cannot be verified.
func literalError(s string) error {
	inner, closed := strings.CutSuffix(s[1:], "]")
	if v6, ok := cutPrefixFold(inner, "IPv6:"); ok {
		inner = v6
	} else if strings.Contains(inner, ":") {
		closed = false // an IPv6 literal has its tag
	}
	if _, err := netip.ParseAddr(inner); err != nil || !closed || strings.Contains(inner, "%") {
		return bad(KindLiteral, "the part in brackets is no IP address, and could not be verified if it were; write a domain name")
	}
	return bad(KindLiteral, "an IP address in brackets cannot be verified; write a domain name")
}

func cutPrefixFold(s, prefix string) (string, bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return s, false
	}
	return s[len(prefix):], true
}

package engine

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

const acePrefix = "xn--"

// registration is IDNA without any mapping: full-width forms and other compatibility characters are refused, the rules
// for joiners (RFC 5892 appendix A) and for right-to-left names (RFC 5893) apply. Hyphens in third and fourth place are
// not reserved (RFC 5890 section 2.3.1 binds registries, not senders): names with them resolve. Immutable.
var registration = idna.New(idna.ValidateForRegistration(), idna.CheckJoiners(true), idna.CheckHyphens(false))

// idnToASCII turns a domain with U-labels into A-labels. It changes only case and NFC (RFC 5895 section 2, without its
// step on width). A U-label is accepted where its A-label is, so that both spellings of a mailbox have one verdict: the
// library's table admits symbols and what IDNA2008 allows in some contexts only, since such names were registered and
// resolve. DNS decides whether they exist.
func idnToASCII(s string) (string, error) {
	s, err := canonicalText(s)
	if err != nil {
		return "", err
	}
	ascii, err := registration.ToASCII(s)
	if err != nil {
		return "", idnError(s, ascii)
	}
	if strings.Contains(s, acePrefix) {
		if err := checkALabels(ascii); err != nil {
			return "", err
		}
	}
	return ascii, checkLDH(ascii)
}

// idnError says why s, which became ascii, is not a domain.
func idnError(s, ascii string) error {
	if longLabel(ascii) {
		return bad(KindLength, "a label of the domain, or the whole of it, is too long once written as an A-label "+
			"(RFC 5890 section 4.2)")
	}
	for _, r := range s {
		switch {
		case r == utf8.RuneError:
			return encodingError()
		case r < utf8.RuneSelf && r != '.' && !isLDH(byte(r)):
			return domainCharError(byte(r))
		case r >= utf8.RuneSelf && r != zwnj && r != zwj:
			if err := checkRune(r); err != nil {
				return err
			}
		}
	}
	return bad(KindIDN, "the domain has a character, or an order of characters, that no domain name can have "+
		"(RFC 5892, RFC 5893); type the name again in plain letters")
}

// longLabel reports whether length is a reason why a domain failed.
func longLabel(domain string) bool {
	if len(domain) > maxDomain {
		return true
	}
	for l := range strings.SplitSeq(domain, ".") {
		if len(l) > maxLabel {
			return true
		}
	}
	return false
}

// checkALabels requires that each xn-- label decodes, and encodes to itself (RFC 5891 section 5.4).
func checkALabels(s string) error {
	again, err := registration.ToASCII(s)
	if err != nil || again != s {
		return bad(KindIDN, "an xn-- label of the domain is not the encoding of any name; write the name itself")
	}
	return nil
}

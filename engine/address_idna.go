package engine

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
)

const acePrefix = "xn--"

// registration is IDNA without any mapping: full-width forms and other compatibility characters are refused,
// the rules for joiners (RFC 5892 appendix A) and for right-to-left names (RFC 5893) apply. Immutable.
// checkULabel checks hyphens, by character: the library counts octets.
var registration = idna.New(idna.ValidateForRegistration(), idna.CheckJoiners(true), idna.CheckHyphens(false))

// idnToASCII turns a domain with U-labels into A-labels. It changes only case and NFC (RFC 5895 section 2, without its step on width).
func idnToASCII(s string) (string, error) {
	s, err := canonicalText(s)
	if err != nil {
		return "", err
	}
	for label := range strings.SplitSeq(s, ".") {
		if err := checkULabel(label); err != nil {
			return "", err
		}
	}
	ascii, err := registration.ToASCII(s)
	if err != nil {
		if longLabel(ascii) {
			return "", bad(KindLength, "a label of the domain, or the whole of it, is too long once written as an A-label (RFC 5890 section 4.2)")
		}
		return "", idnError()
	}
	if strings.Contains(s, acePrefix) {
		if err := checkALabels(ascii); err != nil {
			return "", err
		}
	}
	return ascii, checkLDH(ascii)
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

// checkALabels requires that each xn-- label decodes, and encodes to itself (RFC 5891 section 5.4). It may decode to a symbol
// that IDNA2008 no longer admits: such names were registered and still resolve, so DNS decides whether they exist.
func checkALabels(s string) error {
	again, err := registration.ToASCII(s)
	if err != nil || again != s {
		return bad(KindIDN, "an xn-- label of the domain is not the encoding of any name; write the name itself")
	}
	return nil
}

// checkULabel applies what the library leaves open: the character classes of RFC 5892 and its CONTEXTO rules.
func checkULabel(l string) error {
	runes := []rune(l)
	if len(runes) > 3 && runes[2] == '-' && runes[3] == '-' && !strings.HasPrefix(l, acePrefix) {
		return hyphensError()
	}
	for i, r := range runes {
		switch {
		case r == utf8.RuneError:
			return encodingError()
		case r < utf8.RuneSelf:
			if !isLDH(byte(r)) {
				return domainCharError(byte(r))
			}
		case r == zwnj || r == zwj: // the library knows their context
		case isContextO(r):
			if !contextFits(runes, i) {
				return idnError()
			}
		case !isPValid(r):
			if err := checkRune(r); err != nil {
				return err
			}
			return idnError()
		}
	}
	return nil
}

func idnError() error {
	return bad(KindIDN, "the domain has a character, or an order of characters, that IDNA2008 refuses (RFC 5892, RFC 5893); type the name again in plain letters")
}

// isPValid is the derived property of RFC 5892 section 3 for non-ASCII characters, without its clause on stability, which the
// library's table covers: what NFKC or case folding would change is "mapped" there, and refused.
func isPValid(r rune) bool {
	switch r {
	case 0x00df, 0x03c2, 0x06fd, 0x06fe, 0x0f0b, 0x3007: // section 2.6, PVALID
		return true
	case 0x0640, 0x07fa, 0x302e, 0x302f, 0x3031, 0x3032, 0x3033, 0x3034, 0x3035, 0x303b: // section 2.6, DISALLOWED
		return false
	}
	switch {
	case 0x20d0 <= r && r <= 0x20ff, 0x1d100 <= r && r <= 0x1d24f: // section 2.4, IgnorableBlocks
		return false
	case 0x1100 <= r && r <= 0x11ff, 0xa960 <= r && r <= 0xa97f, 0xd7b0 <= r && r <= 0xd7ff: // section 2.9, OldHangulJamo
		return false
	}
	return unicode.In(r, unicode.Ll, unicode.Lu, unicode.Lo, unicode.Nd, unicode.Lm, unicode.Mn, unicode.Mc) && !isInvisible(r)
}

// isContextO reports the characters of RFC 5892 section 2.6 that are valid only in a context.
func isContextO(r rune) bool {
	switch r {
	case 0x00b7, 0x0375, 0x05f3, 0x05f4, 0x30fb:
		return true
	}
	return isArabicDigit(r) || isEasternDigit(r)
}

func isArabicDigit(r rune) bool  { return 0x0660 <= r && r <= 0x0669 }
func isEasternDigit(r rune) bool { return 0x06f0 <= r && r <= 0x06f9 }

// contextFits applies the rules A.3 to A.9 of RFC 5892.
func contextFits(l []rune, i int) bool {
	switch r := l[i]; {
	case r == 0x00b7: // A.3: between two l
		return i > 0 && i+1 < len(l) && l[i-1] == 'l' && l[i+1] == 'l'
	case r == 0x0375: // A.4: before a Greek character
		return i+1 < len(l) && unicode.Is(unicode.Greek, l[i+1])
	case r == 0x05f3 || r == 0x05f4: // A.5, A.6: after a Hebrew character
		return i > 0 && unicode.Is(unicode.Hebrew, l[i-1])
	case r == 0x30fb: // A.7: in a label with Japanese or Chinese script
		return anyRune(l, func(r rune) bool { return unicode.In(r, unicode.Hiragana, unicode.Katakana, unicode.Han) })
	case isArabicDigit(r): // A.8: the two sets of digits do not mix
		return !anyRune(l, isEasternDigit)
	}
	return !anyRune(l, isArabicDigit) // A.9
}

func anyRune(l []rune, f func(rune) bool) bool {
	for _, r := range l {
		if f(r) {
			return true
		}
	}
	return false
}

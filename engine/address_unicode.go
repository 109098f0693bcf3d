package engine

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// canonicalText is NFC and lower case together, which RFC 6530 section 10.1 requires before a comparison. Lower-case
// ASCII is returned as it is. Lower-casing can undo NFC and NFC can yield capitals, so both are applied until nothing
// changes.
func canonicalText(s string) (string, error) {
	s, ascii := lowerASCII(s)
	if ascii {
		return s, nil
	}
	if !utf8.ValidString(s) {
		return "", encodingError()
	}
	const rounds = 4 // two are known to be enough; a text that never becomes stable has no identity
	for range rounds {
		// U+0130 has a lower case of two characters; the simple mapping would turn it into a plain "i", another letter.
		t := norm.NFC.String(s)
		t = norm.NFC.String(strings.ToLower(strings.ReplaceAll(t, "\u0130", "i\u0307")))
		if t == s {
			return s, nil
		}
		s = t
	}
	if !norm.NFC.IsNormalString(s) || strings.ToLower(s) != s {
		return "", encodingError()
	}
	return s, nil
}

// checkUnicode refuses characters that make no sense in a local part: RFC 6531 allows any UTF-8 there, but
// RFC 6530 section 10.1 and RFC 8264 section 4.2.3 advise against them. ASCII is not checked.
func checkUnicode(s string) error {
	before := rune(0)
	for i := 0; i < len(s); {
		r, n, ok := runeAt(s[i:])
		switch {
		case !ok || r == utf8.RuneError:
			return encodingError()
		case r < utf8.RuneSelf:
		case i == 0 && unicode.Is(unicode.M, r):
			return bad(KindInvisible, "the local part begins with a combining mark, which has nothing to combine with; take it out")
		case r == zwnj || r == zwj:
			if !joinerFits(s, i) {
				return invisibleError()
			}
		case isVariation(r) && unicode.Is(unicode.S, before):
		default:
			if err := checkRune(r); err != nil {
				return err
			}
		}
		before = r
		i += n
	}
	return nil
}

const (
	zwnj = '\u200c'
	zwj  = '\u200d'
)

// isVariation reports whether r selects text or emoji style: after a symbol it belongs to that.
func isVariation(r rune) bool { return r == 0xfe0e || r == 0xfe0f }

func checkRune(r rune) error {
	switch {
	case unicode.Is(unicode.Cc, r):
		return controlError()
	case unicode.Is(unicode.Z, r):
		return bad(KindSpace, "there is a white-space character in the address; take it out")
	case isInvisible(r):
		return invisibleError()
	}
	return nil
}

// isInvisible reports characters without a glyph or a meaning of their own: formats, fillers, variation selectors,
// private use and unassigned ones.
func isInvisible(r rune) bool {
	return !unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S) ||
		unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == 0x2800
}

func invisibleError() error {
	return bad(KindInvisible, "there is a character in the address that cannot be seen or is not assigned; take it out or type the address again")
}

// joiners checks only the CONTEXTJ rules of RFC 5892 appendix A. Immutable.
var joiners = idna.New(idna.ValidateLabels(true), idna.CheckJoiners(true), idna.CheckHyphens(false),
	idna.StrictDomainName(false))

// joinerFits reports whether the joiner at s[i] is valid in the word around it (RFC 5892 appendix A).
func joinerFits(s string, i int) bool {
	outside := func(r rune) bool { return !unicode.In(r, unicode.L, unicode.M, unicode.Join_Control) }
	start := strings.LastIndexFunc(s[:i], outside) // the index of an octet or -1
	if start >= 0 {
		_, n := utf8.DecodeRuneInString(s[start:])
		start += n
	} else {
		start = 0
	}
	word := s[start:]
	if end := strings.IndexFunc(word, outside); end >= 0 {
		word = word[:end]
	}
	_, err := joiners.ToUnicode(word)
	return err == nil
}

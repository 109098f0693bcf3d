package shownname

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Check returns what is wrong with a text of at most that many bytes, in words that follow its name; nil if nothing is.
// An empty text is good: whether there must be one is for the caller to say.
func Check(s string, most int) error {
	if len(s) > most {
		return fmt.Errorf("must have at most %d bytes", most)
	}
	if s != "" && strings.TrimSpace(s) == "" {
		return errors.New("has only white space: give it something that can be seen, or leave it out")
	}
	before, position := rune(0), 0
	for i, r := range s {
		position++
		n := utf8.RuneLen(r)
		switch {
		case !utf8.ValidString(s[i:min(i+n, len(s))]):
			return fmt.Errorf("must be UTF-8: character %d is not", position)
		case !shows(before, r, s[i+n:]):
			return fmt.Errorf("has U+%04X as its character %d, which cannot be seen, breaks the line, or changes how others are shown: remove it",
				r, position)
		}
		before = r
	}
	return nil
}

// Clean makes a text one that Check accepts, or an empty one: it cuts it to that many bytes and removes what may not be
// shown.
func Clean(s string, most int) string {
	s = strings.ToValidUTF8(s, "")
	if len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	var kept strings.Builder
	before := rune(0)
	for i, r := range s {
		if shows(before, r, s[i+utf8.RuneLen(r):]) {
			kept.WriteRune(r)
			before = r
		}
	}
	if strings.TrimSpace(kept.String()) == "" {
		return ""
	}
	return kept.String()
}

const (
	zwnj = '\u200c'
	zwj  = '\u200d'
)

// shows reports whether a character may be shown between the one before it and the text after it. Joiners shape the
// words of some scripts and join emoji, and variation selectors choose a glyph; next to ASCII letters they would only
// make two names look alike.
func shows(before, r rune, after string) bool {
	switch {
	case r == zwnj || r == zwj:
		next, _ := utf8.DecodeRuneInString(after)
		return (takesGlyph(before) || isSelector(before)) && takesGlyph(next)
	case isSelector(r):
		return takesGlyph(before)
	}
	return !hidden(r)
}

// takesGlyph reports whether joiners and variation selectors can change how a character looks.
func takesGlyph(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.L, unicode.M, unicode.S) && !isSelector(r) && !hidden(r)
}

func isSelector(r rune) bool { return unicode.Is(unicode.Variation_Selector, r) }

// hidden reports whether a character is a control, a format, a separator of lines, or one without a glyph of its own.
func hidden(r rune) bool {
	const blankBraille = '\u2800'
	return r == blankBraille || unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp,
		unicode.Other_Default_Ignorable_Code_Point)
}

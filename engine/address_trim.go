package engine

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Trim removes white space, byte order marks and characters of no width from both ends: what copying and spreadsheets
// leave. No address can begin or end with any of them. It does not allocate.
func Trim(s string) string {
	if s != "" && plainEdge(s[0]) && plainEdge(s[len(s)-1]) {
		return s
	}
	return strings.TrimFunc(s, isEdge)
}

func plainEdge(c byte) bool { return c > ' ' && c < utf8.RuneSelf }

func isEdge(r rune) bool {
	switch {
	case r < utf8.RuneSelf:
		return unicode.IsSpace(r)
	// zero width, joiners, direction
	case 0x200b <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x2060 <= r && r <= 0x2069:
		return true
	// BOM, Mongolian separator, soft hyphen, Arabic mark, grapheme joiner
	case r == 0xfeff, r == 0x180e, r == 0x00ad, r == 0x061c, r == 0x034f:
		return true
	}
	return unicode.IsSpace(r)
}

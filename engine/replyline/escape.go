package replyline

import (
	"strings"
	"unicode/utf8"
)

// firstEscape is the private character of the byte 0x80; the other 127 follow it.
const firstEscape = '\uf780'

// Escape returns text as valid UTF-8. If it is in another charset, each byte beyond ASCII becomes a private character,
// from which Unescape gets it back. Text that is mostly UTF-8, and damaged or cut off within a character, stays what it
// is.
func Escape(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	valid, invalid := 0, 0
	for i, c := range text {
		switch {
		case c == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"):
			invalid++
		case c >= utf8.RuneSelf:
			valid++
		}
	}
	if valid > invalid {
		return strings.ToValidUTF8(text, "\ufffd")
	}
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c >= 0x80 {
			b.WriteRune(firstEscape + rune(c-0x80))
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

func isEscape(c rune) bool { return firstEscape <= c && c < firstEscape+0x80 }

// IsEscaped reports whether Escape has escaped a line.
func IsEscaped(line string) bool { return strings.IndexFunc(line, isEscape) >= 0 }

// Unescape returns the bytes of an escaped line.
func Unescape(line string) string {
	b := make([]byte, 0, len(line))
	for _, c := range line {
		if isEscape(c) {
			b = append(b, byte(c-firstEscape)+0x80)
		} else {
			b = utf8.AppendRune(b, c)
		}
	}
	return string(b)
}

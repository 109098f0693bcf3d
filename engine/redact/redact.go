package redact

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is the length, in characters, to which a reply is cut before it is kept or shown.
const MaxText = 200

// minLocal is the shortest local part that is looked for: shorter ones are words of every reply.
const minLocal = 3

// blank stands for an address.
const blank = "<address>"

// Text redacts a text, with "<address>" in place of every address and of every word that is the local part, which may
// be empty.
func Text(text, local string) string {
	var b strings.Builder
	for i, word := range strings.FieldsFunc(text, func(r rune) bool {
		return r <= ' ' || r == 0x7f || r == 0x85 ||
			r == 0xa0
	}) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(redactWord(word, local))
	}
	runes := []rune(strings.ToValidUTF8(b.String(), "?"))
	return string(runes[:min(len(runes), MaxText)])
}

// edges are the characters that replies put around an address.
const edges = "<>()[]{}\"'`,;:."

func redactWord(word, local string) string {
	core := strings.Trim(word, edges)
	if strings.Contains(core, "@") || len(local) >= minLocal && strings.EqualFold(core, local) {
		before, after, _ := strings.Cut(word, core)
		return strings.TrimSuffix(before, "<") + blank + strings.TrimPrefix(after, ">")
	}
	if at := indexOfName(word, local); at >= 0 {
		return word[:at] + blank + word[at+len(local):]
	}
	return word
}

// indexOfName returns where a word has the local part with no letter or digit next to it, as in user=ann; -1 if
// nowhere.
func indexOfName(word, local string) int {
	if len(local) < minLocal {
		return -1
	}
	for at := 0; at+len(local) <= len(word); at++ {
		end := at + len(local)
		if strings.EqualFold(word[at:end], local) && !endsInName(word[:at]) && !beginsWithName(word[end:]) {
			return at
		}
	}
	return -1
}

func endsInName(s string) bool {
	r, _ := utf8.DecodeLastRuneInString(s)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

func beginsWithName(s string) bool {
	r, _ := utf8.DecodeRuneInString(s)
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

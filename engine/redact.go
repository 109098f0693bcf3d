package engine

import "strings"

// maxMessage is the length, in characters, to which a reply is cut before it is kept or shown.
const maxMessage = 200

// Redact makes a reply fit to be stored or shown: one line, at most 200 characters, with "<address>" in place of every
// address and of every word that is the local part of a (a may be a decoy).
func Redact(text string, a Address) string {
	var b strings.Builder
	for i, word := range strings.FieldsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f || r == 0x85 || r == 0xa0 }) {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(redactWord(word, a.Local()))
	}
	runes := []rune(strings.ToValidUTF8(b.String(), "?"))
	return string(runes[:min(len(runes), maxMessage)])
}

// edges are the characters that replies put around an address.
const edges = "<>()[]{}\"'`,;:."

func redactWord(word, local string) string {
	core := strings.Trim(word, edges)
	if !strings.Contains(core, "@") && (len(local) < 3 || !strings.EqualFold(core, local)) {
		return word
	}
	before, after, _ := strings.Cut(word, core)
	return strings.TrimSuffix(before, "<") + "<address>" + strings.TrimPrefix(after, ">")
}

package phrase

import "bytes"

// CountWords counts the words of a line that have three letters or more and no digit, outside of mail addresses: what a
// server says, not its identifiers. It does not allocate.
func CountWords(line string) (n int) {
	for i := 0; i < len(line); {
		start := i
		word := true
		for i < len(line) && !endsToken(line[i]) {
			c := line[i]
			word = word && c != '@' && !isDigit(c)
			i++
		}
		if word && i-start >= 3 {
			n++
		}
		i++
	}
	return n
}

// OnlyCodes reports whether words, as AppendWords makes them, are codes and mail addresses alone.
func OnlyCodes(words []byte) bool {
	for start := 0; start < len(words); {
		end := start + bytes.IndexByte(words[start:], ' ')
		if word := words[start:end]; len(word) > 0 && (len(word) > 1 || word[0] != '@') &&
			len(bytes.Trim(word, "0123456789.")) > 0 {
			return false
		}
		start = end + 1
	}
	return true
}

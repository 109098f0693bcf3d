package phrase

import "strings"

// Quotes reports whether line contains name, case ignored, not as part of a longer name. Names under four bytes do not
// count, nor does a name inside a link: some receivers put the client's address into the link of their help page in
// every refusal. It searches for the name's first punctuation character, because few lines have many of them.
func Quotes(line, name string) bool {
	if len(name) < 4 {
		return false
	}
	sign := max(0, strings.IndexAny(name, ".@:-"))
	for i := 0; ; i++ {
		i = indexFold(line, name[sign], i+sign) - sign
		if i < 0 || i+len(name) > len(line) {
			return false
		}
		if strings.EqualFold(line[i:i+len(name)], name) && !joinsName(line, i-1) && !joinsName(line, i+len(name)) &&
			!inLink(line[:i]) {
			return true
		}
	}
}

// indexFold finds a byte, or the same letter in the other case, at from or later; -1 without one.
func indexFold(line string, c byte, from int) int {
	if from > len(line) {
		return -1
	}
	i := strings.IndexByte(line[from:], c)
	if isLetter(c) {
		if j := strings.IndexByte(line[from:], c^0x20); i < 0 || 0 <= j && j < i {
			i = j
		}
	}
	if i < 0 {
		return -1
	}
	return from + i
}

// inLink reports whether a text ends inside a link.
func inLink(before string) bool {
	return strings.Contains(before[strings.LastIndexAny(before, " \t<(")+1:], "://")
}

// joinsName reports whether a byte makes a name longer. A dot that ends a sentence does not.
func joinsName(line string, i int) bool {
	if i < 0 || i >= len(line) {
		return false
	}
	c := line[i]
	if c == '.' {
		return i > 0 && i+1 < len(line) && (isLetter(line[i+1]) || isDigit(line[i+1]))
	}
	return isLetter(c) || isDigit(c) || c == '-' || c == '_' || c == '+' || c == '@'
}

package engine

import (
	"net/url"
	"strings"

	"probity/engine/typo"
)

// Guess returns the address that an invalid string was meant to be: did_you_mean for Ann <a@x.com>, mailto:, stray
// punctuation, a comma for a dot. The guess parses. A string that parses, or that is ambiguous, has none.
func Guess(s string) (string, bool) {
	if _, err := Parse(s); err == nil || len(s) > 2*maxTyped {
		return "", false
	}
	for _, repair := range repairs {
		s = repair(s)
		if _, err := Parse(s); err == nil {
			return s, true
		}
	}
	return "", false
}

// repairs are applied in this order, each to the result of the one before, until the string parses.
var repairs = [...]func(string) string{
	Trim, dropInvisible, dropMailto, insideAngles, toHalfWidth, dropWrapping, decodeAtWords, dropComments, joinSpaces,
	fixDomainDots, fixLocalDots, fixProvider,
}

// dropInvisible removes the invisible characters that joinSpaces does not treat as space.
func dropInvisible(s string) string {
	return strings.Map(func(r rune) rune {
		if isEdge(r) && r != ' ' {
			return -1
		}
		return r
	}, s)
}

// dropMailto extracts the first address of a mailto link (RFC 6068).
func dropMailto(s string) string {
	rest, ok := cutPrefixFold(s, "mailto:")
	if !ok {
		return s
	}
	rest, _, _ = strings.Cut(rest, "?")
	if plain, err := url.PathUnescape(rest); err == nil {
		rest = plain
	}
	return Trim(strings.TrimPrefix(rest, "//"))
}

// insideAngles extracts the address of a name-addr (RFC 5322 section 3.4).
func insideAngles(s string) string {
	open := strings.LastIndexByte(s, '<')
	if open < 0 || strings.Count(s, "<") > 1 {
		return s
	}
	inner, _, _ := strings.Cut(s[open+1:], ">")
	return dropMailto(Trim(inner))
}

// toHalfWidth writes full-width letters and signs, and the full stops of East Asia, as ASCII.
func toHalfWidth(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 0xff01 <= r && r <= 0xff5e:
			return r - 0xff01 + '!'
		case r == 0x3002 || r == 0xff61:
			return '.'
		case r == 0x3000:
			return ' '
		}
		return r
	}, s)
}

// dropWrapping removes quotes, brackets and punctuation around an address.
func dropWrapping(s string) string {
	s = strings.TrimLeft(s, " \t\"'`<([{,;:“”‘’«»„")
	return strings.TrimRight(s, " \t\"'`>)]},;:.!?/\\“”‘’«»„")
}

// decodeAtWords undoes what people write to hide an address from robots: " at ", "(dot)".
func decodeAtWords(s string) string {
	if strings.Contains(s, "@") {
		return s
	}
	s = replaceFold(s, "@", "(at)", "[at]", "{at}", "<at>", " at ")
	return replaceFold(s, ".", " (dot) ", "(dot)", "[dot]", "{dot}", " dot ")
}

func replaceFold(s, by string, words ...string) string {
	for _, w := range words {
		for i := strings.Index(asciiLower(s), w); i >= 0; i = strings.Index(asciiLower(s), w) {
			s = s[:i] + by + s[i+len(w):]
		}
	}
	return s
}

// asciiLower lower-cases ASCII only, so that every octet keeps its index.
func asciiLower(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// dropComments removes comments in parentheses (RFC 5322 section 3.2.2), innermost first.
func dropComments(s string) string {
	for {
		end := strings.IndexByte(s, ')')
		if end < 0 {
			return s
		}
		open := strings.LastIndexByte(s[:end], '(')
		if open < 0 {
			return s
		}
		s = s[:open] + s[end+1:]
	}
}

// joinSpaces removes spaces next to an "@", a dot or a comma. A space between words stays: it is unknown which word was
// meant.
func joinSpaces(s string) string {
	var b strings.Builder
	for i, f := range strings.Fields(s) {
		if i > 0 && !strings.ContainsRune("@.,", rune(f[0])) &&
			!strings.ContainsRune("@.,", rune(b.String()[b.Len()-1])) {
			b.WriteByte(' ')
		}
		b.WriteString(f)
	}
	return b.String()
}

// fixDomainDots merges doubled "@", turns a domain's commas into dots, merges doubled ones, and drops those at its
// edges.
func fixDomainDots(s string) string {
	for strings.Contains(s, "@@") {
		s = strings.ReplaceAll(s, "@@", "@")
	}
	local, domain, ok := strings.Cut(s, "@")
	if !ok || strings.Contains(domain, "@") || strings.Contains(local, ",") {
		return s
	}
	return local + "@" + fixPart(strings.ReplaceAll(domain, ",", "."))
}

// fixLocalDots merges the doubled dots of a local part, and drops those at its edges. It comes after the domain was put
// right: a carrier has mailboxes with such dots, and without them they are those of other people.
func fixLocalDots(s string) string {
	local, domain, ok := strings.Cut(s, "@")
	if !ok || strings.Contains(domain, "@") || strings.Contains(local, ",") {
		return s
	}
	return fixPart(local) + "@" + domain
}

func fixPart(s string) string {
	for strings.Contains(s, "..") {
		s = strings.ReplaceAll(s, "..", ".")
	}
	return strings.Trim(s, ".")
}

// fixProvider completes the bare name of a major provider ("gmail"), or a domain that lost its dot.
func fixProvider(s string) string {
	local, domain, ok := strings.Cut(s, "@")
	if !ok || strings.Contains(domain, ".") {
		return s
	}
	domain = asciiLower(domain)
	switch domain {
	case "gmail", "googlemail", "yahoo", "hotmail", "outlook", "icloud", "aol", "msn":
		return local + "@" + domain + ".com"
	}
	if d, ok := typo.Suggest(domain, nil); ok {
		return local + "@" + d
	}
	return s
}

package phrase

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWords bounds the text that is classified, in bytes after normalising. The rest of a longer reply is not read.
const maxWords = 4096

// latinFold maps U+00C0 to U+017F to their base letter.
const latinFold = "aaaaaaaceeeeiiiidnooooo ouuuuytsaaaaaaaceeeeiiiidnooooo ouuuuyty" +
	"aaaaaaccccccccddddeeeeeeeeeegggggggghhhhiiiiiiiiiiiijjkkkllllllllllnnnnnnnnnoooooooo" +
	"rrrrrrssssssssttttttuuuuuuuuuuuuwwyyyzzzzzzs"

// AppendWords appends a line as plain words, each followed by one space: lower-case, accents and apostrophes dropped,
// every mail address written as "@", other punctuation as a space. Dots stay inside numbers and host names. dst must
// end with a space. So the same words with other punctuation are equal, and a mailbox called "blocked" does not read as
// a block.
func AppendWords(dst []byte, line string) []byte {
	token := len(dst) // where the current raw token began: an @ replaces it
	for i := 0; i < len(line) && len(dst) < maxWords; i++ {
		c := line[i]
		switch {
		case 'a' <= c && c <= 'z' || '0' <= c && c <= '9':
			dst = append(dst, c)
		case 'A' <= c && c <= 'Z':
			dst = append(dst, c|0x20)
		case c == '.' && dotInside(line, i):
			dst = append(dst, c)
		case c == '@':
			dst = append(dst[:token], '@')
			for i+1 < len(line) && !endsToken(line[i+1]) {
				i++
			}
			dst = appendSpace(dst)
		case c == '\'' || c == '`':
			if i == 0 || i+1 == len(line) || !isLetter(line[i-1]) || !isLetter(line[i+1]) {
				dst = appendSpace(dst)
			}
		case c >= utf8.RuneSelf:
			var size int
			dst, size = appendRune(dst, line[i:])
			i += size - 1
		default:
			dst = appendSpace(dst)
		}
		if endsToken(c) {
			token = len(dst)
		}
	}
	return appendSpace(dst)
}

func appendSpace(dst []byte) []byte {
	if len(dst) > 0 && dst[len(dst)-1] == ' ' {
		return dst
	}
	return append(dst, ' ')
}

// endsToken reports bytes that cannot occur in an unquoted mail address as replies quote it.
func endsToken(c byte) bool {
	switch c {
	case ' ', '\t', '\r', '\n', '<', '>', '(', ')', '[', ']', '{', '}', ',', ';', ':', '"', '\'':
		return true
	}
	return false
}

// dotInside reports whether the dot at i is one of a number or a name, not the end of a sentence that lacks its space.
func dotInside(line string, i int) bool {
	if i == 0 || i+1 == len(line) {
		return false
	}
	a, b := line[i-1], line[i+1]
	sentence := 'a' <= a && a <= 'z' && 'A' <= b && b <= 'Z'
	return !sentence && (isLetter(a) || isDigit(a)) && (isLetter(b) || isDigit(b))
}

// appendRune appends the first character of s, which is not ASCII; a byte that is not UTF-8 is read as Latin-1.
func appendRune(dst []byte, s string) ([]byte, int) {
	r, size := utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && size == 1 {
		r = rune(s[0])
	}
	switch {
	case r == '\u2019' || r == '\u2018' || r == '\u00ad' || r == '\ufeff' || r == tatweel || unicode.Is(unicode.Mn, r):
		return dst, size
	case r == 'ß':
		return append(dst, "ss"...), size
	case r >= 0xc0 && r <= 0x17f && latinFold[r-0xc0] != ' ':
		return append(dst, latinFold[r-0xc0]), size
	case !unicode.IsLetter(r) && !unicode.IsDigit(r):
		return appendSpace(dst), size
	}
	r = baseLetter(unicode.ToLower(r))
	if r < utf8.RuneSelf {
		return append(dst, byte(r)), size
	}
	return appendCoded(dst, r), size
}

// tatweel stretches an Arabic word, and says nothing.
const tatweel = '\u0640'

// baseLetter returns a lower-case letter without its accents, as capitals and careless texts are written. It is one for
// the letters that differ only by their place in the word or by the keyboard's country. Syllables of kana and hangul
// are other letters with other marks.
func baseLetter(r rune) rune {
	if r < firstOfEastAsia {
		var letter [utf8.UTFMax]byte
		base := norm.NFD.Properties(utf8.AppendRune(letter[:0], r)).Decomposition()
		if len(base) > 0 {
			r, _ = utf8.DecodeRune(base)
		}
	}
	switch r {
	case 'ς':
		return 'σ'
	case 'ي', 'ى':
		return 'ی'
	case 'ك':
		return 'ک'
	}
	return r
}

// A letter of another script takes codedBytes, of which the first is codedLetter or more.
const (
	codedLetter = utf8.RuneSelf
	codedBytes  = 3
)

// appendCoded writes a letter of another script as a byte beyond ASCII, which only begins letters, and two of 32 bytes
// that other words have too: the scanner has few states and a small alphabet, and letters of two scripts are never
// taken for each other. Letters beyond the basic plane become a space.
func appendCoded(dst []byte, r rune) []byte {
	const digits = "abcdefghijklmnopqrstuvwxyz012345"
	if r > 0xffff {
		return appendSpace(dst)
	}
	return append(dst, codedLetter+byte(r>>10), digits[r>>5&31], digits[r&31])
}

// AppendWordsOutsideLinks is AppendWords without the links of a line, whose paths are not the server's words.
func AppendWordsOutsideLinks(dst []byte, line string) []byte {
	for {
		i := strings.Index(line, "://")
		if i < 0 {
			return AppendWords(dst, line)
		}
		start := strings.LastIndexAny(line[:i], " \t<([\"") + 1
		end := strings.IndexAny(line[i:], " \t>)]\"")
		dst = AppendWords(dst, line[:start])
		if end < 0 {
			return dst
		}
		line = line[i+end:]
	}
}

// MaskHostNames masks names of three labels and more: a host that is called "temporary" says nothing. Two words joined
// by a dot may be the end of one sentence and the beginning of the next.
func MaskHostNames(words []byte) {
	for start := 0; start < len(words); {
		end := start + bytes.IndexByte(words[start:], ' ')
		if bytes.Count(words[start:end], []byte{'.'}) >= 2 {
			Mask(words[start:end])
		}
		start = end + 1
	}
}

// Mask replaces words by a byte that occurs in no phrase; their spaces stay.
func Mask(words []byte) {
	for i, c := range words {
		if c != ' ' {
			words[i] = 2
		}
	}
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

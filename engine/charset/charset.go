package charset

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"

	"probity/engine"
	"probity/engine/replyline"
)

// The bounds of one reply.
const (
	maxReadings = 8
	maxBytes    = 2048
)

// Read classifies a reply and returns it as it can be shown. Its escaped lines are read in the likeliest charset in
// which a rule fits, or in the likeliest of all.
func Read(t *engine.Table, p *engine.Provider, r engine.Reply,
	sender engine.SenderIdentity) (engine.Reply, engine.Finding) {
	if !slices.ContainsFunc(r.Lines, replyline.IsEscaped) {
		return r, t.Classify(p, r, sender)
	}
	all := readings(r.Lines)
	if len(all) == 0 {
		return r, t.Classify(p, r, sender)
	}
	best, found := r, engine.Finding{}
	for i, reading := range all[:min(len(all), maxReadings)] {
		candidate := r
		candidate.Lines = reading.lines
		f := t.Classify(p, candidate, sender)
		fits := !strings.HasPrefix(f.Rule, "default/") // else no rule knows its words
		if i == 0 || fits {
			best, found = candidate, f
		}
		if fits {
			break
		}
	}
	return best, found
}

// reading is a reply in one charset. The higher its oddity, the less likely it is.
type reading struct {
	lines  []string
	oddity int
}

// readings are the strict readings of a reply, the likeliest first.
func readings(lines []string) (all []reading) {
	raw, size := make([]string, len(lines)), 0
	for i, line := range lines {
		if replyline.IsEscaped(line) {
			raw[i] = replyline.Unescape(line)
			size += len(raw[i])
		}
	}
	if size > maxBytes {
		return nil
	}
	for i := range charsets {
		if r, ok := charsets[i].read(lines, raw); ok {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b reading) int { return a.oddity - b.oddity })
	return all
}

// charset is one that mail servers use. common are the first bytes of its usual characters of two bytes; it has none of
// one.
type charset struct {
	encoding encoding.Encoding
	common   [][2]byte
}

// charsets has the more frequent ones first: they win where oddities are equal. Each character of one byte is of a
// Windows charset, except where that differs from the ISO one in letters. It is never written to.
var charsets = [...]charset{
	{charmap.Windows1252, nil}, // and ISO 8859-1
	{charmap.Windows1251, nil},
	{charmap.KOI8U, nil}, // and KOI8-R
	{simplifiedchinese.GB18030, [][2]byte{{0xa3, 0xa3}, {0xb0, 0xd7}}}, // level 1 of GB 2312; and GBK
	{traditionalchinese.Big5, [][2]byte{{0xa1, 0xa1}, {0xa4, 0xc6}}},
	{japanese.ShiftJIS, [][2]byte{{0x81, 0x83}, {0x88, 0x97}}}, // kana, and level 1 of JIS X 0208
	{japanese.EUCJP, [][2]byte{{0xa1, 0xa1}, {0xa4, 0xa5}, {0xb0, 0xcf}}},
	{korean.EUCKR, [][2]byte{{0xb0, 0xc8}}}, // Hangul
	// before the next, which has printable characters in place of its unused ones
	{charmap.ISO8859_2, nil},
	{charmap.Windows1250, nil},
	{charmap.Windows1254, nil}, // and ISO 8859-9
	{charmap.Windows1253, nil}, // and ISO 8859-7
	{charmap.ISO8859_7, nil},
	{charmap.Windows1256, nil},
	{charmap.ISO8859_6, nil},
	{charmap.Windows1255, nil}, // and ISO 8859-8
	{charmap.ISO8859_5, nil},
	{charmap.Windows1257, nil}, // and ISO 8859-13
	{charmap.Windows874, nil},  // and TIS-620
	{charmap.Windows1258, nil},
	{charmap.ISO8859_15, nil},
	{charmap.ISO8859_4, nil},
	{charmap.ISO8859_10, nil},
	{charmap.ISO8859_16, nil},
	{charmap.CodePage866, nil},
	{charmap.CodePage852, nil},
	{charmap.CodePage850, nil},
}

// read reads the lines that have raw bytes. It returns false if some byte is no printable character.
func (c *charset) read(lines, raw []string) (r reading, ok bool) {
	r.lines = slices.Clone(lines)
	for i, bytes := range raw {
		if bytes == "" {
			continue
		}
		text, err := c.encoding.NewDecoder().String(bytes)
		if err != nil || strings.ContainsFunc(text, unreadable) {
			return reading{}, false
		}
		r.lines[i] = text
		r.oddity += oddity(text)
		if c.common != nil {
			r.oddity += c.rare(bytes)
		}
	}
	return r, true
}

func unreadable(c rune) bool { return c == utf8.RuneError || !unicode.IsPrint(c) && c != '\u00a0' }

// rare counts the characters that are unusual in a charset of two bytes each.
func (c *charset) rare(bytes string) (n int) {
	for i := 0; i < len(bytes); i++ {
		lead := bytes[i]
		if lead < 0x80 {
			continue
		}
		if !slices.ContainsFunc(c.common, func(r [2]byte) bool { return r[0] <= lead && lead <= r[1] }) {
			n++
		}
		i++ // the second byte
	}
	return n
}

// oddity counts what is unusual within words: a capital behind a small letter, two alphabets, two Latin letters with
// marks in a row, and characters beyond ASCII that are no letters.
func oddity(text string) (n int) {
	before := rune(' ')
	for _, c := range text {
		marked := c >= 0x80
		switch {
		case marked && !unicode.In(c, unicode.L, unicode.M) && !strings.ContainsRune("\u00a0“”„«»‘’–—。，、：；！？（）", c):
			n++
		case !unicode.IsLetter(c) || !unicode.IsLetter(before) || !marked && before < 0x80:
		case unicode.IsUpper(c) && unicode.IsLower(before):
			n++
		case alphabet(c) != alphabet(before):
			n++
		case marked && before >= 0x80 && unicode.Is(unicode.Latin, c):
			n++
		}
		before = c
	}
	return n
}

// alphabet names the script of a letter; the scripts of East Asia, which words mix, are one.
func alphabet(c rune) *unicode.RangeTable {
	for _, script := range [...]*unicode.RangeTable{unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Arabic,
		unicode.Hebrew, unicode.Thai} {
		if unicode.Is(script, c) {
			return script
		}
	}
	return nil
}

package engine

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/idna"
	"pgregory.net/rapid"
)

// requireOneVerdict parses both spellings of a domain whose characters are in their canonical form.
func requireOneVerdict(t require.TestingT, domain string) {
	canonical, err := canonicalText(domain)
	if err != nil || canonical != domain {
		return
	}
	ascii, err := idna.Punycode.ToASCII(domain) // without any check
	if err != nil {
		return // it has an xn-- label with other characters
	}
	u, errU := ParseDomain(domain)
	a, errA := ParseDomain(ascii)
	require.Equal(t, errU == nil, errA == nil, "%+q: %v; its A-labels: %v", domain, errU, errA)
	if errU == nil {
		require.Equal(t, u, a, "%+q", domain)
	}
}

// TestBothSpellingsOfADomainHaveOneVerdict for each character, in the positions that rules speak of.
func TestBothSpellingsOfADomainHaveOneVerdict(t *testing.T) {
	for _, domain := range []string{"👍👍.example", "✉.example", "i❤.ws", "a--é.com", "жж--c.com", "·l.cat", "l·l.cat",
		"٣۳.com", "1א.com", "a・b.com", "カ・カ.jp", "-é.com", "é-.com", "xn--é.com",
		"a\u0301.com", "می\u200cخواهم.com", "a\u200cb.com", "①.com", "ﬁ.com", "👍\ufe0f.com", "👩\u200d🚀.com", "é.1",
		"\u0301a.com"} {
		requireOneVerdict(t, domain)
	}
	for r := rune(0x80); r <= utf8.MaxRune; r++ {
		if !utf8.ValidRune(r) || r > 0x3ffff && r < 0xe0000 { // nothing is assigned there
			continue
		}
		requireOneVerdict(t, string(r)+".com")
		requireOneVerdict(t, "a"+string(r)+"b.com")
	}
}

func TestBothSpellingsOfHostileDomainsHaveOneVerdict(t *testing.T) {
	pieces := []string{"a", "1", "-", "--", ".", "é", "ß", "ς", "ب", "א", "٣", "۳", "・", "·", "l", "😀", "\u200d",
		"\u200c", "क", "\u094d", "中", "ー", "\u0301", "ا"}
	rapid.Check(t, func(t *rapid.T) {
		requireOneVerdict(t, strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 1, 9).Draw(t, "pieces"), "")+".com")
	})
}

// TestDomainsThatResolveAreAsked: symbols, and hyphens in third and fourth place, are for DNS to decide.
func TestDomainsThatResolveAreAsked(t *testing.T) {
	for in, want := range map[string]string{"good@👍👍.example": "good@xn--yp8ha.example",
		"good@xn--yp8ha.example": "good@xn--yp8ha.example", "good@✉.example": "good@xn--4bi.example",
		"good@ab--cd.example": "good@ab--cd.example", "good@AB--CD.example": "good@ab--cd.example",
		"good@r3---sn.example": "good@r3---sn.example"} {
		a, err := Parse(in)
		require.NoError(t, err, in)
		require.Equal(t, want, a.Folded(), in)
		_, guessed := Guess(in)
		require.False(t, guessed, in)
	}
}

package engine

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// requireInvariants asserts the invariants of Address for one string.
func requireInvariants(t require.TestingT, s string) {
	a, err := Parse(s)
	if err != nil {
		require.IsType(t, SyntaxError{}, err)
		require.NotEmpty(t, err.Error())
		require.NotEqual(t, KindNone, err.(SyntaxError).Kind)
		require.True(t, a.IsZero())
		if guess, ok := Guess(s); ok {
			_, err := Parse(guess)
			require.NoError(t, err, "guess %q of %q", guess, s)
		}
		return
	}
	again, err := Parse(a.Mailbox())
	require.NoError(t, err, "%q of %q", a.Mailbox(), s)
	require.Equal(t, a, again, "%q", s)
	folded, err := Parse(a.Folded())
	require.NoError(t, err, "%q of %q", a.Folded(), s)
	require.Equal(t, a.Folded(), folded.Folded(), "%q", s)
	require.Equal(t, a.Local()+"@"+a.Domain(), a.Mailbox())
	require.LessOrEqual(t, len(a.Mailbox()), maxMailbox)
	require.True(t, utf8.ValidString(a.Mailbox()))
	require.Equal(t, s, Trim(s), "an address keeps its edges")
	_, ok := Guess(s)
	require.False(t, ok, "an address needs no guess: %q", s)
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"ann@example.com", `"a b"@example.com`, `"\a\"\\"@x.org`, "Ärger@Bücher.example",
		"a@xn--bcher-kva.example",
		"a.b+c@gmail.com", "İ@İstanbul.com", "क्\u200dष@example.com", "a@[1.2.3.4]", "a@日本・語.jp", "Ann <a@x.com>",
		"a at x dot com",
		"mailto:a%40b@x.com?subject=x", "ͅά@x.com", "K@K.com", ";@x.com", "≠@x.com", "a@l·l.cat", "a@א.ב"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) { requireInvariants(t, s) })
}

func TestParseInvariantsOnHostileText(t *testing.T) {
	pieces := []string{"a", "B", ".", "..", "@", `"`, `\`, " ", "+", "-", "--", "xn--", "é", "e\u0301", "İ", "ß", "ẞ",
		"Σ", "ς", "\u0345", "\u200d", "\u200c",
		"\u094d", "क", "ب", "א", "１", "٣", "۳", "・", "·", "l", "😀", "\ufe0f", "\u00ad", "\U00016ad6", "K", "\u037e",
		"\u0338", "=", "<",
		"x.com", "@x.com", "@gmail.com", "\u1e9e", "Ⱥ", "ǰ", "ΐ", "\u0390", "\ufb1d", "가", "\u1100\u1161", "\xff",
		"\x00", "中"}
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 9).Draw(t, "pieces"), "")
		requireInvariants(t, s)
		requireInvariants(t, s+"@x.com")
		requireInvariants(t, `"`+s+`"@x.com`)
		requireInvariants(t, "a@"+s+".com")
	})
}

func TestParseInvariantsOnEachCharacter(t *testing.T) {
	for r := rune(0); r <= utf8.MaxRune; r++ {
		if r > 0x3ffff && r < 0xe0000 { // nothing is assigned there
			continue
		}
		for _, s := range []string{"a" + string(r) + "@x.com", "a@" + string(r) + "a.com"} {
			a, err := Parse(s)
			if err != nil {
				continue
			}
			again, err := Parse(a.Mailbox())
			if err != nil || again != a {
				t.Errorf("%U: %q became %q, which parses to %q, %v", r, s, a.Mailbox(), again.Mailbox(), err)
			}
		}
	}
}

func TestParseAcceptsEveryOrdinaryAddress(t *testing.T) {
	local := rapid.StringMatching(`[a-z0-9!#$%&'*+/=?^_{|}~-]{1,20}(\.[a-z0-9]{1,10}){0,3}`)
	domain := rapid.StringMatching(`([a-z0-9]([a-z0-9]{1,9}-)?[a-z0-9]{1,9}\.){1,4}[a-z]{2,10}`)
	rapid.Check(t, func(t *rapid.T) {
		l, d := local.Draw(t, "local"), domain.Draw(t, "domain")
		a, err := Parse(l + "@" + d)
		require.NoError(t, err)
		upper, err := ParseTrimmed("\ufeff " + strings.ToUpper(l+"@"+d) + "\u200b\r\n")
		require.NoError(t, err)
		require.Equal(t, a, upper)
		require.True(t, isASCII(a.Local()))
		if !strings.HasSuffix(d, "gmail.com") {
			require.Equal(t, l+"@"+d, a.Folded())
		}
	})
}

func TestParseOfAPlainAddressAllocatesNothing(t *testing.T) {
	s := "first.last+tag@mail.example.com"
	require.Zero(t, testing.AllocsPerRun(100, func() { _, _ = ParseTrimmed(s) }))
}

func BenchmarkParsePlain(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = ParseTrimmed("first.last+tag@mail.example.com")
	}
}

func BenchmarkParseUpper(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = ParseTrimmed("First.Last@Mail.Example.COM")
	}
}

func BenchmarkParseIDN(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, _ = ParseTrimmed("jürgen@bücher.example")
	}
}

func isASCII(s string) bool {
	_, ascii := lowerASCII(s)
	return ascii
}

package engine

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// sharedFile finds a file of the shared corpora next to the repository, and skips the test if there is none.
func sharedFile(t *testing.T, name string) []byte {
	t.Helper()
	dir, err := os.Getwd()
	require.NoError(t, err)
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "..", "shared", "corpora", name))
	if err != nil {
		t.Skipf("the shared corpus %s is not here: %v", name, errors.Unwrap(err))
	}
	return b
}

func TestSharedAddresses(t *testing.T) {
	rows := strings.Split(strings.TrimSpace(string(sharedFile(t, "addresses.tsv"))), "\n")
	for _, row := range rows[1:] {
		cells := strings.Split(row, "\t")
		var s string
		require.NoError(t, json.Unmarshal([]byte(cells[0]), &s))
		_, err := Parse(s)
		if want := cells[1] == "valid"; want != (err == nil) {
			t.Errorf("%s (%s): want %s, got %v", cells[0], cells[2], cells[1], err)
		}
	}
}

func TestAtextIsThatOfTheRFC(t *testing.T) {
	const atext = "!#$%&'*+-/=?^_`{|}~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for c := range 256 {
		require.Equal(t, strings.IndexByte(atext, byte(c)) >= 0, isAtext(byte(c)), "%q", c)
	}
}

func TestParseGivesTheRcptAndTheFoldedForm(t *testing.T) {
	for _, c := range []struct{ in, mailbox, folded string }{
		{"Ann.B+x@Example.COM", "ann.b+x@example.com", "ann.b+x@example.com"},
		{"A.n.n+x+y@Gmail.com", "a.n.n+x+y@gmail.com", "ann@gmail.com"},
		{"a.n.n@googlemail.com", "a.n.n@googlemail.com", "ann@googlemail.com"},
		{"a.n+n@mail.gmail.com", "a.n+n@mail.gmail.com", "a.n+n@mail.gmail.com"},
		{"+x.y@gmail.com", "+x.y@gmail.com", "+x.y@gmail.com"},
		{`"a.n+n"@gmail.com`, "a.n+n@gmail.com", "an@gmail.com"},
		{`"a. n+n"@gmail.com`, `"a. n+n"@gmail.com`, `"a. n+n"@gmail.com`},
		{`"Ann"@x.com`, "ann@x.com", "ann@x.com"},
		{`"a\n\n"@x.com`, "ann@x.com", "ann@x.com"},
		{`"a\ b"@x.com`, `"a b"@x.com`, `"a b"@x.com`},
		{`"a\"b\\c"@x.com`, `"a\"b\\c"@x.com`, `"a\"b\\c"@x.com`},
		{`"Abc@def"@x.com`, `"abc@def"@x.com`, `"abc@def"@x.com`},
		{`""@x.com`, `""@x.com`, `""@x.com`},
		{`"a..b"@x.com`, `"a..b"@x.com`, `"a..b"@x.com`},
		{`"é"@x.com`, "é@x.com", "é@x.com"},
		{"E\u0301@x.com", "é@x.com", "é@x.com"},
		{"ann@BÜCHER.example", "ann@xn--bcher-kva.example", "ann@xn--bcher-kva.example"},
		{"ann@bu\u0308cher.example", "ann@xn--bcher-kva.example", "ann@xn--bcher-kva.example"},
		{"ann@XN--BCHER-KVA.example", "ann@xn--bcher-kva.example", "ann@xn--bcher-kva.example"},
		{"ann@straße.de", "ann@xn--strae-oqa.de", "ann@xn--strae-oqa.de"},
		{"a@İ.com", "a@xn--i-9bb.com", "a@xn--i-9bb.com"}, // not the letter i
		{"a@intel·ligent.cat", "a@xn--intelligent-9sa.cat", "a@xn--intelligent-9sa.cat"},
	} {
		a, err := Parse(c.in)
		require.NoError(t, err, c.in)
		require.Equal(t, c.mailbox, a.Mailbox(), c.in)
		require.Equal(t, c.folded, a.Folded(), c.in)
	}
}

func TestParseSaysWhatIsWrong(t *testing.T) {
	l64 := strings.Repeat("a", 64)
	for in, want := range map[string]SyntaxKind{
		"": KindEmpty, "ann": KindNoAt, `"ann@x.com"`: KindNoAt, "@x.com": KindLocal, "ann@": KindDomain,
		"a@b@x.com": KindExtraAt, "a@x.com;b@x.com": KindDomain,
		l64 + "a@x.com": KindLength, `"` + l64 + `"@x.com`: KindLength, "a@" + l64 + ".com": KindLength,
		l64 + "@" + strings.Repeat("b2345678.", 22) + "com": KindLength,
		strings.Repeat("Ⱥ", 32) + "@x.com":                  KindLength,
		"a@" + strings.Repeat("ü", 60) + ".com":             KindLength,
		strings.Repeat("a", 5000):                           KindLength,
		" a@x.com":                                          KindSpace, "a b@x.com": KindSpace, "a@x .com": KindSpace,
		"a\u00a0b@x.com": KindSpace,
		"a@x\u3000.com":  KindSpace, "\"a\u2003b\"@x.com": KindSpace,
		"a\tb@x.com": KindControl, "a@x.com\r\n": KindControl, "\"a\x00\"@x.com": KindControl,
		"a\u0085@x.com":  KindControl,
		"a\u200bb@x.com": KindInvisible, "a@x\u200b.com": KindInvisible, "a\u00ad@x.com": KindInvisible,
		"a\u3164@x.com": KindInvisible, "a\u202eb@x.com": KindInvisible,
		"a\U000e0041@x.com": KindInvisible, "a\ue000@x.com": KindInvisible, "a\u0378@x.com": KindInvisible,
		"a\ufe0f@x.com": KindInvisible, "\u0301a@x.com": KindInvisible,
		"a\u200d@x.com": KindInvisible, "a\ufdd0@x.com": KindInvisible, "a\ufffdb@x.com": KindEncoding,
		"a\xff@x.com": KindEncoding, "a@\xff.com": KindEncoding, "a@\ufffd.com": KindEncoding,
		"a(b)@x.com": KindComment, "a@x.com(b)": KindComment, "a<b@x.com": KindLocal, "a\\b@x.com": KindLocal,
		"a,b@x.com": KindLocal, "a\u037e@x.com": KindLocal,
		`"a@x.com`: KindQuoted, `"a"b@x.com`: KindQuoted, `a"b"@x.com`: KindQuoted, `"a".b@x.com`: KindQuoted,
		`"a\é"@x.com`: KindQuoted, `"a\`: KindQuoted, `"a"`: KindNoAt,
		".a@x.com": KindDots, "a.@x.com": KindDots, "a..b@x.com": KindDots, "a@.x.com": KindDots, "a@x..com": KindDots,
		"a@.":      KindDots,
		"a@-x.com": KindDomain, "a@x-.com": KindDomain, "a@x_y.com": KindDomain, "a@1.2.3.4": KindDomain,
		"a@x.123": KindDomain,
		"a@ｘ.com": KindIDN, "a@x。com": KindIDN, "a@xn--a.com": KindIDN, "a@xn--.com": KindDomain,
		"a@xn--bcher-kva-.com": KindDomain, "a@xn--abc-.com": KindDomain,
		"a@٣۳.com": KindIDN, "a@1א.com": KindIDN, "a@①.com": KindIDN, "a@ﬁ.com": KindIDN,
		"a@a\u0301\u200cb.com": KindIDN, "a@\u0301a.com": KindIDN,
		"a@x": KindDotless, "a@localhost": KindDotless, "a@日本": KindDotless, "a@x.com.": KindTrailingDot,
		"a@日本.jp.":    KindTrailingDot,
		"a@[1.2.3.4]": KindLiteral, "a@[IPv6:::1]": KindLiteral, "a@[::1]": KindLiteral, "a@[": KindLiteral,
		"a@[x]": KindLiteral,
	} {
		a, err := Parse(in)
		var se SyntaxError
		require.ErrorAs(t, err, &se, "%q", in)
		require.Equal(t, want.String(), se.Kind.String(), "%q: %s", in, se.Detail)
		require.Equal(t, Address{}, a)
	}
}

func TestParseAcceptsRareForms(t *testing.T) {
	for _, in := range []string{
		"a@b.c", "1@1.co", "!#$%&'*+-/=?^_`{|}~@x.com", strings.Repeat("a", 64) + "@x.com", "a@a--b.com",
		"a@x.xn--p1ai", "пример@пример.рф", "a@点看.com",
		"क्\u200dष@x.com", "می\u200cخواهم@x.com", "a@می\u200cخواهم.com", "❤\ufe0f@x.com", "😀@x.com", "a@א.ב.com",
		"a@カ・カ.jp", "a@xn--i-7iq.ws", `" "@x.com`, `"(),:;<>@[\\]"@x.com`,
	} {
		a, err := Parse(in)
		require.NoError(t, err, in)
		require.Equal(t, !isASCII(in[:strings.LastIndexByte(in, '@')]), !isASCII(a.Local()), in)
	}
}

func TestTrim(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "a": "a", " \t\r\na@x.com\v\f ": "a@x.com", "\ufeffa\u200b": "a", "\u00a0a b\u3000": "a b",
		"\u2060\u200e\u202aa\u202c\u00ad": "a", "é ": "é",
		"\x00a": "\x00a", " \ufeff ": "", "\xffa ": "\xffa", "\u0085a\u2028": "a",
	} {
		require.Equal(t, want, Trim(in), "%q", in)
	}
}

func TestGuess(t *testing.T) {
	for in, want := range map[string]string{
		"Ann <a@x.com>": "a@x.com", "<a@x.com>": "a@x.com", `"Ann, B." <a@x.com>`: "a@x.com", "Ann <a@x.com": "a@x.com",
		"mailto:a@x.com":                "a@x.com",
		"MAILTO:a%2Bb@x.com?subject=hi": "a+b@x.com", "Ann <mailto:a@x.com>": "a@x.com", " a@x.com ": "a@x.com",
		"a@x.com.": "a@x.com", "a@x.com,": "a@x.com", "(a@x.com)": "a@x.com",
		"'a@x.com'": "a@x.com", `"a@x.com"`: "a@x.com", "a@x,com": "a@x.com", "a@x..com": "a@x.com",
		"a@@x.com": "a@x.com", "a @ x.com": "a@x.com", "a@x. com": "a@x.com",
		"a\u200b@x.com": "a@x.com", "ａ＠ｘ．ｃｏｍ": "a@x.com", "a@x。com": "a@x.com", "a at x dot com": "a@x.com",
		"a(at)x.com": "a@x.com", "A [AT] x [DOT] com": "A@x.com",
		"pete(his account)@silly.test": "pete@silly.test", ".a@x.com": "a@x.com", "a..b@x.com": "a.b@x.com",
		"a@gmail": "a@gmail.com", "a@gmailcom": "a@gmail.com", "a@.x.com": "a@x.com",

		"a@x.com": "", "": "", "a": "", "a b@x.com": "", "a@x.com, b@y.com": "", "a@x.com b@y.com": "",
		"a@x.com;b@y.com": "", "<a@x.com> <b@y.com>": "", "a@[1.2.3.4]": "", "a@x": "", "@": "", "<": "", "mailto:": "",
	} {
		got, ok := Guess(in)
		require.Equal(t, want, got, "%q", in)
		require.Equal(t, want != "", ok, "%q", in)
	}
}

func TestParseDomain(t *testing.T) {
	d, err := ParseDomain("BÜCHER.example")
	require.NoError(t, err)
	require.Equal(t, "xn--bcher-kva.example", d)
	for _, in := range []string{"", "x", "x.com.", "a@x.com", "[1.2.3.4]", strings.Repeat("a.", 3000) + "com"} {
		_, err := ParseDomain(in)
		require.Error(t, err, in)
	}
}

package engine

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestDotsOfCarriersAreQuoted: a mailbox with two dots, or a dot before the @, is asked in quoted form, is one mailbox
// in both forms, and has no suggestion of another person's.
func TestDotsOfCarriersAreQuoted(t *testing.T) {
	for _, domain := range []string{"docomo.ne.jp", "ezweb.ne.jp", "au.com", "softbank.ne.jp", "i.softbank.jp",
		"t.vodafone.ne.jp", "disney.ne.jp", "DOCOMO.ne.JP"} {
		for local, want := range map[string]string{"ab..cd": `"ab..cd"`, "ab.cd.": `"ab.cd."`, "a...b..": `"a...b.."`,
			"Ab..": `"ab.."`, "a+b..-_": `"a+b..-_"`, "ab.cd": "ab.cd"} {
			a, err := Parse(local + "@" + domain)
			require.NoError(t, err, local)
			require.Equal(t, want+"@"+strings.ToLower(domain), a.Mailbox())
			require.Equal(t, want+"@"+strings.ToLower(domain), a.Folded())
			quoted, err := Parse(`"` + local + `"@` + domain)
			require.NoError(t, err, local)
			require.Equal(t, a.Folded(), quoted.Folded(), "both forms fold to one")
			_, guessed := Guess(local + "@" + domain)
			require.False(t, guessed)
			for _, typed := range []string{"Ann <" + local + "@" + domain + ">", local + "@@" + domain,
				local + "@" + strings.ReplaceAll(domain, ".", ","), local + "@" + domain + ".,"} {
				guess, guessed := Guess(typed)
				require.True(t, guessed, typed)
				again, err := Parse(guess)
				require.NoError(t, err, typed)
				require.Equal(t, a, again, typed)
			}
		}
		for _, local := range []string{".ab", "..", ".", "a..b c", "a..(b)", "a..\x01", strings.Repeat("a", 62) + "..",
			`"a"..b`} {
			_, err := Parse(local + "@" + domain)
			require.Error(t, err, local)
		}
	}
	for _, domain := range []string{"notdocomo.ne.jp", "ne.jp", "docomo.ne.jp.example", "softbank.jp", "gmail.com",
		"example.co.jp", "bau.com"} {
		_, err := Parse("ab..cd@" + domain)
		require.ErrorAs(t, err, &SyntaxError{}, domain)
		guess, guessed := Guess("ab..cd@" + domain)
		require.True(t, guessed)
		require.Equal(t, "ab.cd@"+domain, guess)
	}
}

package shownname

import (
	"testing"

	"github.com/stretchr/testify/require"
)

const bound = 40

// TestCheck: what people write in any script is accepted, and what hides or moves other characters is not, wherever it
// stands.
func TestCheck(t *testing.T) {
	for _, good := range []string{"", "spring list", "l'été 2027 (b)", "список", "رشته", "می\u200cخواهم", "क्\u200dष",
		"\u2764\ufe0f", "\U0001f469\u200d\U0001f4bb",
		"\u2764\ufe0f\u200d\U0001f525", "\ufffd", "a\u00a0b", "東京\U000e0100"} {
		require.NoError(t, Check(good, bound), "%q", good)
		require.Equal(t, good, Clean(good, bound))
	}
	for _, hidden := range []string{"\x00", "\t", "\n", "\x1b", "\x7f", "\u0085", "\u00ad", "\u034f", "\u061c",
		"\u200b", "\u200c", "\u200d", "\u200e", "\u2028",
		"\u2029", "\u202e", "\u2066", "\u2069", "\u2060", "\u2800", "\u3164", "\ufe0f", "\ufeff", "\ufff9",
		"\U000e0041", "\U000e0100"} {
		for sent, character := range map[string]string{hidden + "ab": "character 1,",
			"a" + hidden + "b": "character 2,", "ab" + hidden: "character 3,"} {
			require.ErrorContains(t, Check(sent, bound), character, "%q", sent)
			require.Equal(t, "ab", Clean(sent, bound), "%q", sent)
		}
	}
	require.EqualError(t, Check("fsc\u202etsil", bound),
		"has U+202E as its character 4, which cannot be seen, breaks the line, or changes how others are shown: remove it")
	require.ErrorContains(t, Check(" \u00a0\u3000", bound), "only white space")
	require.ErrorContains(t, Check("é\xff", bound), "must be UTF-8: character 2")
	require.ErrorContains(t, Check("12345678901234567890123456789012345678901", bound), "at most 40 bytes")
	require.Equal(t, "éé", Clean("ééé", 5), "cut between characters")
	require.Empty(t, Clean(" \u202e ", bound))
}

// FuzzClean: what Clean returns is good, is not longer than it was, and is not changed by another Clean.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{"a\u202eb", "é\u200d\u202eà", "é\u200d\ufe0fà", "\xff\xc3", "é\u200d\u200dà",
		"\u2764\ufe0f\ufe0f\u200d\U0001f525", " \u200b"} {
		f.Add(seed, 9)
	}
	f.Fuzz(func(t *testing.T, s string, most int) {
		if most < 0 {
			return
		}
		clean := Clean(s, most)
		require.NoError(t, Check(clean, most))
		require.LessOrEqual(t, len(clean), len(s))
		require.Equal(t, clean, Clean(clean, most))
		if Check(s, most) == nil {
			require.Equal(t, s, clean)
		}
	})
}

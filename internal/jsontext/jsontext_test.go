package jsontext

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestAppendStringIsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		var back string
		require.NoError(t, json.Unmarshal(AppendString(nil, s), &back))
		require.Equal(t, s, back)
	})
	for _, s := range []string{"a\xffb", "\xed\xa0\x80", "\u2028\u2029</script>", "\x00\x1f\x7f"} {
		var back string
		require.NoError(t, json.Unmarshal(AppendString(nil, s), &back))
		if utf8.ValidString(s) {
			require.Equal(t, s, back)
		}
	}
}

func FuzzAppendString(f *testing.F) {
	f.Add("a\"\\\x00\xff é")
	f.Fuzz(func(t *testing.T, s string) {
		var got string
		require.NoError(t, json.Unmarshal(AppendString(nil, s), &got))
		if utf8.ValidString(s) {
			require.Equal(t, s, got)
		}
	})
}

package phrase

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesAreBlanked(t *testing.T) {
	for _, c := range []struct{ line, name, want string }{
		{"monday: no such user", "monday", " @ no such user "},
		{"User Guest unknown, guest", "guest", " user @ unknown @ "},
		{"no-such-user is away", "no-such-user", " @ is away "},
		{"ann.b is here, ann.bc not", "ann.b", " @ is here ann.bc not "},
		{"nothing of it", "", " nothing of it "},
		{"nothing of it", "??", " nothing of it "},
		{"Иван не найден", "иван", string(AppendWords([]byte{' '}, "@ не найден"))},
	} {
		require.Equal(t, c.want, string(BlankName(AppendWords([]byte{' '}, c.line), c.name)), c.line)
	}
}

func FuzzBlankName(f *testing.F) {
	f.Add("User guest unknown", "guest")
	f.Add("aa aa aa", "aa")
	f.Add("邮 邮", "邮")
	f.Fuzz(func(t *testing.T, line, name string) {
		words := string(AppendWords([]byte{' '}, line))
		blank := string(BlankName([]byte(words), name))
		require.LessOrEqual(t, len(blank), len(words))
		require.True(t, strings.HasPrefix(blank, " ") && strings.HasSuffix(blank, " "))
	})
}

func TestWordsOfAnAcceptanceAreCounted(t *testing.T) {
	for line, want := range map[string]int{
		"2.1.5 OK": 0, "2.1.5 <ann@dom.example> recipient ok": 1, "2.1.5 OK 5-20020a170906 - gsmtp": 1,
		"User unknown; held for review": 5, "": 0,
	} {
		require.Equal(t, want, CountWords(line), line)
	}
}

func TestOnlyCodes(t *testing.T) {
	for line, want := range map[string]bool{"5.1.1": true, "5.1.1 <ann@dom.example>": true, "#5.1.1 [550]": true,
		"": true, "5.1.1 gone": false, "x": false} {
		require.Equal(t, want, OnlyCodes(AppendWords([]byte{' '}, line)), line)
	}
}

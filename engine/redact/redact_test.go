package redact

import (
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"5.1.1 <ann.lee@x.org>: unknown":    "5.1.1 <address>: unknown",
		"ann.lee@x.org unknown":             "<address> unknown",
		"no such user ann.lee, sorry":       "no such user <address>, sorry",
		"no such user=Ann.Lee; sorry":       "no such user=<address>; sorry",
		"/var/mail/ann.lee's is full":       "/var/mail/<address>'s is full",
		"joann.leering is someone else":     "joann.leering is someone else",
		"two\r\nlines\tand\x00 a control":   "two lines and a control",
		"decoy <karen.k9@x.org> refused ok": "decoy <address> refused ok",
	} {
		require.Equal(t, want, Text(in, "ann.lee"))
	}
	require.Equal(t, "no such user", Text("no such user", ""))
}

func FuzzText(f *testing.F) {
	f.Add("550 5.1.1 <ann@x.org>: no such user ann", "ann")
	f.Fuzz(func(t *testing.T, text, local string) {
		got := Text(text, local)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, utf8.RuneCountInString(got), MaxText)
		require.NotContains(t, got, "@")
		require.NotContains(t, got, "\n")
		require.Equal(t, got, Text(got, local))
	})
}

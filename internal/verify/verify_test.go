package verify

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/console"
)

// TestLongAddressLeavesTheTableReadable: it keeps its domain, and no line is wide because of it.
func TestLongAddressLeavesTheTableReadable(t *testing.T) {
	long := strings.Repeat("a", 3000)
	answers := []results.Single{
		{Email: long + "@gmial.example", DidYouMean: long + "@gmail.example",
			Verdict: engine.Verdict{MX: []string{long + ".mx.example"}}},
		{Email: "ann@shop.example"},
	}
	var out bytes.Buffer
	require.NoError(t, printTable(&console.IO{Out: &out}, answers))
	for line := range strings.Lines(out.String()) {
		require.Less(t, utf8.RuneCountInString(line), 300)
	}
	for _, end := range []string{"@gmial.example", "@gmail.example", ".mx.example"} {
		require.Regexp(t, `aa…a+`+end, out.String())
	}
	require.Contains(t, out.String(), "ann@shop.example")
}

package console

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRowsKeepControlCharactersOutOfTheTable(t *testing.T) {
	var out bytes.Buffer
	rows := []string{"plain", "", "\x1b[31m<red>\u009b"}
	cells := func(s string) []string { return []string{s, "x"} }
	require.NoError(t, PrintRows(&IO{Out: &out}, false, "NAME\tMORE", rows, cells))
	require.Equal(t, "NAME         MORE\nplain        x\n-            x\n\uFFFD[31m<red>\uFFFD  x\n", out.String())
	out.Reset()
	require.NoError(t, PrintRows(&IO{Out: &out}, true, "NAME\tMORE", rows[2:], cells))
	require.Equal(t, "\"\\u001b[31m<red>\u009b\"\n", out.String())
}

// TestLongTextIsShortened: what begins and what ends it stay, and characters are not cut in two.
func TestLongTextIsShortened(t *testing.T) {
	longest := strings.Repeat("ä", maxCell)
	require.Equal(t, longest, Shorten(longest))
	require.Equal(t, "b"+longest[:2*(maxCell/2-2)]+"…"+longest[:2*(maxCell/2-len("@x.example"))]+"@x.example",
		Shorten("b"+longest+"@x.example"))
}

func TestCountedHasItsNoun(t *testing.T) {
	require.Equal(t, []string{"0 jobs", "1 job", "2 jobs"},
		[]string{Counted(0, "job"), Counted(int64(1), "job"), Counted(2, "job")})
}

func TestTimesAreInUTC(t *testing.T) {
	require.Empty(t, FormatTime(time.Time{}))
	require.Equal(t, "2026-11-25T15:00:00Z", FormatTime(time.Date(2026, 11, 25, 16, 0, 0, 0,
		time.FixedZone("CET", 3600))))
}

package engine

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var rewrite = flag.Bool("rewrite", false, "write what the tests see into their testdata")

// TestRepliesByExample classifies testdata/replies.txt, one reply a line: stage | provider hint | reply => meaning
// blame rule. A changed finding shows as a changed line of that file.
func TestRepliesByExample(t *testing.T) {
	const path = "testdata/replies.txt"
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	table := DefaultTable()
	var seen bytes.Buffer
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		example, want, ok := strings.Cut(line, " => ")
		if !ok || strings.HasPrefix(line, "#") {
			fmt.Fprintln(&seen, line)
			continue
		}
		f := judgeExample(t, table, example)
		got := fmt.Sprintf("%v %v %s", f.Meaning, f.Blame, f.Rule)
		fmt.Fprintf(&seen, "%s => %s\n", example, got)
		if !*rewrite && got != want {
			t.Errorf("%s\n got %s\nwant %s", example, got, want)
		}
	}
	if *rewrite {
		require.NoError(t, os.WriteFile(path, seen.Bytes(), 0o644))
	}
}

func judgeExample(t *testing.T, table *Table, example string) Finding {
	t.Helper()
	fields := strings.SplitN(example, "|", 3)
	require.Len(t, fields, 3, example)
	stage := slices.Index(stageNames[:], strings.TrimSpace(fields[0]))
	require.GreaterOrEqual(t, stage, 0, example)
	r, err := ParseReply(Stage(stage), strings.ReplaceAll(strings.TrimSpace(fields[2]), `\n`, "\n"))
	require.NoError(t, err, example)
	return table.Classify(table.ProviderOfHint(fields[1]), r, SenderIdentity{})
}

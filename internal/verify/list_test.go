package verify

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/coordinator/csvfile"
	"probity/coordinator/results"
	"probity/internal/console"
)

func TestEndingDecidesTheForm(t *testing.T) {
	for path, want := range map[string]results.Form{"r.CSV": {Format: results.CSV, Compress: results.None}, "a.b/r.csv.gz": {Format: results.CSV, Compress: results.Gzip},
		"r.jsonl.zst": {Format: results.JSONL, Compress: results.Zstd}} {
		form, err := resultFormOf(path)
		require.NoError(t, err, path)
		require.Equal(t, want, form, path)
	}
	for _, path := range []string{"r", "r.json", "csv", "r.csv.bz2"} {
		_, err := resultFormOf(path)
		require.ErrorIs(t, err, console.ErrUsage, path)
	}
}

// TestResultIsNotWrittenOver: a result that is there, and the list itself, stay without --force; an interrupted run continues.
func TestResultIsNotWrittenOver(t *testing.T) {
	at := func(name string) string { return filepath.Join(t.TempDir(), name) }
	list, result := at("list.csv"), at("result.csv")
	for _, file := range []string{list, result} {
		require.NoError(t, os.WriteFile(file, []byte("email\n"), 0o600))
	}
	check := func(c Command) error { return c.checkListTarget(list) }
	require.ErrorContains(t, check(Command{Output: result}), "is there already")
	require.NoError(t, check(Command{Output: result, Force: true}))
	require.NoError(t, os.Mkdir(result+progressFolder, 0o700))
	require.NoError(t, check(Command{Output: result}))
	require.ErrorContains(t, check(Command{Output: list, Force: true}), "is the list itself")
	require.ErrorContains(t, check(Command{Output: filepath.Join(filepath.Dir(result), "none", "r.csv")}), "there is no such folder")
}

// TestListErrorsNameFlags: the options of the API are flags here.
func TestListErrorsNameFlags(t *testing.T) {
	other := errors.New("disk full")
	require.Equal(t, other, ListError("l.csv", other))
	require.NoError(t, ListError("l.csv", nil))
	err := ListError("l.csv", &csvfile.Error{Detail: "name it with email_column, or has_header=false"})
	require.EqualError(t, err, "l.csv: name it with --column, or --no-header")
}

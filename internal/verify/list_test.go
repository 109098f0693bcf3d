package verify

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/csvfile"
	"probity/coordinator/results"
	"probity/internal/app"
	"probity/internal/console"
	"probity/internal/nodeflags"
	"probity/store"
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

// TestProgressIsOfOneListAndItsOptions: another list or other options are refused, the same command goes on.
func TestProgressIsOfOneListAndItsOptions(t *testing.T) {
	at := t.TempDir()
	list, other := filepath.Join(at, "list.csv"), filepath.Join(at, "other.csv")
	require.NoError(t, os.WriteFile(list, []byte("email,name\nann@shop.example,Ann\n"), 0o600))
	require.NoError(t, os.WriteFile(other, []byte("email,name\nbob@shop.example,Bob\n"), 0o600))
	var words bytes.Buffer
	flags := nodeflags.Probing{DNS: []nodeflags.ResolverAddr{{AddrPort: netip.MustParseAddrPort("127.0.0.1:1")}}, SMTPPort: 25}
	l := listJob{Command: &Command{Probing: flags, Output: filepath.Join(at, "r.csv"), MaxAge: app.Period(time.Hour)}, con: &console.IO{Err: &words}, file: list,
		dir: filepath.Join(at, "r.csv.progress")}
	n, err := app.OpenNode(&flags, app.NodeConfig{FS: vfs.Default, Dir: l.dir, Log: l.con.Log()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	accepted, err := l.findOrAcceptJob(t.Context(), n)
	require.NoError(t, err)
	for name, change := range map[string]func(*listJob){
		"another list":    func(l *listJob) { l.file = other },
		"--column":        func(l *listJob) { l.Column = "name" },
		"--no-header":     func(l *listJob) { l.NoHead = true },
		"--no-smtp":       func(l *listJob) { l.NoSMTP = true },
		"--max-age":       func(l *listJob) { l.MaxAge = 0 },
		"--respect-terms": func(l *listJob) { l.RespectTerms = true },
	} {
		changed, command := l, *l.Command
		changed.Command = &command
		change(&changed)
		_, err := changed.findOrAcceptJob(t.Context(), n)
		require.ErrorContains(t, err, l.dir+" holds the progress of another list or of other options", name)
		require.ErrorContains(t, err, "repeat that command, name another -o, or delete that folder", name)
	}
	require.Empty(t, words.String())
	same, err := l.findOrAcceptJob(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, accepted.ID, same.ID)
	require.Equal(t, "going on with "+list+" where it stopped\n", words.String())
}

// TestDamagedProgressSaysWhatToDo: nothing of it can be restored, but the list can be begun again.
func TestDamagedProgressSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second start writes the log into a table
		s, err := store.Open(vfs.Default, filepath.Join(dir, "state"))
		require.NoError(t, err)
		require.NoError(t, s.Close())
	}
	tables, err := filepath.Glob(filepath.Join(dir, "state", "*.sst"))
	require.NoError(t, err)
	require.NotEmpty(t, tables)
	require.NoError(t, os.Truncate(tables[0], 10))
	c := &Command{Output: filepath.Join(t.TempDir(), "r.csv")}
	c.DNS = []nodeflags.ResolverAddr{{AddrPort: netip.MustParseAddrPort("127.0.0.1:1")}}
	l := &listJob{Command: c, con: &console.IO{Err: io.Discard}, log: slog.New(slog.DiscardHandler), dir: dir}
	err = l.verify(t.Context(), nil)
	require.ErrorContains(t, err, "the progress in "+dir+" is damaged")
	require.ErrorContains(t, err, "delete that folder")
	require.DirExists(t, dir)
}

// TestListErrorsNameFlags: the options of the API are flags here.
func TestListErrorsNameFlags(t *testing.T) {
	other := errors.New("disk full")
	require.Equal(t, other, ListError("l.csv", other))
	require.NoError(t, ListError("l.csv", nil))
	err := ListError("l.csv", &csvfile.Error{Detail: "name it with email_column, or has_header=false"})
	require.EqualError(t, err, "l.csv: name it with --column, or --no-header")
}

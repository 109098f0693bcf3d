package verify

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/csvfile"
	"probity/coordinator/ingest"
	"probity/coordinator/results"
	"probity/internal/app"
	"probity/internal/console"
	"probity/internal/nodeflags"
	"probity/store"
)

func TestEndingDecidesTheForm(t *testing.T) {
	for path, want := range map[string]results.Form{"r.CSV": {Format: results.CSV, Compress: results.None},
		"a.b/r.csv.gz": {Format: results.CSV, Compress: results.Gzip},
		"r.jsonl.zst":  {Format: results.JSONL, Compress: results.Zstd}} {
		form, err := resultFormOf(path)
		require.NoError(t, err, path)
		require.Equal(t, want, form, path)
	}
	for _, path := range []string{"r", "r.json", "csv", "r.csv.bz2"} {
		_, err := resultFormOf(path)
		require.ErrorIs(t, err, console.ErrUsage, path)
	}
}

// TestResultIsNotWrittenOver: a result that is there, and the list itself, stay without --force; an interrupted run
// continues.
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
	require.ErrorContains(t, check(Command{Output: filepath.Join(filepath.Dir(result), "none", "r.csv")}),
		"there is no such folder")
}

// newListCommand is a command that verifies list into result, with a DNS server that does not answer.
func newListCommand(list, result string) *Command {
	c := &Command{Targets: []string{list}, Output: result, MaxAge: app.Period(time.Hour), NoSMTP: true}
	c.DNS, c.SMTPPort = []nodeflags.ResolverAddr{{AddrPort: netip.MustParseAddrPort("127.0.0.1:1")}}, 25
	return c
}

// writeList writes a list that needs no server, and returns its path and that of its result.
func writeList(t *testing.T) (list, result string) {
	t.Helper()
	at := t.TempDir()
	list = filepath.Join(at, "list.csv")
	require.NoError(t, os.WriteFile(list, []byte("email\nnot an address\n"), 0o600))
	return list, filepath.Join(at, "result.csv")
}

// quietConsole has a list on standard input.
func quietConsole() *console.IO {
	return &console.IO{In: strings.NewReader("email\nnot an address\n"), Out: io.Discard, Err: io.Discard}
}

// TestFailedStartLeavesNoProgress: a run that fails before the list is a job removes the folder that it made.
func TestFailedStartLeavesNoProgress(t *testing.T) {
	for name, spoil := range map[string]func(*Command){
		"flags": func(c *Command) { c.Providers = c.Output + ".none" },
		"the prober's part": func(c *Command) {
			c.MailFrom, c.Egress = "a@b.example",
				[]nodeflags.Egress{"192.0.2.1=mx.b.example"}
		},
		"the list": func(c *Command) { c.Column = "other" },
	} {
		list, result := writeList(t)
		c := newListCommand(list, result)
		spoil(c)
		require.Error(t, c.Run(t.Context(), quietConsole()), name)
		require.NoDirExists(t, result+progressFolder, name)
	}
}

// TestFolderWithoutJobIsNoProgress: a folder in which no list became a job does not let a run write over a result, and
// keeps no list on standard input from being verified.
func TestFolderWithoutJobIsNoProgress(t *testing.T) {
	list, result := writeList(t)
	require.NoError(t, os.WriteFile(result, []byte("of another run"), 0o600))
	require.NoError(t, os.Mkdir(result+progressFolder, 0o700))
	err := newListCommand(list, result).Run(t.Context(), quietConsole())
	require.ErrorIs(t, err, console.ErrUsage)
	require.ErrorContains(t, err, "is there already")
	kept, err := os.ReadFile(result)
	require.NoError(t, err)
	require.Equal(t, "of another run", string(kept))

	require.NoError(t, os.MkdirAll(result+progressFolder, 0o700))
	require.NoError(t, os.Remove(result))
	require.NoError(t, newListCommand(stdin, result).Run(t.Context(), quietConsole()))
	require.FileExists(t, result)
	require.NoDirExists(t, result+progressFolder)
}

// TestFolderOfOtherFilesIsLeftAlone: a folder in the place of the progress that has files but no store is refused,
// whatever the list is.
func TestFolderOfOtherFilesIsLeftAlone(t *testing.T) {
	list, result := writeList(t)
	mine := filepath.Join(result+progressFolder, "mine.txt")
	require.NoError(t, os.Mkdir(result+progressFolder, 0o700))
	require.NoError(t, os.WriteFile(mine, nil, 0o600))
	require.NoError(t, os.Chmod(result+progressFolder, 0o755)) // whatever the umask is
	require.NoError(t, os.Chmod(mine, 0o644))
	refused := newListCommand(list, result)
	refused.Column = "other"
	for _, c := range []*Command{newListCommand(list, result), newListCommand(stdin, result), refused} {
		err := c.Run(t.Context(), quietConsole())
		require.ErrorIs(t, err, console.ErrUsage)
		require.ErrorContains(t, err, result+progressFolder+
			" is there and holds no progress; move it away, or name another --output")
	}
	info, err := os.Stat(mine)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode().Perm())
	require.NoFileExists(t, result)
}

// TestInterruptedRunGoesOn: once the list is a job its progress is kept, and goes on into a result that is there
// meanwhile. A list on standard input is refused and leaves it alone.
func TestInterruptedRunGoesOn(t *testing.T) {
	list, result := writeList(t)
	c, dir := newListCommand(list, result), result+progressFolder
	l := &listJob{Command: c, con: quietConsole(), log: slog.New(slog.DiscardHandler), file: list, dir: dir}
	n, err := app.OpenNode(&c.Probing, app.NodeConfig{FS: vfs.Default, Dir: dir, Log: l.log})
	require.NoError(t, err)
	_, err = l.findOrAcceptJob(t.Context(), n)
	require.NoError(t, errors.Join(err, n.Close()))

	ctx, stop := context.WithCancel(t.Context())
	stop()
	require.EqualError(t, c.Run(ctx, quietConsole()),
		"interrupted; what is known is in "+dir+", the same command goes on from there")
	require.ErrorContains(t, newListCommand(stdin, result).Run(t.Context(), quietConsole()),
		"a list on standard input cannot go on from it")
	require.NoError(t, os.WriteFile(result, nil, 0o600))
	require.NoError(t, newListCommand(list, result).Run(t.Context(), quietConsole()))
	require.NoDirExists(t, dir)
}

// TestListOnStdinLeavesAnotherRunsProgress: another run makes the folder and opens the store in it while this one reads
// its provider table, from a pipe.
func TestListOnStdinLeavesAnotherRunsProgress(t *testing.T) {
	_, result := writeList(t)
	c := newListCommand(stdin, result)
	c.Providers = filepath.Join(t.TempDir(), "providers.toml")
	require.NoError(t, syscall.Mkfifo(c.Providers, 0o600))
	ended := make(chan error, 1)
	go func() { ended <- c.Run(t.Context(), quietConsole()) }()
	pipe, err := os.OpenFile(c.Providers, os.O_WRONLY, 0) // waits until the run opens it
	require.NoError(t, err)
	other := newListCommand(stdin, result)
	n, err := app.OpenNode(&other.Probing, app.NodeConfig{FS: vfs.Default, Dir: result + progressFolder,
		Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	require.NoError(t, pipe.Close()) // an empty table changes nothing
	require.Error(t, <-ended)
	require.DirExists(t, filepath.Join(result+progressFolder, "state"))
	require.NoError(t, n.Close())
}

// TestProgressIsOfOneListAndItsOptions: another list or other options are refused, the same command goes on.
func TestProgressIsOfOneListAndItsOptions(t *testing.T) {
	at := t.TempDir()
	list, other := filepath.Join(at, "list.csv"), filepath.Join(at, "other.csv")
	require.NoError(t, os.WriteFile(list, []byte("email,name\nann@shop.example,Ann\n"), 0o600))
	require.NoError(t, os.WriteFile(other, []byte("email,name\nbob@shop.example,Bob\n"), 0o600))
	var words bytes.Buffer
	flags := nodeflags.Probing{DNS: []nodeflags.ResolverAddr{{AddrPort: netip.MustParseAddrPort("127.0.0.1:1")}},
		SMTPPort: 25}
	l := listJob{Command: &Command{Probing: flags, Output: filepath.Join(at, "r.csv"), MaxAge: app.Period(time.Hour)},
		con: &console.IO{Err: &words}, file: list,
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
		"--details":       func(l *listJob) { l.Details = true },
	} {
		changed, command := l, *l.Command
		changed.Command = &command
		change(&changed)
		_, err := changed.findOrAcceptJob(t.Context(), n)
		require.ErrorContains(t, err, l.dir+" holds the progress of another list or of other options", name)
		require.ErrorContains(t, err, "repeat that command with its version, name another -o, or delete that folder",
			name)
	}
	require.Empty(t, words.String())
	same, err := l.findOrAcceptJob(t.Context(), n)
	require.NoError(t, err)
	require.Equal(t, accepted.ID, same.ID)
	require.Equal(t, "going on with "+list+" where it stopped\n", words.String())
}

// TestProgressOfAnOlderVersionIsKept: its job has another name, and the refusal says how to go on.
func TestProgressOfAnOlderVersionIsKept(t *testing.T) {
	list, result := writeList(t)
	c, dir := newListCommand(list, result), result+progressFolder
	n, err := app.OpenNode(&c.Probing, app.NodeConfig{FS: vfs.Default, Dir: dir, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	content, err := os.ReadFile(list)
	require.NoError(t, err)
	_, err = n.Coordinator.Accept(t.Context(), ingest.Upload{Body: bytes.NewReader(content),
		Options: ingest.Options{MaxHours: ingest.MaxHours, Parts: func(j *store.Job) []store.Part {
			j.Name = fmt.Sprintf("%x", sha256.Sum256(content))
			return nil
		}}})
	require.NoError(t, errors.Join(err, n.Close()))
	err = c.Run(t.Context(), quietConsole())
	require.ErrorContains(t, err, "or an older version began it; repeat that command with its version")
	require.DirExists(t, dir)
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

// TestWrongColumnIsRefused: it leaves nothing behind, --column names another, and --force-column goes on.
func TestWrongColumnIsRefused(t *testing.T) {
	list, result := writeList(t)
	require.NoError(t, os.WriteFile(list, []byte("Name;Mail\nAnn;not an address@\nBo;@\nCy;cy\n"), 0o600))
	c := newListCommand(list, result)
	c.Column = "Name"
	err := c.Run(t.Context(), quietConsole())
	require.EqualError(t, err, list+`: none of the first 3 cells of the column "Name" (1) looks like an e-mail address (delimiter ';'), for example "Ann", "Bo", "Cy": `+
		`name another column with --column, or verify this one with --force-column`)
	require.NoFileExists(t, result)
	require.NoDirExists(t, result+progressFolder)
	c.ForceColumn = true
	require.NoError(t, c.Run(t.Context(), quietConsole()))
	got, err := os.ReadFile(result)
	require.NoError(t, err)
	require.Equal(t, 3, strings.Count(string(got), ";INVALID;"))
}

// TestJSONLinesAreAList: each object of a file has a row with its other members, in both forms of a result, and a line
// that is not an object is named.
func TestJSONLinesAreAList(t *testing.T) {
	list, result := writeList(t)
	require.NoError(t, os.WriteFile(list, []byte(`{"mail":"@","n":7}`+"\n"+`{"x":"a,b","mail":"@@"}`+"\n"), 0o600))
	c := newListCommand(list, result)
	c.Column = "mail"
	require.NoError(t, c.Run(t.Context(), quietConsole()))
	got, err := os.ReadFile(result)
	require.NoError(t, err)
	lines := strings.Split(string(got), "\n")
	require.Regexp(t, `^mail,n,x,verify_status,`, lines[0])
	require.Regexp(t, `^@,7,,INVALID,`, lines[1])
	require.Regexp(t, `^@@,,"a,b",INVALID,`, lines[2])

	c = newListCommand(list, strings.TrimSuffix(result, ".csv")+".jsonl")
	c.Column = "mail"
	require.NoError(t, c.Run(t.Context(), quietConsole()))
	got, err = os.ReadFile(c.Output)
	require.NoError(t, err)
	require.Contains(t, string(got), `"input":{"n":"","x":"a,b"}`)

	require.NoError(t, os.WriteFile(list, []byte(`{"mail":"@"}`+"\nmail\n"), 0o600))
	c.Force = true
	err = c.Run(t.Context(), quietConsole())
	require.ErrorContains(t, err, list+": line 2: this line is not JSON")
}

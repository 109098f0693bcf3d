package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/csvfile"
	"probity/coordinator/ingest"
	"probity/coordinator/results"
	"probity/internal/app"
	"probity/internal/console"
	"probity/internal/datafolder"
	"probity/internal/progress"
	"probity/internal/wholefile"
	"probity/store"
	"probity/store/diskroom"
)

// progressFolder is appended to the name of a result file. That folder holds the progress until the result is complete.
const progressFolder = ".progress"

// resultFormOf returns the form of a result file by its extension.
func resultFormOf(path string) (results.Form, error) {
	for _, f := range []struct {
		ending string
		form   results.Form
	}{
		{".csv", results.Form{Format: results.CSV, Compress: results.None}},
		{".csv.gz", results.Form{Format: results.CSV, Compress: results.Gzip}},
		{".csv.zst", results.Form{Format: results.CSV, Compress: results.Zstd}},
		{".jsonl", results.Form{Format: results.JSONL, Compress: results.None}},
		{".jsonl.gz", results.Form{Format: results.JSONL, Compress: results.Gzip}},
		{".jsonl.zst", results.Form{Format: results.JSONL, Compress: results.Zstd}},
	} {
		if strings.HasSuffix(strings.ToLower(path), f.ending) {
			return f.form, nil
		}
	}
	return results.Form{}, fmt.Errorf("%w: --output %s; let its name end in .csv, .csv.gz, .csv.zst or .jsonl",
		console.ErrUsage, path)
}

// verifyList verifies a list into a file, or onto standard output.
func (c *Command) verifyList(ctx context.Context, con *console.IO, log *slog.Logger, file string) error {
	if c.Output == "" {
		return c.verifyToStdout(ctx, con, log, file)
	}
	form, err := resultFormOf(c.Output)
	if err != nil {
		return err
	}
	l := listJob{Command: c, con: con, log: log, file: file, dir: c.Output + progressFolder, form: form}
	return l.verify(ctx, func(n *app.Node, job string) error {
		return wholefile.Replace(c.Output, func(w io.Writer) error {
			return n.Coordinator.Results(context.WithoutCancel(ctx), job, results.Filter{Form: form}, w)
		})
	})
}

// sameFile reports whether two names are one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// verifyToStdout keeps its progress in a temporary folder.
func (c *Command) verifyToStdout(ctx context.Context, con *console.IO, log *slog.Logger, file string) error {
	dir, err := os.MkdirTemp("", "probity-*")
	if err != nil {
		return err
	}
	form := results.Form{Format: results.CSV, Compress: results.None}
	l := listJob{Command: c, con: con, log: log, file: file, dir: dir, form: form, disposable: true}
	return l.verify(ctx, func(n *app.Node, job string) error {
		return n.Coordinator.Results(ctx, job, results.Filter{Form: form}, con.Out)
	})
}

// listJob is one list that is being verified.
type listJob struct {
	*Command
	con  *console.IO
	log  *slog.Logger
	file string
	dir  string // of its progress
	form results.Form

	// disposable: this run, if it fails, has the folder to itself, and no later run could go on from what is in it. It
	// has a folder to itself that it made, as long as no other run opens the store in it first, and one in which it
	// opened the store.
	disposable bool

	unanswered error // no query of this run was answered
}

// resumable reports whether a later run can go on: it finds the folder next to the result, and can read the list again.
func (l *listJob) resumable() bool { return l.Output != "" && l.file != stdin }

// verify verifies the list and prints a summary. The progress folder stays only for a run that goes on from it. It is
// removed once its store is closed, and with that unlocked: another run that opens the store in between loses its
// files, and fails with words about damage instead of "another probity is at work". It writes no wrong result, and can
// be repeated.
func (l *listJob) verify(ctx context.Context, writeResult func(*app.Node, string) error) error {
	disk := diskroom.New(vfs.Default, l.dir, nil)
	begun := make(chan struct{})
	close(begun)
	var ended *store.Job
	err := disk.UnlessStuck(begun, 0, func() (err error) {
		ended, err = l.run(ctx, disk, writeResult)
		return err
	})
	interrupted := console.Interrupted(ctx, err)
	if l.disposable || err == nil {
		if failed := os.RemoveAll(l.dir); failed != nil {
			return errors.Join(err, failed)
		}
	}
	switch {
	case interrupted && !l.disposable:
		return fmt.Errorf("%w; what is known is in %s, the same command goes on from there", console.ErrInterrupted,
			l.dir)
	case interrupted && l.Output != "" && l.file == stdin:
		return fmt.Errorf("%w; nothing is kept of a list on standard input, give it as a file to go on later",
			console.ErrInterrupted)
	case vfs.IsNoSpaceError(err) && !l.disposable:
		return fmt.Errorf("%w; make room: the same command goes on from %s", err, l.dir)
	case err != nil:
		return err
	}
	return errors.Join(progress.PrintSummary(l.con, ended, l.Output), l.unanswered)
}

// run verifies the list with a node of its own, and writes the result.
func (l *listJob) run(ctx context.Context, disk *diskroom.Room,
	writeResult func(*app.Node, string) error) (ended *store.Job, err error) {
	n, err := app.OpenNode(&l.Probing, app.NodeConfig{FS: disk.State(), Dir: l.dir, Log: l.log, Warn: l.con.WarnLog(),
		Lists: l.ListChanges, ResultForm: l.form, MakeDir: l.makeFolder})
	if errors.Is(err, syscall.EAGAIN) {
		l.disposable = false // another run is at work in it
	}
	if found, damaged := errors.AsType[*store.DamagedError](err); damaged {
		return nil, fmt.Errorf("the progress in %s is damaged (%w): delete that folder, and the list is begun again",
			l.dir, found.Cause)
	}
	if err != nil {
		return nil, err
	}
	err = n.RunWhile(ctx, func(ctx context.Context) error {
		job, err := l.findOrAcceptJob(ctx, n)
		if err != nil {
			return err
		}
		if ended, err = progress.New(l.con).Follow(ctx, n.Coordinator, job.ID); err != nil {
			return err
		}
		if ended.State != store.JobCompleted {
			return fmt.Errorf("%s: %s %s", l.file, ended.State, ended.Error)
		}
		l.unanswered = unansweredError(n)
		return writeResult(n, job.ID)
	})
	return ended, errors.Join(err, n.Close())
}

// makeFolder makes the progress folder, or restricts that of an earlier run. It refuses a folder of other files, which
// would be removed with the progress.
func (l *listJob) makeFolder() error {
	var inside []fs.DirEntry
	err := os.Mkdir(l.dir, 0o700)
	if err == nil {
		l.disposable = true
	} else if errors.Is(err, fs.ErrExist) {
		inside, err = os.ReadDir(l.dir)
	}
	isState := func(e fs.DirEntry) bool { return e.Name() == "state" }
	if len(inside) > 0 && !slices.ContainsFunc(inside, isState) {
		return fmt.Errorf("%w: %s is there and holds no progress; move it away, or name another --output",
			console.ErrUsage, l.dir)
	}
	if err == nil {
		err = datafolder.RestrictOwn(l.dir)
	}
	if err != nil {
		return fmt.Errorf("what is known so far is kept next to the result: %w; name another --output", err)
	}
	return nil
}

// findOrAcceptJob returns the job of an earlier run in the folder, if it is of the same list and options; else a new
// one.
func (l *listJob) findOrAcceptJob(ctx context.Context, n *app.Node) (*store.Job, error) {
	jobs, _, err := n.Coordinator.Jobs("", "", 1, "")
	if err != nil {
		return nil, err
	}
	if len(jobs) == 0 {
		job, err := l.acceptList(ctx, n)
		l.disposable = err != nil || !l.resumable()
		return job, err
	}
	l.disposable = false
	if l.file == stdin {
		return nil, fmt.Errorf("%s holds the progress of a list, and a list on standard input cannot go on from it; repeat that command, name another -o, or delete that folder", l.dir)
	}
	f, err := os.Open(l.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := l.newHash()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, err
	}
	if jobs[0].Name != hex.EncodeToString(sum.Sum(nil)) {
		return nil, fmt.Errorf("%s holds the progress of another list or of other options (%s), or an older version began it; repeat that command with its version, name another -o, or delete that folder", l.dir, optionNames)
	}
	fmt.Fprintf(l.con.Err, "going on with %s where it stopped\n", l.file)
	return jobs[0], nil
}

// optionNames are the options in newHash.
const optionNames = "--column, --no-header, --no-smtp, --max-age, --respect-terms, --details"

// newHash begins the hash that names a job: of the options that its verdicts depend on, then of its list.
func (l *listJob) newHash() hash.Hash {
	h := sha256.New()
	fmt.Fprintf(h, "%q %t %t %s %t %t\n", l.Column, l.NoHead, l.NoSMTP, time.Duration(l.MaxAge), l.RespectTerms,
		l.Details)
	return h
}

// acceptList reads and checks the whole list, and makes it a job named after its options and content.
func (l *listJob) acceptList(ctx context.Context, n *app.Node) (*store.Job, error) {
	if err := l.checkOverwrite(); err != nil {
		return nil, err
	}
	in := l.con.In
	if l.file != stdin {
		f, err := os.Open(l.file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	sum := l.newHash()
	job, err := n.Coordinator.Accept(ctx, ingest.Upload{Body: io.TeeReader(in, sum), Options: ingest.Options{
		Reading:  csvfile.Options{Column: l.Column, NoHeader: l.NoHead, AnyColumn: l.ForceColumn},
		Filename: filepath.Base(l.file), MaxAge: time.Duration(l.MaxAge), NoSMTP: l.NoSMTP, Details: l.Details,
		MaxHours: ingest.MaxHours,
		Parts: func(j *store.Job) []store.Part {
			j.Name = hex.EncodeToString(sum.Sum(nil))
			return nil
		}}})
	return job, ListError(l.file, err)
}

// ListError is an error of receiving a list, in the words of the command line.
func ListError(file string, err error) error {
	if bad, ok := errors.AsType[*csvfile.Error](err); ok {
		return &badListError{file: file, cause: bad}
	}
	return err
}

// badListError is a list that cannot be verified as it is; it leaves nothing behind.
type badListError struct {
	file  string
	cause *csvfile.Error
}

// Error names options as the command line does: the API's email_column, has_header and column_check are flags here.
func (b *badListError) Error() string {
	words := strings.NewReplacer("email_column=", "--column ", "email_column", "--column",
		"has_header=false", "--no-header", "has_header", "--no-header", "column_check=false", "--force-column")
	return b.file + ": " + words.Replace(b.cause.Error())
}

package coordinator

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"probity/coordinator/ingest"
	"probity/coordinator/jobdir"
	"probity/coordinator/results"
	"probity/internal/wholefile"
	"probity/prober/wire"
	"probity/store"
)

// A folder of testdata/upgrade is the data that an earlier build left at a power cut: an account and its jobs, each named after the
// state it was in. tools/fixture.sh adds that of the current build; existing files are never changed.
const (
	fixtureVariable = "PROBITY_FIXTURE" // the file to write; empty: none
	fixtureGranted  = 10_000
	doneRows        = 150
	openRows        = 400
)

// fixtureJob is a job of a fixture: the state it was left in, and how it must end.
type fixtureJob struct {
	seed      uint64 // of its list
	rows      int
	was, ends store.JobState
}

var fixtureJobs = map[string]fixtureJob{
	"done":       {31, doneRows, store.JobCompleted, store.JobCompleted},
	"paused":     {32, openRows, store.JobPaused, store.JobCompleted},
	"running":    {33, openRows, store.JobRunning, store.JobCompleted},
	"queued":     {34, openRows, store.JobQueued, store.JobCompleted},
	"finalizing": {35, openRows, store.JobFinalizing, store.JobCompleted},
	"cancelling": {36, openRows, store.JobCancelling, store.JobCancelled},
	"cancelled":  {37, openRows, store.JobCancelled, store.JobCancelled},
	"failed":     {38, doneRows, store.JobFailed, store.JobFailed},
	"expired":    {39, doneRows, store.JobExpired, store.JobExpired},
}

func fixtureList(name string) string { return testCSV(fixtureJobs[name].rows, fixtureJobs[name].seed) }

// chargeFinished charges jobs when they end, as a server does.
func chargeFinished(_ *testEnv, cfg *Config) {
	cfg.OnFinish = func(j *store.Job) []store.Part {
		return []store.Part{store.SettleJob(j.Account, j.ID, j.Charged, j.FinishedAt)}
	}
}

// answerOneThird answers a third of the rows; the others are returned or deferred for hours.
func answerOneThird(_ *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
	switch r.Number % 3 {
	case 0:
		return wire.Settled, 0
	case 1:
		return wire.Returned, 3 * time.Hour
	}
	return wire.Deferred, 2 * time.Hour
}

func (w *testEnv) acceptFor(t *testing.T, account, name string) *store.Job {
	t.Helper()
	j, err := w.c.Accept(context.Background(), ingest.Upload{Body: strings.NewReader(fixtureList(name)), Options: ingest.Options{Account: account, Name: name,
		Parts: func(j *store.Job) []store.Part {
			return []store.Part{store.ReserveJob(account, j.ID, j.Unique, j.CreatedAt)}
		}}})
	require.NoError(t, err)
	return j
}

// TestWriteFixture writes the fixture of this build. It is run by hand, through tools/fixture.sh.
func TestWriteFixture(t *testing.T) {
	file := os.Getenv(fixtureVariable)
	if file == "" {
		t.Skip("it writes a file of testdata/upgrade, once a build: tools/fixture.sh")
	}
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashableMem()
		never := make(chan struct{})
		w := newTestEnv(t, disk, chargeFinished, func(_ *testEnv, cfg *Config) {
			settle := cfg.OnFinish
			cfg.OnFinish = func(j *store.Job) []store.Part {
				if j.Name == "finalizing" {
					<-never
				}
				return settle(j)
			}
		})
		u, _, err := w.store.AddUser(context.Background(), store.NewUser{Email: "ann@example.com", Credits: fixtureGranted}, "test", time.Now())
		require.NoError(t, err)
		broken := w.acceptFor(t, u.ID, "failed")
		require.NoError(t, wholefile.Write(disk, "data/jobs/"+broken.ID+"/spool", []byte("no frame")))
		w.run()
		require.Equal(t, store.JobFailed, w.finish(t, broken.ID).State)
		require.Equal(t, store.JobCompleted, w.finish(t, w.acceptFor(t, u.ID, "done").ID).State)
		expired := w.finish(t, w.acceptFor(t, u.ID, "expired").ID)
		require.NoError(t, w.c.Expire(expired.ID))
		w.prober.outcome = answerOneThird
		cancelled, cancelling := w.acceptFor(t, u.ID, "cancelled"), w.acceptFor(t, u.ID, "cancelling")
		paused := w.acceptFor(t, u.ID, "paused")
		w.acceptFor(t, u.ID, "running")
		time.Sleep(5 * time.Minute)
		_, err = w.c.Cancel(cancelled.ID)
		require.NoError(t, err)
		require.Equal(t, store.JobCancelled, w.finish(t, cancelled.ID).State)
		_, err = w.c.Pause(paused.ID)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		w.prober.outcome = nil
		w.acceptFor(t, u.ID, "finalizing")
		time.Sleep(time.Minute)
		_, err = w.c.Cancel(cancelling.ID) // it waits for the one that never ends
		require.NoError(t, err)
		time.Sleep(time.Minute)
		crashed := disk.CrashClone(vfs.CrashCloneCfg{})
		close(never)
		require.NoError(t, w.close(t))

		w = newTestEnv(t, crashed, chargeFinished)
		w.acceptFor(t, u.ID, "queued")
		left := crashed.CrashClone(vfs.CrashCloneCfg{})
		require.NoError(t, w.close(t))
		packFixture(t, left, file)
	})
}

// packFixture packs the folder data.
func packFixture(t *testing.T, disk vfs.FS, file string) {
	t.Helper()
	f, err := os.Create(file)
	require.NoError(t, err)
	z, err := zstd.NewWriter(f, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	require.NoError(t, err)
	pack := tar.NewWriter(z)
	var walk func(dir string)
	walk = func(dir string) {
		names, err := disk.List(dir)
		require.NoError(t, err)
		for _, name := range names {
			path := disk.PathJoin(dir, name)
			info, err := disk.Stat(path)
			require.NoError(t, err)
			if info.IsDir() {
				walk(path)
				continue
			}
			b, err := readWhole(disk, path)
			require.NoError(t, err)
			require.NoError(t, pack.WriteHeader(&tar.Header{Name: path, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(b))}))
			_, err = pack.Write(b)
			require.NoError(t, err)
		}
	}
	walk("data")
	require.NoError(t, errors.Join(pack.Close(), z.Close(), f.Close()))
}

func unpackFixture(t *testing.T, file string) vfs.FS {
	t.Helper()
	packed, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Less(t, len(packed), 300<<10, "fixtures are small")
	z, err := zstd.NewReader(bytes.NewReader(packed), zstd.WithDecoderConcurrency(1))
	require.NoError(t, err)
	defer z.Close()
	disk := vfs.NewMem()
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return disk
		}
		require.NoError(t, err)
		require.NoError(t, disk.MkdirAll(filepath.Dir(h.Name), 0o700))
		b, err := io.ReadAll(files)
		require.NoError(t, err)
		require.NoError(t, wholefile.Write(disk, h.Name, b))
	}
}

// TestJobsOfEarlierBuildsFinish starts this build on the fixture of each earlier one. Every job must end as if one build had run
// it: rows, verdicts, charges and ledger are exact, and no answered row is sent again.
func TestJobsOfEarlierBuildsFinish(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "upgrade", "*.tar.zst"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { finishFixtureJobs(t, file) })
		})
	}
}

func finishFixtureJobs(t *testing.T, file string) {
	left := -answersIn(t, file)
	w := newTestEnv(t, unpackFixture(t, file), chargeFinished)
	u := w.store.Users()[0]
	jobs, _, err := w.c.Jobs(u.ID, "", 20, "")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(jobs), 3)
	charged := int64(0)
	for _, j := range jobs {
		require.Equal(t, fixtureJobs[j.Name].was, j.State, j.Name)
		if j.State != store.JobExpired && j.State != store.JobFailed {
			left += int(j.Unique)
		}
	}
	w.run()
	for _, was := range jobs {
		if was.State == store.JobPaused {
			_, err := w.c.Resume(was.ID)
			require.NoError(t, err)
		}
		got, err := w.c.Wait(context.Background(), was.ID) // hours, in the bubble
		require.NoError(t, err)
		require.Equal(t, fixtureJobs[was.Name].ends, got.State, "%s: %s", was.Name, got.Error)
		charged += got.Charged
		requireMigrated(t, w, was, got)
	}
	require.LessOrEqual(t, w.prober.asked, left, "what was answered is not asked again")
	require.NoError(t, w.store.CheckLedger(u.ID))
	now, err := w.store.Credits(u.ID)
	require.NoError(t, err)
	require.Equal(t, store.Credits{Balance: fixtureGranted - charged}, now)
	require.NoError(t, w.close(t))
}

// requireMigrated requires that a job of an earlier build has the results of this one, and that no old files are left.
func requireMigrated(t *testing.T, w *testEnv, was, got *store.Job) {
	t.Helper()
	switch got.State {
	case store.JobCompleted:
		checkResults(t, fixtureList(got.Name), w.results(t, got.ID, results.Filter{}))
		requireAsUninterrupted(t, got.Name, got)
	case store.JobCancelled:
		require.Contains(t, w.results(t, got.ID, results.Filter{}), "UNKNOWN")
	default:
		return
	}
	lines := w.results(t, got.ID, results.Filter{Form: results.Form{Format: results.JSONL}})
	require.Equal(t, int(got.Rows), strings.Count(lines, "\n"))
	now, err := w.c.Job(got.ID)
	require.NoError(t, err)
	require.NotNil(t, now.Answers)
	require.Empty(t, now.Damage)
	if was.State.Finished() {
		require.Equal(t, []any{was.Counts, was.Reasons, was.Charged}, []any{now.Counts, now.Reasons, now.Charged})
	}
	names, err := w.fs.List(w.c.files.Path(got.ID))
	require.NoError(t, err)
	for _, old := range []string{"log", "names", jobdir.OldFileResults, jobdir.FileRows, jobdir.FileChunks} {
		require.NotContains(t, names, old, got.Name)
	}
}

// answersIn counts the final answers of the jobs of a fixture that have files.
func answersIn(t *testing.T, file string) (n int) {
	t.Helper()
	w := newTestEnv(t, unpackFixture(t, file))
	jobs, _, err := w.c.Jobs(w.store.Users()[0].ID, "", 20, "")
	require.NoError(t, err)
	for _, j := range jobs {
		if j.State == store.JobExpired || j.State == store.JobFailed {
			continue
		}
		_, reasons, err := w.c.files.AnsweredRows(j)
		require.NoError(t, err)
		for _, rows := range reasons {
			n += int(rows)
		}
	}
	require.NoError(t, w.close(t))
	return n
}

// requireAsUninterrupted requires that a job equals the one that this build alone makes of the same list.
func requireAsUninterrupted(t *testing.T, name string, got *store.Job) {
	t.Helper()
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	want := w.finish(t, w.accept(t, fixtureList(name)).ID)
	require.Equal(t, want.Counts, got.Counts)
	require.Equal(t, want.Reasons, got.Reasons)
	require.Equal(t, []int64{want.Rows, want.Unique, want.Duplicates, want.Blank, want.Charged}, []int64{got.Rows, got.Unique, got.Duplicates, got.Blank, got.Charged})
	require.NoError(t, w.close(t))
}

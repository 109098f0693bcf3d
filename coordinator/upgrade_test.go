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

	"probity/coordinator/jobfiles"
	"probity/prober/wire"
	"probity/store"
)

// A folder of testdata/upgrade is data as an earlier build left it when its power was cut: an account, a finished job, one
// that was paused half way, and one that ran. tools/fixture.sh adds the present build's; files are never changed.
const (
	fixtureVariable = "PROBITY_FIXTURE" // the file to write; empty: none
	fixtureGranted  = 10_000
	doneRows        = 150
	openRows        = 400
	doneSeed        = 31 // of the lists; each job's name is its seed
	pausedSeed      = 32
	runningSeed     = 33
)

var fixtureSeeds = map[string]uint64{"done": doneSeed, "paused": pausedSeed, "running": runningSeed}

func fixtureList(name string) string {
	rows := openRows
	if name == "done" {
		rows = doneRows
	}
	return list(rows, fixtureSeeds[name])
}

// settled has jobs charged when they end, as a server has.
func settled(_ *world, cfg *Config) {
	cfg.OnFinish = func(j *store.Job) []store.Part {
		return []store.Part{store.SettleJob(j.Account, j.ID, j.Charged, j.FinishedAt)}
	}
}

// thirds answers a third of the rows; the others wait for hours, at the prober's wish or the receiver's.
func thirds(_ *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
	switch r.Number % 3 {
	case 0:
		return wire.Settled, 0
	case 1:
		return wire.Later, 3 * time.Hour
	}
	return wire.Deferred, 2 * time.Hour
}

func (w *world) acceptFor(t *testing.T, account, name string) *store.Job {
	t.Helper()
	j, err := w.c.Accept(context.Background(), Upload{Body: strings.NewReader(fixtureList(name)), Options: Options{Account: account, Name: name,
		Parts: func(j *store.Job) []store.Part {
			return []store.Part{store.ReserveJob(account, j.ID, j.Unique, j.CreatedAt)}
		}}})
	require.NoError(t, err)
	return j
}

// TestWriteFixture writes what this build leaves behind. It runs by hand, through tools/fixture.sh.
func TestWriteFixture(t *testing.T) {
	file := os.Getenv(fixtureVariable)
	if file == "" {
		t.Skip("it writes a file of testdata/upgrade, once a build: tools/fixture.sh")
	}
	synctest.Test(t, func(t *testing.T) {
		fs := vfs.NewCrashableMem()
		w := openWorld(t, fs, settled)
		u, _, err := w.store.AddUser(context.Background(), store.NewUser{Email: "ann@example.com", Credits: fixtureGranted}, "test", time.Now())
		require.NoError(t, err)
		w.run()
		done := w.finish(t, w.acceptFor(t, u.ID, "done").ID)
		require.Equal(t, store.JobCompleted, done.State)
		w.prober.how = thirds
		paused := w.acceptFor(t, u.ID, "paused")
		w.acceptFor(t, u.ID, "running")
		time.Sleep(5 * time.Minute)
		_, err = w.c.Pause(paused.ID)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		left := fs.CrashClone(vfs.CrashCloneCfg{})
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
		require.NoError(t, writeWhole(disk, h.Name, b))
	}
}

// TestAJobOfThePreviousBuildEnds starts this build on what each earlier one left behind, and wants every job to end as if one
// build had done it all: rows, verdicts, charges and ledger exact, and nothing asked again that was answered.
func TestAJobOfThePreviousBuildEnds(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "upgrade", "*.tar.zst"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { goOn(t, unpackFixture(t, file)) })
		})
	}
}

func goOn(t *testing.T, disk vfs.FS) {
	w := openWorld(t, disk, settled)
	u := w.store.Users()[0]
	jobs, _, err := w.c.Jobs(u.ID, "", 10, "")
	require.NoError(t, err)
	require.Len(t, jobs, 3)
	states, left, charged := map[string]store.JobState{}, 0, int64(0)
	for _, j := range jobs {
		states[j.Name] = j.State
		n := answersIn(t, disk, w.c.dir(j.ID))
		require.Greater(t, n, int(j.Unique)/5, "it was under way")
		left += int(j.Unique) - n
	}
	require.Equal(t, map[string]store.JobState{"done": store.JobCompleted, "paused": store.JobPaused, "running": store.JobRunning}, states)
	w.run()
	for _, j := range jobs {
		if j.Name == "paused" {
			_, err := w.c.Resume(j.ID)
			require.NoError(t, err)
		}
		got, err := w.c.Wait(context.Background(), j.ID) // hours, in the bubble
		require.NoError(t, err)
		require.Equal(t, store.JobCompleted, got.State, got.Error)
		checkResults(t, fixtureList(j.Name), w.results(t, j.ID, Filter{}))
		charged += requireAsAnew(t, j.Name, got)
	}
	require.LessOrEqual(t, w.prober.asked, left, "what was answered is not asked again")
	require.NoError(t, w.store.CheckLedger(u.ID))
	now, err := w.store.Credits(u.ID)
	require.NoError(t, err)
	require.Equal(t, store.Credits{Balance: fixtureGranted - charged}, now)
	require.NoError(t, w.close(t))
}

// answersIn counts the final answers of a job's log.
func answersIn(t *testing.T, disk vfs.FS, dir string) (n int) {
	t.Helper()
	f, err := disk.Open(disk.PathJoin(dir, oldFileLog))
	require.NoError(t, err)
	defer f.Close()
	err = readOldLog(f, func(_ uint32, rec *jobfiles.Record) error {
		if rec.Kind() == jobfiles.Final {
			n++
		}
		return nil
	})
	require.NoError(t, err)
	return n
}

// requireAsAnew wants a job to be what this build alone makes of the same list, and gives what it costs.
func requireAsAnew(t *testing.T, name string, got *store.Job) (charged int64) {
	t.Helper()
	w := openWorld(t, vfs.NewMem())
	w.run()
	want := w.finish(t, w.accept(t, fixtureList(name)).ID)
	require.Equal(t, want.Counts, got.Counts)
	require.Equal(t, want.Reasons, got.Reasons)
	require.Equal(t, []int64{want.Rows, want.Unique, want.Duplicates, want.Blank, want.Charged}, []int64{got.Rows, got.Unique, got.Duplicates, got.Blank, got.Charged})
	require.NoError(t, w.close(t))
	return got.Charged
}

// TestAnOldLogThatDoesNotBeginAsOneIsDamaged: to take it for empty would be to ask all its rows again, or to lose their answers.
func TestAnOldLogThatDoesNotBeginAsOneIsDamaged(t *testing.T) {
	disk := vfs.NewMem()
	require.NoError(t, writeWhole(disk, oldFileLog, []byte("prblog11 and more")))
	require.ErrorIs(t, New(Config{FS: disk}).takeOverLog(""), errDamaged)
	b, err := readWhole(disk, oldFileLog)
	require.NoError(t, err)
	require.Equal(t, "prblog11 and more", string(b))
}

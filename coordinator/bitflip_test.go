package coordinator

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/jobdir"
	"probity/coordinator/results"
	"probity/internal/detector"
	"probity/internal/wholefile"
	"probity/store"
)

// flips returns how many bits a test flips: 100, or PROBITY_FLIPS.
func flips(t *testing.T) int {
	text := os.Getenv("PROBITY_FLIPS")
	if text == "" {
		return 100
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// flip flips a bit of a file of the job and returns the file's name.
func flip(t *testing.T, fs vfs.FS, j *store.Job, rng *rand.Rand) string {
	dir := "data/jobs/" + j.ID
	names, err := fs.List(dir)
	require.NoError(t, err)
	name := names[rng.IntN(len(names))]
	b, err := readWhole(fs, dir+"/"+name)
	require.NoError(t, err)
	if len(b) == 0 {
		return name
	}
	at := rng.IntN(len(b))
	f, err := fs.OpenReadWrite(dir+"/"+name, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte{b[at] ^ 1<<rng.IntN(8)}, int64(at))
	require.NoError(t, errors.Join(err, f.Sync(), f.Close()))
	return name
}

// TestBitFlipNeverChangesResults: results of a finished job are the same, or the job is reported as damaged.
func TestBitFlipNeverChangesResults(t *testing.T) {
	detector.SpareByDay(t)
	fs := vfs.NewCrashableMem()
	w := newTestEnv(t, fs)
	w.run()
	j := w.finish(t, w.accept(t, testCSV(3000, 5)).ID)
	lines := results.Filter{Form: results.Form{Format: results.JSONL}}
	csv, jsonl := w.results(t, j.ID, results.Filter{}), w.results(t, j.ID, lines)
	var body bytes.Buffer
	require.NoError(t, w.c.WriteResults(t.Context(), j.ID, &body))
	require.NoError(t, w.close(t))

	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	refused := map[string]int{}
	for range flips(t) {
		disk := fs.CrashClone(vfs.CrashCloneCfg{})
		name := flip(t, disk, j, rng)
		w := newTestEnv(t, disk)
		for form, want := range map[*results.Filter]string{{}: csv, &lines: jsonl} {
			var got bytes.Buffer
			err := w.c.Results(t.Context(), j.ID, *form, &got)
			if err == nil {
				require.Equal(t, want, got.String(), name)
				continue
			}
			require.ErrorIs(t, err, ErrDamaged, name)
			now, err := w.c.Job(j.ID)
			require.NoError(t, err)
			require.NotEmpty(t, now.Damage, "%s: nothing is said", name)
			refused[name]++
		}
		if name == jobdir.FileCallback {
			requireSameBody(t, w, j.ID, body.String())
		}
		require.NoError(t, w.close(t))
	}
	t.Logf("refused: %v", refused)
}

// TestDamageThatBreaksOffOneRenderingRefusesTheNext: rows before the damage have been sent when it is found. From then
// on nothing is sent, so that a customer who tries again learns why, and the stored file is still given.
func TestDamageThatBreaksOffOneRenderingRefusesTheNext(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	j := w.finish(t, w.accept(t, testCSV(150_000, 5)).ID)
	csv := w.results(t, j.ID, results.Filter{})
	upload, err := w.c.files.OpenUpload(j)
	require.NoError(t, err)
	var last []byte
	for i := range upload.Frames {
		last, err = upload.Packed(i, last)
		require.NoError(t, err)
	}
	require.NoError(t, upload.Close())
	whole, err := readWhole(w.fs, w.uploadOf(t, j.ID))
	require.NoError(t, err)
	at := bytes.LastIndex(whole, last)
	require.Positive(t, at)
	writeAt(t, w.fs, w.uploadOf(t, j.ID), []byte{whole[at+100] ^ 1}, int64(at+100))

	var sent [2]bytes.Buffer
	for i := range sent {
		require.ErrorIs(t, w.c.Results(t.Context(), j.ID, results.Filter{Form: results.Form{Format: results.JSONL}},
			&sent[i]), ErrDamaged)
	}
	require.NotZero(t, sent[0].Len(), "the damage is behind what is sent first")
	require.Zero(t, sent[1].Len())
	require.Equal(t, csv, w.results(t, j.ID, results.Filter{}))
	require.NoError(t, w.close(t))
}

// TestCheckFindsEveryDamage: a bit is flipped in a file that the record of a finished job names, or the file is cut or
// removed. A result file is no loss: it is made again. Nor is a set of addresses: the job is read.
func TestCheckFindsEveryDamage(t *testing.T) {
	fs := vfs.NewCrashableMem()
	w := newTestEnv(t, fs)
	w.run()
	j := w.finish(t, w.accept(t, testCSV(3000, 5)).ID)
	require.NoError(t, w.c.CheckFiles(j))
	csv := w.results(t, j.ID, results.Filter{})
	require.NoError(t, w.close(t))
	require.NotNil(t, j.Answers)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 4))
	for _, name := range []string{j.Upload, j.Answers.Name, j.Result} {
		path := "data/jobs/" + j.ID + "/" + name
		whole, err := readWhole(fs, path)
		require.NoError(t, err)
		uncut := len(whole)
		if name == j.Answers.Name {
			uncut = int(j.Answers.Bytes)
		}
		flipped := bytes.Clone(whole)
		flipped[outsideSet(t, fs, j, name, len(whole), rng)] ^= 1 << rng.IntN(8)
		for what, damage := range map[string]func(disk vfs.FS) error{
			"flipped": func(disk vfs.FS) error { return wholefile.Write(disk, path, flipped) },
			"cut":     func(disk vfs.FS) error { return wholefile.Write(disk, path, whole[:rng.IntN(uncut)]) },
			"removed": func(disk vfs.FS) error { return disk.Remove(path) },
		} {
			disk := fs.CrashClone(vfs.CrashCloneCfg{})
			require.NoError(t, damage(disk))
			w := newTestEnv(t, disk)
			if err := w.c.CheckFiles(j); name == j.Result {
				require.NoError(t, err, what)
				require.Equal(t, csv, w.results(t, j.ID, results.Filter{}), what)
			} else {
				require.ErrorIs(t, err, ErrDamaged, "%s %s", name, what)
			}
			require.NoError(t, w.close(t))
		}
	}
}

// requireSameBody requires the rows of a callback by the second attempt.
func requireSameBody(t *testing.T, w *testEnv, job, want string) {
	for range 2 {
		var got bytes.Buffer
		err := w.c.WriteResults(t.Context(), job, &got)
		if err == nil {
			require.Equal(t, want, got.String())
			return
		}
		require.ErrorIs(t, err, ErrDamaged)
	}
	require.Fail(t, "the body of the callback was not made again")
}

// TestBitFlipNeverChangesARunningJob: the job ends with the same rows, or reports the damage.
func TestBitFlipNeverChangesARunningJob(t *testing.T) {
	detector.SpareByDay(t)
	in := testCSV(4000, 6)
	clean := newTestEnv(t, vfs.NewMem())
	clean.run()
	want := withoutTimes(clean.results(t, clean.finish(t, clean.accept(t, in).ID).ID, results.Filter{}))
	require.NoError(t, clean.close(t))

	fs := vfs.NewCrashableMem()
	w := newTestEnv(t, fs)
	w.prober.outcome, w.prober.part = deferSome(10*time.Millisecond), 64
	w.run()
	j := w.accept(t, in)
	require.Eventually(t, func() bool {
		s, err := w.c.Snapshot(j.ID)
		return err == nil && s.Answered > 2000
	}, time.Minute, time.Millisecond)
	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 2))
	all := vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng}
	atWork := fs.CrashClone(all)
	require.NoError(t, w.close(t))

	failed := map[string]int{}
	for range flips(t) {
		disk := atWork.CrashClone(all)
		name := flip(t, disk, j, rng)
		if !requireWholeOrDamaged(t, disk, j.ID, want, name) {
			failed[name]++
		}
	}
	t.Logf("failed: %v", failed)
	names, err := atWork.List("data/jobs/" + j.ID)
	require.NoError(t, err)
	for _, name := range names {
		disk := atWork.CrashClone(all)
		require.NoError(t, disk.Remove("data/jobs/"+j.ID+"/"+name))
		requireWholeOrDamaged(t, disk, j.ID, want, name+" is missing")
	}
}

// requireWholeOrDamaged runs a job on. It must end with the expected rows, or report a damaged file.
func requireWholeOrDamaged(t *testing.T, disk vfs.FS, id, want, damage string) bool {
	w := newTestEnv(t, disk)
	w.run()
	done := w.finish(t, id)
	if done.State == store.JobFailed {
		require.Equal(t, msgDamaged, done.Error, damage)
	} else {
		require.Equal(t, store.JobCompleted, done.State, damage)
		require.Equal(t, want, withoutTimes(w.results(t, id, results.Filter{})), damage)
	}
	require.NoError(t, w.close(t))
	return done.State == store.JobCompleted
}

// TestMissingFileNeverChangesResults: results of a finished job are the same, or refused and the job is reported as
// damaged.
func TestMissingFileNeverChangesResults(t *testing.T) {
	fs := vfs.NewCrashableMem()
	w := newTestEnv(t, fs)
	w.run()
	j := w.finish(t, w.accept(t, testCSV(3000, 5)).ID)
	lines := results.Filter{Form: results.Form{Format: results.JSONL}}
	csv, jsonl := w.results(t, j.ID, results.Filter{}), w.results(t, j.ID, lines)
	require.NoError(t, w.close(t))
	dir := "data/jobs/" + j.ID
	names, err := fs.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		disk := fs.CrashClone(vfs.CrashCloneCfg{})
		require.NoError(t, disk.Remove(dir+"/"+name))
		w := newTestEnv(t, disk)
		w.run()
		for form, want := range map[*results.Filter]string{{}: csv, &lines: jsonl} {
			var got bytes.Buffer
			err := w.c.Results(t.Context(), j.ID, *form, &got)
			if err == nil {
				require.Equal(t, want, got.String(), name)
				continue
			}
			require.ErrorIs(t, err, ErrDamaged, name)
			now, err := w.c.Job(j.ID)
			require.NoError(t, err)
			require.NotEmpty(t, now.Damage, "%s: nothing is said", name)
		}
		require.NoError(t, w.close(t))
	}
}

package coordinator

import (
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/zeebo/xxh3"

	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/coordinator/results"
	"probity/internal/wholefile"
	"probity/store"
)

// The files of a job's upload as an older version wrote them.
const (
	oldFileSpool   = "spool"
	oldFileIndex   = "index"
	oldFileDups    = "dups"
	oldFileErasing = "erasing"
)

// unpackUpload is the text of an upload.
func unpackUpload(t testing.TB, c *Coordinator, job, name string) (text []byte) {
	t.Helper()
	u, err := jobfiles.OpenUpload(&c.files.Folder, job, name, c.files.Decoder)
	require.NoError(t, err)
	text = append(text, u.Preamble...)
	for i := range u.Frames {
		_, rows, err := u.Unpack(i, nil, nil)
		require.NoError(t, err)
		text = append(text, rows...)
	}
	require.NoError(t, u.Close())
	return text
}

// writeOldUpload gives a job the files of an older version in place of its upload.
func writeOldUpload(t testing.TB, w *testEnv, id string) {
	t.Helper()
	j, err := w.c.Job(id)
	require.NoError(t, err)
	u, err := w.c.files.OpenUpload(j)
	require.NoError(t, err)
	var spool, dups []byte
	var frames []oldFrame
	for i, f := range u.Frames {
		packed, err := u.Packed(i, nil)
		require.NoError(t, err)
		spool = append(spool, packed...)
		frames = append(frames, oldFrame{raw: int(f.Raw), packed: len(packed), rows: int(f.Rows)})
		firstOf, err := u.AppendFirstRows(nil, i)
		require.NoError(t, err)
		for _, first := range firstOf {
			dups = binary.LittleEndian.AppendUint32(dups, first)
		}
	}
	index := oldIndexOf(string(u.Preamble), frames...)
	require.NoError(t, u.Close())
	for name, b := range map[string][]byte{oldFileSpool: spool, oldFileIndex: binary.LittleEndian.AppendUint64(index, xxh3.Hash(index)), oldFileDups: dups} {
		require.NoError(t, wholefile.Write(w.fs, w.c.files.Path(id)+"/"+name, b))
	}
	if j.Answers != nil {
		require.NoError(t, w.fs.Rename(w.c.files.Path(id)+"/"+j.Answers.Name, w.c.files.Path(id)+"/"+jobdir.FileRows))
		require.NoError(t, w.fs.Rename(w.c.files.Path(id)+"/"+j.Result, w.c.files.Path(id)+"/"+jobdir.OldFileResults))
	}
	require.NoError(t, wholefile.SyncDir(w.fs, w.c.files.Path(id)))
	_, err = w.store.UpdateJob(id, func(j *store.Job) error {
		j.Upload, j.Answers, j.Result = "", nil, ""
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, w.c.files.Delete(id, j.Upload))
}

// requireOnlyUpload requires that a job has one upload, which its record names, and no file of an older version.
func requireOnlyUpload(t testing.TB, w *testEnv, id string) {
	t.Helper()
	j, err := w.c.Job(id)
	require.NoError(t, err)
	found, err := w.fs.List(w.c.files.Path(id))
	require.NoError(t, err)
	for _, name := range found {
		require.NotContains(t, []string{oldFileSpool, oldFileIndex, oldFileDups, oldFileErasing}, name)
		require.False(t, strings.HasSuffix(name, wholefile.New), name)
		require.True(t, name == j.Upload || !strings.HasPrefix(name, jobdir.KindUpload), "%s, and the job names %s", name, j.Upload)
	}
	require.Contains(t, found, j.Upload)
}

// atRest makes a testEnv with an accepted job, before any work on it.
func atRest(t testing.TB, in string) (*testEnv, string) {
	w := newTestEnv(t, vfs.NewMem())
	return w, w.accept(t, in).ID
}

func TestOldUploadsAreMigrated(t *testing.T) {
	in := testCSV(3000, 7)
	w, id := atRest(t, in)
	writeOldUpload(t, w, id)
	w.run()
	j := w.finish(t, id)
	require.Equal(t, store.JobCompleted, j.State, j.Error)
	checkResults(t, in, w.results(t, id, results.Filter{}))
	requireOnlyUpload(t, w, id)
	lines := results.Filter{Form: results.Form{Format: results.JSONL}}
	want := w.results(t, id, lines)
	writeOldUpload(t, w, id)
	require.Equal(t, want, w.results(t, id, lines), "of a finished job")
	requireOnlyUpload(t, w, id)
	require.NoError(t, w.close(t))
}

// TestMigrationRecoversFromAnyFailedStep fails each durable step, before and after it took effect, and cuts the power.
func TestMigrationRecoversFromAnyFailedStep(t *testing.T) {
	for _, persist := range []bool{false, true} {
		steps := 0
		for n, more := int64(1), true; more; n++ {
			disk := vfs.NewCrashableMem()
			failing := &faultFS{FS: disk, persist: persist}
			w := newTestEnv(t, disk, func(_ *testEnv, c *Config) { c.FS = failing })
			id := w.accept(t, spelled).ID
			writeOldUpload(t, w, id)
			j, err := w.c.Job(id)
			require.NoError(t, err)
			failing.countdown.Store(n)
			_, err = w.c.files.MigrateUpload(j)
			failing.countdown.Store(-1 << 40)
			if more = failing.failedStep.Load() != nil; more {
				steps++
				require.ErrorIs(t, err, errDisk)
			}
			require.NoError(t, w.store.Close())
			again := newTestEnv(t, disk.CrashClone(vfs.CrashCloneCfg{}))
			again.run()
			require.Equal(t, spelled, inputOf(again.results(t, again.finish(t, id).ID, results.Filter{})))
			requireOnlyUpload(t, again, id)
			require.NoError(t, again.close(t))
		}
		require.Greater(t, steps, 6)
	}
}

// TestErasureOfAnOlderVersionIsFinished: the erasure had written its files and its marker.
func TestErasureOfAnOlderVersionIsFinished(t *testing.T) {
	for _, renamed := range []bool{false, true} {
		w := newTestEnv(t, vfs.NewMem())
		w.run()
		id := w.finish(t, w.accept(t, spelled).ID).ID
		writeOldUpload(t, w, id)
		dir := w.c.files.Path(id) + "/"
		was := map[string][]byte{}
		for _, name := range []string{oldFileSpool, oldFileIndex, jobdir.OldFileResults} {
			b, err := readWhole(w.fs, dir+name)
			require.NoError(t, err)
			was[name] = b
		}
		_, err := w.erase(t.Context(), erasedAddress)
		require.NoError(t, err)
		writeOldUpload(t, w, id)
		for name, b := range was {
			if name != jobdir.OldFileResults && (name != oldFileSpool || !renamed) {
				require.NoError(t, w.fs.Rename(dir+name, dir+name+wholefile.New))
			}
			if name != oldFileSpool || !renamed {
				require.NoError(t, wholefile.Write(w.fs, dir+name, b))
			}
		}
		require.NoError(t, wholefile.Write(w.fs, dir+oldFileErasing, []byte("the files ending in .new are whole\n")))
		require.NoError(t, w.c.files.FinishOldErasure(id))
		require.Equal(t, spelledErased, inputOf(w.results(t, id, results.Filter{})))
		requireOnlyUpload(t, w, id)
		require.NoError(t, w.close(t))
	}
}

// TestBitFlipInOldFilesFailsOnlyThatJob: the upload is migrated unchanged, or that job fails and says so.
func TestBitFlipInOldFilesFailsOnlyThatJob(t *testing.T) {
	in := testCSV(600, 9)
	w, id := atRest(t, in)
	j, err := w.c.Job(id)
	require.NoError(t, err)
	want := unpackUpload(t, w.c, id, j.Upload)
	writeOldUpload(t, w, id)
	dir, rng, damaged := w.c.files.Path(id)+"/", rand.New(rand.NewPCG(5, 6)), map[string]int{}
	for _, name := range []string{oldFileSpool, oldFileIndex, oldFileDups} {
		whole, err := readWhole(w.fs, dir+name)
		require.NoError(t, err)
		for range 300 {
			b, bit := slices.Clone(whole), rng.IntN(8*len(whole))
			b[bit/8] ^= 1 << (bit % 8)
			require.NoError(t, wholefile.Write(w.fs, dir+name, b))
			j, err := w.c.files.MigrateUpload(&store.Job{ID: id})
			if err != nil {
				require.ErrorIs(t, err, jobfiles.ErrDamaged, "%s, bit %d", name, bit)
				damaged[name]++
				continue
			}
			require.Equal(t, want, unpackUpload(t, w.c, id, j.Upload), "%s, bit %d", name, bit)
			writeOldUpload(t, w, id)
		}
		require.NoError(t, wholefile.Write(w.fs, dir+name, whole))
	}
	require.Greater(t, damaged[oldFileDups], 250, "another earlier row passes for the first one")
	writeAt(t, w.fs, dir+oldFileDups, []byte{0xff, 0xff, 0xff, 0xff}, 4*77)
	good := w.accept(t, in)
	w.run()
	require.Equal(t, store.JobCompleted, w.finish(t, good.ID).State)
	j = w.finish(t, id)
	require.Equal(t, store.JobFailed, j.State)
	require.Equal(t, msgDamaged, j.Error)
	require.NoError(t, w.close(t))
}

// TestBitFlipInAnUploadFailsOnlyItsJob flips bits of uploads: their jobs end normally, or fail and say why.
func TestBitFlipInAnUploadFailsOnlyItsJob(t *testing.T) {
	in := testCSV(300, 3)
	w := newTestEnv(t, vfs.NewMem())
	rng, ids, failed := rand.New(rand.NewPCG(3, 4)), []string{}, 0
	for range 40 {
		id := w.accept(t, in).ID
		path := w.uploadOf(t, id)
		b, err := readWhole(w.fs, path)
		require.NoError(t, err)
		bit := rng.IntN(8 * len(b))
		b[bit/8] ^= 1 << (bit % 8)
		require.NoError(t, wholefile.Write(w.fs, path, b))
		ids = append(ids, id)
	}
	good := w.accept(t, in)
	w.run()
	for _, id := range ids {
		if j := w.finish(t, id); j.State == store.JobFailed {
			require.Equal(t, msgDamaged, j.Error)
			failed++
			continue
		}
		checkResults(t, in, w.results(t, id, results.Filter{}))
	}
	require.Greater(t, failed, 35)
	require.Equal(t, store.JobCompleted, w.finish(t, good.ID).State)
	require.NoError(t, w.close(t))
}

// TestOrphanFilesAreRemoved: at a start, each hour, and when work on a job begins.
func TestOrphanFilesAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem())
		orphans := func(id string) {
			p, err := w.c.files.Create(id, jobdir.KindUpload)
			require.NoError(t, err)
			_, err = p.Write([]byte("what a crash left"))
			require.NoError(t, errors.Join(err, p.Commit()))
			_, err = w.c.files.Create(id, jobdir.KindUpload) // unfinished
			require.NoError(t, err)
		}
		w.run()
		w.prober.outcome = holdBusyRows
		done, running := w.finish(t, w.accept(t, "email\na@x.example\n").ID).ID, w.accept(t, "email\nb@busy.example\n").ID
		time.Sleep(time.Minute)
		orphans(done)
		orphans(running)
		time.Sleep(time.Hour + time.Minute)
		requireOnlyUpload(t, w, done)
		_, err := w.c.Pause(running)
		require.NoError(t, err)
		synctest.Wait()
		requireOnlyUpload(t, w, running)
		orphans(done)
		require.NoError(t, w.close(t))
		again := newTestEnv(t, w.fs)
		again.run()
		synctest.Wait()
		requireOnlyUpload(t, again, done)
		require.NoError(t, again.close(t))
	})
}

// TestReaderFindsTheUploadAfterErasure: a reader with the job's old record finds the new upload; one that has the old upload open
// reads on.
func TestReaderFindsTheUploadAfterErasure(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	j := w.finish(t, w.accept(t, spelled).ID)
	old, err := w.c.files.OpenUpload(j)
	require.NoError(t, err)
	_, err = w.erase(t.Context(), erasedAddress)
	require.NoError(t, err)
	require.NotEqual(t, w.c.files.Path(j.ID)+"/"+j.Upload, w.uploadOf(t, j.ID))
	_, text, err := old.Unpack(0, nil, nil)
	require.NoError(t, err)
	require.Contains(t, string(text), "1,"+erasedAddress)
	require.NoError(t, old.Close())
	now, err := w.c.files.OpenUpload(j)
	require.NoError(t, err)
	_, text, err = now.Unpack(0, nil, nil)
	require.NoError(t, err)
	require.NotContains(t, string(text), "1,"+erasedAddress)
	require.NoError(t, now.Close())
	require.NoError(t, w.c.files.Delete(j.ID, w.uploadOf(t, j.ID)[len(w.c.files.Path(j.ID))+1:]))
	require.Error(t, w.c.Results(t.Context(), j.ID, results.Filter{Form: results.Form{Format: results.JSONL}}, io.Discard), "a lost upload is an error")
	require.NoError(t, w.close(t))
}

package coordinator

import (
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/coordinator/results"
	"probity/internal/wholefile"
	"probity/store"
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

// requireOnlyUpload requires that a job has one upload, which its record names.
func requireOnlyUpload(t testing.TB, w *testEnv, id string) {
	t.Helper()
	j, err := w.c.Job(id)
	require.NoError(t, err)
	found, err := w.fs.List(w.c.files.Path(id))
	require.NoError(t, err)
	for _, name := range found {
		require.False(t, strings.HasSuffix(name, wholefile.New), name)
		require.True(t, name == j.Upload || !strings.HasPrefix(name, jobdir.KindUpload), "%s, and the job names %s",
			name, j.Upload)
	}
	require.Contains(t, found, j.Upload)
}

// TestBitFlipInAnUploadFailsOnlyItsJob flips bits of uploads: their jobs end normally, or fail and say why. A damaged
// set of addresses is no loss.
func TestBitFlipInAnUploadFailsOnlyItsJob(t *testing.T) {
	in := testCSV(300, 3)
	w := newTestEnv(t, vfs.NewMem())
	rng, ids, failed := rand.New(rand.NewPCG(3, 4)), []string{}, 0
	for range 40 {
		j := w.accept(t, in)
		path := w.uploadOf(t, j.ID)
		b, err := readWhole(w.fs, path)
		require.NoError(t, err)
		b[outsideSet(t, w.fs, j, j.Upload, len(b), rng)] ^= 1 << rng.IntN(8)
		require.NoError(t, wholefile.Write(w.fs, path, b))
		ids = append(ids, j.ID)
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
		done, running := w.finish(t, w.accept(t, "email\na@x.example\n").ID).ID,
			w.accept(t, "email\nb@busy.example\n").ID
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

// TestReaderFindsTheUploadAfterErasure: a reader with the job's old record finds the new upload; one that has the old
// upload open reads on.
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
	require.Error(t, w.c.Results(t.Context(), j.ID, results.Filter{Form: results.Form{Format: results.JSONL}},
		io.Discard), "a lost upload is an error")
	require.NoError(t, w.close(t))
}

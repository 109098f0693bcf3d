package coordinator

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/coordinator/csvfile"
	"probity/coordinator/ingest"
	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/wholefile"
	"probity/prober/wire"
	"probity/store"
)

// readFS records the files of jobs whose first bytes are read: the first frame of an upload, or the first group of
// answers.
type readFS struct {
	vfs.FS
	mu   sync.Mutex
	read map[string]bool // job/file
}

func (f *readFS) Open(path string, o ...vfs.OpenOption) (vfs.File, error) {
	file, err := f.FS.Open(path, o...)
	if err != nil {
		return nil, err
	}
	return &readFile{file, f, strings.TrimPrefix(path, "data/jobs/")}, nil
}

type readFile struct {
	vfs.File
	fs   *readFS
	path string
}

func (f *readFile) ReadAt(b []byte, at int64) (int, error) {
	if at == 0 {
		f.fs.mu.Lock()
		f.fs.read[f.path] = true
		f.fs.mu.Unlock()
	}
	return f.File.ReadAt(b, at)
}

// TestErasureReadsOnlyJobsWithTheAddress: of the jobs without it, neither the rows nor the answers are read.
func TestErasureReadsOnlyJobsWithTheAddress(t *testing.T) {
	disk := &readFS{FS: vfs.NewMem(), read: map[string]bool{}}
	w := newTestEnv(t, disk)
	w.run()
	for range 20 {
		w.finish(t, w.accept(t, testCSV(500, 1)+"x,x@nxgmial.com,\"n\"\n").ID)
	}
	spelling := w.finish(t, w.accept(t, testCSV(500, 1)+"1,\" U7@SHOP.example\",\"n\"\n").ID)
	mention := w.finish(t, w.accept(t, testCSV(500, 1)+"1,,\"<U7@Shop.Example>\"\n").ID)
	suggested := w.finish(t, w.accept(t, testCSV(500, 1)+"1,ann@nxgmial.com,\"n\"\n").ID)
	failed := w.accept(t, testCSV(500, 1))
	_, err := w.store.UpdateJob(failed.ID, func(j *store.Job) error { j.State = store.JobFailed; return nil })
	require.NoError(t, err)
	erase := func(folded string, jobs ...string) {
		clear(disk.read)
		_, err := w.erase(t.Context(), folded)
		require.NoError(t, err)
		for path := range disk.read {
			job, _, _ := strings.Cut(path, "/")
			require.Contains(t, jobs, job, "%s was read for %s", path, folded)
		}
		for _, id := range jobs {
			require.NotContains(t, w.results(t, id, results.Filter{}), folded)
		}
	}
	erase(erasedAddress, spelling.ID, mention.ID)
	erase(erasedAddress)
	erase("ann@gmail.com", suggested.ID)
	erase("ann@gmail.com")
	erase("ann@nxgmial.com", suggested.ID)
	erase("bo@gmail.com")
	require.NoError(t, w.close(t))
}

// spelledForms are spellings of a few addresses, and text that is nearly one.
var spelledForms = []string{"ann@gmail.com", "A.n.n+x@GMAIL.com", "\"\"\"ann\"\"@gmail.com\"", "ann@nxgmial.com",
	"a.nn@nxgmial.com", "ann@münchen.example", "ANN@xn--mnchen-3ya.example", "u7@shop.example",
	"mailto:u7@shop.example.", "Ann <u7@shop.example>", "'u7@shop.example'", "x=u7@shop.example",
	"see ?mail=Ann@Gmail.com", "é=ann@gmail.com", "u7@shop.example.org", "u7@@shop.example", "", "-",
	"\"a, u7@shop.example\"", "\"\"\"a u7@shop.example\"\"@else.example\"",
	"bo@else.example", "né@else.example"}

// foldedForms are what the spellings can be of.
var foldedForms = []string{"ann@gmail.com", "ann@nxgmial.com", "ann@xn--mnchen-3ya.example", "u7@shop.example",
	"'u7@shop.example", "x=u7@shop.example", "u7@shop.example.org", `"a u7@shop.example"@else.example`,
	"bo@else.example", "né@else.example", "é=ann@gmail.com", "a.nn@nxgmial.com"}

// TestErasureFindsWithSetsWhatItFindsWithoutThem erases addresses from lists of any spellings, encodings and states,
// one after the other, with the sets of addresses and from a copy without them: what is found and what is left are
// equal.
func TestErasureFindsWithSetsWhatItFindsWithoutThem(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		form := rapid.SampledFrom(spelledForms)
		list := "id,email,note\n"
		if rapid.Bool().Draw(rt, "mention in the preamble") {
			list = "u7@shop.example,email,note\n"
		}
		list += "1,x@else.example,\n"
		for range rapid.IntRange(0, 6).Draw(rt, "rows") {
			list += form.Draw(rt, "id") + "," + form.Draw(rt, "email") + "," + form.Draw(rt, "note") + "\n"
		}
		if rapid.Bool().Draw(rt, "Windows-1252") {
			list = strings.NewReplacer("ü", "\xfc", "é", "\xe9").Replace(list)
		}
		disk := vfs.NewCrashableMem()
		w := newTestEnv(t, disk)
		finished := rapid.Bool().Draw(rt, "finished")
		if finished {
			w.run()
		}
		j, err := w.c.Accept(t.Context(), ingest.Upload{Body: strings.NewReader(list),
			Options: ingest.Options{Reading: csvfile.Options{AnyColumn: true}}})
		require.NoError(rt, err)
		if finished {
			w.finish(t, j.ID)
		}
		require.NoError(t, w.close(t))
		with := newTestEnv(t, disk.CrashClone(vfs.CrashCloneCfg{}))
		without := newTestEnv(t, disk.CrashClone(vfs.CrashCloneCfg{}))
		removeSets(t, without, j.ID)
		for range 4 {
			folded := rapid.SampledFrom(foldedForms).Draw(rt, "address")
			n, err := with.erase(t.Context(), folded)
			require.NoError(t, err)
			want, err := without.erase(t.Context(), folded)
			require.NoError(t, err)
			require.Equal(rt, want, n, "%s in %q", folded, list)
		}
		for _, w := range []*testEnv{with, without} {
			w.run()
			w.finish(t, j.ID)
		}
		want := inputOf(without.results(t, j.ID, results.Filter{}))
		require.Equal(rt, want, inputOf(with.results(t, j.ID, results.Filter{})))
		require.NoError(t, errors.Join(with.close(t), without.close(t)))
	})
}

// removeSets writes a job's upload again without its set of addresses, and cuts that of its answers off.
func removeSets(t testing.TB, w *testEnv, id string) {
	j, err := w.c.Job(id)
	require.NoError(t, err)
	u, err := w.c.files.OpenUpload(j)
	require.NoError(t, err)
	p, err := w.c.files.Create(id, jobdir.KindUpload)
	require.NoError(t, err)
	to := jobfiles.NewUploadWriter(p)
	for i, f := range u.Frames {
		packed, err := u.Packed(i, nil)
		require.NoError(t, errors.Join(err, to.AddFrame(packed, f)))
	}
	require.NoError(t, errors.Join(u.EachDuplicate(to.AddDuplicate), to.Finish(u.Preamble), p.Commit(), u.Close()))
	if j.Answers != nil {
		path := "data/jobs/" + id + "/" + j.Answers.Name
		b, err := readWhole(w.fs, path)
		require.NoError(t, err)
		require.NoError(t, wholefile.Write(w.fs, path, b[:j.Answers.Bytes]))
	}
	_, err = w.store.UpdateJob(id, func(j *store.Job) error { j.Upload = p.Name(); return nil })
	require.NoError(t, err)
	require.NoError(t, w.c.files.RemoveOrphans(id))
}

// TestErasureReadsAJobWithADamagedSet flips bits of the sets of a job: each erasure finds the address.
func TestErasureReadsAJobWithADamagedSet(t *testing.T) {
	disk := vfs.NewCrashableMem()
	w := newTestEnv(t, disk)
	w.run()
	j := w.finish(t, w.accept(t, spelled+"9,x@nxgmial.com,\n").ID)
	require.NoError(t, w.close(t))
	flips := 0
	for _, name := range []string{j.Upload, j.Answers.Name} {
		path := "data/jobs/" + j.ID + "/" + name
		whole, err := readWhole(disk, path)
		require.NoError(t, err)
		from, to := setOf(t, disk, j, name, len(whole))
		for at := from; at < to; at += 3 {
			b := slices.Clone(whole)
			b[at] ^= 1 << (at % 8)
			disk := disk.CrashClone(vfs.CrashCloneCfg{})
			require.NoError(t, wholefile.Write(disk, path, b))
			again := newTestEnv(t, disk)
			for _, folded := range []string{erasedAddress, "x@gmail.com"} {
				n, err := again.erase(t.Context(), folded)
				require.NoError(t, err)
				require.Equal(t, 1, n, "%s with byte %d of %s flipped", folded, at, name)
				n, err = again.erase(t.Context(), folded)
				require.NoError(t, err)
				require.Zero(t, n, "nothing is left of it")
			}
			require.NoError(t, again.close(t))
			flips++
		}
	}
	require.Greater(t, flips, 20)
}

// outsideSet draws a byte of a file of a job that is not of its set of addresses.
func outsideSet(t testing.TB, disk vfs.FS, j *store.Job, name string, size int, rng *rand.Rand) int {
	from, to := setOf(t, disk, j, name, size)
	at := rng.IntN(size - (to - from))
	if at >= from {
		at += to - from
	}
	return at
}

// setOf returns where the set in a file of a job begins and ends.
func setOf(t testing.TB, disk vfs.FS, j *store.Job, name string, size int) (from, to int) {
	if j.Answers != nil && name == j.Answers.Name {
		return int(j.Answers.Bytes), size
	}
	if name != j.Upload {
		return size, size
	}
	u, err := jobfiles.OpenUpload(&jobfiles.Folder{FS: disk, Dir: "data/jobs"}, j.ID, name, nil)
	require.NoError(t, err)
	defer u.Close()
	for i := range u.Frames {
		packed, err := u.Packed(i, nil)
		require.NoError(t, err)
		from += len(packed)
	}
	var set strings.Builder
	require.NoError(t, u.Addresses().WriteWithout(&set, "absent@else.example"))
	return from, from + set.Len()
}

// TestErasureOfASuggestionAnswersNoRow: the log of a running job suggests the address, which is not in its list. No row
// is answered by the erasure: what waits is asked again.
func TestErasureOfASuggestionAnswersNoRow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem())
		var asked atomic.Int64
		w.prober.outcome = func(_ *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
			if r.Address.Local() != "bo" {
				return wire.Settled, 0
			}
			if asked.Add(1) == 1 {
				return wire.Deferred, time.Hour
			}
			return wire.Settled, 0
		}
		w.run()
		j := w.accept(t, "email\nbo@shop.example\nx@nxgmial.com\n")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 1, asked.Load())
		n, err := w.erase(t.Context(), "x@gmail.com")
		require.NoError(t, err)
		require.Equal(t, 1, n)
		j, err = w.c.Wait(t.Context(), j.ID)
		require.NoError(t, err)
		result := w.results(t, j.ID, results.Filter{})
		require.EqualValues(t, 2, asked.Load())
		require.NotContains(t, result, "x@gmail.com")
		require.NotContains(t, result, engine.ReasonSMTPNotChecked.String())
		require.NoError(t, w.close(t))
	})
}

// TestErasedTextIsInNoSet: a text that can be read as two addresses loses both when one is erased, so the set of the
// new list must not have the other: a guess at what stood there could be tested against it.
func TestErasedTextIsInNoSet(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	j := w.accept(t, "email,note\nbo@shop.example,see ?mail=ann@x.example\n")
	n, err := w.erase(t.Context(), "ann@x.example")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	j, err = w.c.Job(j.ID)
	require.NoError(t, err)
	u, err := w.c.files.OpenUpload(j)
	require.NoError(t, err)
	require.Nil(t, u.Addresses())
	require.NoError(t, u.Close())
	require.NoError(t, w.close(t))
}

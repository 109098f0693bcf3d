package coordinator

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/coordinator/results"
	"probity/internal/detector"
	"probity/internal/wholefile"
	"probity/prober/wire"
	"probity/store"
)

// erasedAddress is the address that the tests erase, in the spellings of one list.
const erasedAddress = "u7@shop.example"

const spelled = "id,email,note\n" +
	"1,u7@shop.example,\"n 1\"\n" +
	"2,u8@shop.example,knows u7@shop.example well\n" +
	"3,\" U7@SHOP.example\",\"<U7@Shop.Example>, x\"\n" +
	"4,Ann <u7@shop.example>,mailto:u7@shop.example.\n" +
	"5,xu7@shop.example,u7@shop.example.org x.u7@shop.example o'u7@shop.example\n" +
	"6,,see ?mail=u7@shop.example\n" +
	"7,\"\"\"u7\"\"@shop.example\",'u7@shop.example'\n" +
	"8,\"\"\"a u7@shop.example\"\"@else.example\",-\n"

const spelledErased = "id,email,note\n" +
	"1,<erased>,\"n 1\"\n" +
	"2,u8@shop.example,knows <erased> well\n" +
	"3,<erased>,\"<<erased>>, x\"\n" +
	"4,Ann <<erased>>,mailto:<erased>.\n" +
	"5,xu7@shop.example,u7@shop.example.org x.u7@shop.example o'u7@shop.example\n" +
	"6,,see ?mail=<erased>\n" +
	"7,<erased>,'<erased>'\n" +
	"8,\"\"\"a u7@shop.example\"\"@else.example\",-\n"

// inputOf returns a result without our columns.
func inputOf(result string) string {
	var b strings.Builder
	for line := range strings.Lines(result) {
		cells := strings.Split(strings.TrimSuffix(line, "\n"), ",")
		b.WriteString(strings.Join(cells[:len(cells)-ownColumns], ",") + "\n")
	}
	return b.String()
}

// oursOf returns our columns of the rows.
func oursOf(result string) string {
	var b strings.Builder
	for line := range strings.Lines(result) {
		cells := strings.Split(line, ",")
		b.WriteString(strings.Join(cells[len(cells)-ownColumns:], ","))
	}
	return b.String()
}

// requireNowhere requires that no file of a job contains the text, decompressed where it is compressed.
func requireNowhere(t testing.TB, w *testEnv, text string) {
	t.Helper()
	ids, err := w.fs.List("data/jobs")
	require.NoError(t, err)
	for _, id := range ids {
		dir := "data/jobs/" + id
		files, err := w.fs.List(dir)
		require.NoError(t, err)
		for _, name := range files {
			require.NotContains(t, name, wholefile.New, "left over")
			b, err := readWhole(w.fs, dir+"/"+name)
			require.NoError(t, err)
			if strings.HasPrefix(name, jobdir.KindUpload) {
				b = unpackUpload(t, w.c, id, name)
			}
			if strings.HasPrefix(name, jobdir.KindResult) || name == jobdir.FileCallback {
				z, err := zstd.NewReader(bytes.NewReader(b))
				require.NoError(t, err)
				b, err = io.ReadAll(z)
				require.NoError(t, err)
				z.Close()
			}
			require.NotContains(t, strings.ToLower(string(b)), text, "%s", name)
		}
	}
}

// erase returns how many jobs contained the address.
func (w *testEnv) erase(ctx context.Context, folded string) (jobs int, err error) {
	_, err = w.c.ForErasure().Erase(ctx, folded, nil, func(string, int64) error { jobs++; return nil })
	return jobs, err
}

func TestEraseFromAFinishedJob(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	j := w.finish(t, w.accept(t, spelled).ID)
	other := w.finish(t, w.accept(t, "email\nbo@else.example\n").ID)
	was := w.results(t, j.ID, results.Filter{})
	require.Equal(t, spelled, inputOf(was))
	require.NoError(t, w.c.WriteResults(t.Context(), j.ID, io.Discard))

	n, err := w.erase(t.Context(), erasedAddress)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	got := w.results(t, j.ID, results.Filter{})
	require.Equal(t, spelledErased, inputOf(got))
	require.Equal(t, strings.ReplaceAll(oursOf(was), erasedAddress, ""), oursOf(got),
		"verdicts stay, but for a suggestion of the address")
	var rows bytes.Buffer
	require.NoError(t, w.c.WriteResults(t.Context(), j.ID, &rows))
	require.Contains(t, rows.String(), `{"row":1,"email":"<erased>",`)

	now, err := w.c.Job(j.ID)
	require.NoError(t, err)
	require.NotEqual(t, j.ResultSHA, now.ResultSHA)
	stored, err := readWhole(w.fs, "data/jobs/"+j.ID+"/"+now.Result)
	require.NoError(t, err)
	sum := sha256.Sum256(stored)
	require.Equal(t, hex.EncodeToString(sum[:]), now.ResultSHA)
	require.EqualValues(t, len(stored), now.ResultBytes)
	require.Equal(t, j.Counts, now.Counts)
	untouched, err := w.c.Job(other.ID)
	require.NoError(t, err)
	require.Equal(t, other, untouched)

	n, err = w.erase(t.Context(), erasedAddress)
	require.NoError(t, err)
	require.Zero(t, n, "nothing is left of it")
	require.NoError(t, w.c.Expire(j.ID))
	_, err = w.erase(t.Context(), erasedAddress)
	require.NoError(t, err)
	_, err = w.erase(t.Context(), "no address")
	require.Error(t, err)
	require.NoError(t, w.close(t))
}

// TestEraseFindsAllSpellings erases spellings of one address: by the rules of a provider, by the two forms of a domain,
// and in the file's encoding.
func TestEraseFindsAllSpellings(t *testing.T) {
	for _, c := range []struct{ folded, in, want string }{
		{"ann@gmail.com", "email\na.n.n+x@gmail.com\nann@gmail.co\n", "<erased>,"},
		{"ann@xn--mnchen-3ya.example", "email\nann@m\xfcnchen.example\nb\xfcro@else.example\n", "<erased>,"},
		{"ann@xn--mnchen-3ya.example", "email;x\nbo@a.example;ann@münchen.example\n", "bo@a.example;<erased>;"},
		{"x@nxgmial.com", "email\nx@nxgmial.com\n", "<erased>,"},
	} {
		w := newTestEnv(t, vfs.NewMem())
		w.run()
		j := w.finish(t, w.accept(t, c.in).ID)
		n, err := w.erase(t.Context(), c.folded)
		require.NoError(t, err)
		require.Equal(t, 1, n, c.in)
		got := w.results(t, j.ID, results.Filter{})
		require.True(t, strings.HasPrefix(got[strings.IndexByte(got, '\n')+1:], c.want), got)
		require.NotContains(t, got, "@gmail.com", "what was suggested instead is forgotten too")
		requireNowhere(t, w, c.folded)
		require.NoError(t, w.close(t))
	}
}

// TestEraseRemovesSuggestions erases an address that is only in our did-you-mean of another.
func TestEraseRemovesSuggestions(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	j := w.finish(t, w.accept(t, "email\nx@nxgmial.com\ny@nxgmial.com\n").ID)
	n, err := w.erase(t.Context(), "x@gmail.com")
	require.NoError(t, err)
	require.Equal(t, 1, n)
	got := w.results(t, j.ID, results.Filter{})
	require.Contains(t, got, "x@nxgmial.com")
	require.NotContains(t, got, "x@gmail.com")
	require.Contains(t, got, "y@gmail.com")
	requireNowhere(t, w, "x@gmail.com")
	require.NoError(t, w.close(t))
}

// TestEraseFromARunningJob erases an address that waits for its next attempt: it is not probed again, the others are
// when they are due, and no file of the job contains it any more.
func TestEraseFromARunningJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem())
		var asked atomic.Int64
		w.prober.outcome = func(_ *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
			if r.Address.Folded() == erasedAddress {
				asked.Add(1)
			}
			if r.Attempt == 0 {
				return wire.Deferred, time.Hour
			}
			return wire.Settled, 0
		}
		w.run()
		began := time.Now()
		j := w.accept(t, testCSV(300, 5)+"x,u7@shop.example,\"n\"\ny,u7@shop.example,\"n\"\nz,zz@shop.example,\"n\"\n")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 1, asked.Load())

		n, err := w.erase(t.Context(), erasedAddress)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		requireNowhere(t, w, erasedAddress)
		now, err := w.c.Job(j.ID)
		require.NoError(t, err)
		require.False(t, now.State.Finished())
		j, err = w.c.Wait(t.Context(), j.ID)
		require.NoError(t, err)
		require.Equal(t, store.JobCompleted, j.State)
		require.EqualValues(t, 1, asked.Load(), "asked again")
		require.WithinDuration(t, began.Add(time.Hour), j.FinishedAt, 5*time.Minute, "the others kept their time")
		got := w.results(t, j.ID, results.Filter{})
		require.Equal(t, 2, strings.Count(got, "<erased>,\"n\",UNKNOWN,50,smtp_not_checked,"))
		require.NotContains(t, got, "u7@shop.example")
		require.NotContains(t, got, "greylisted")
		requireNowhere(t, w, erasedAddress)
		require.NoError(t, w.close(t))
	})
}

// TestEraseFromAJobInEveryState erases while Run is not running.
func TestEraseFromAJobInEveryState(t *testing.T) {
	for _, state := range []store.JobState{store.JobQueued, store.JobPaused, store.JobCancelling, store.JobFailed} {
		w := newTestEnv(t, vfs.NewMem())
		j := w.accept(t, spelled)
		_, err := w.store.UpdateJob(j.ID, func(j *store.Job) error {
			j.State, j.Cancelled = state, state == store.JobCancelling
			j.PausedAt = time.Now() // a job paused for weeks is cancelled at the start
			return nil
		})
		require.NoError(t, err)
		n, err := w.erase(t.Context(), erasedAddress)
		require.NoError(t, err)
		if state == store.JobFailed {
			left, err := w.fs.List("data/jobs/" + j.ID)
			require.NoError(t, err)
			require.Empty(t, left, "nobody is served from the files of a failed job")
			require.NoError(t, w.close(t))
			continue
		}
		require.Equal(t, 1, n)
		w.run()
		if state == store.JobPaused {
			_, err = w.c.Resume(j.ID)
			require.NoError(t, err)
		}
		require.Equal(t, spelledErased, inputOf(w.results(t, w.finish(t, j.ID).ID, results.Filter{})))
		require.NoError(t, w.close(t))
	}
}

// TestEraseRecoversFromAnyFailedStep fails each durable step of an erasure in turn, before and after it took effect,
// cuts the power, starts again, and erases again: the job is whole, and the address is gone.
func TestEraseRecoversFromAnyFailedStep(t *testing.T) {
	detector.Spare(t)
	for _, running := range []bool{false, true} {
		for _, persist := range []bool{false, true} {
			steps := 0
			for n, more := int64(1), true; more; n++ {
				synctest.Test(t, func(t *testing.T) { more = failErasure(t, n, persist, running) })
				if more {
					steps++
				}
			}
			t.Logf("running %v, persisted %v: %d steps", running, persist, steps)
			require.Greater(t, steps, 12)
		}
	}
}

func failErasure(t *testing.T, n int64, persist, running bool) (more bool) {
	disk := vfs.NewCrashableMem()
	fs := &faultFS{FS: disk, persist: persist}
	w := newTestEnv(t, disk, func(_ *testEnv, c *Config) { c.FS = fs })
	if running {
		w.prober.outcome = func(*wire.Batch, *wire.Row) (wire.Outcome, time.Duration) {
			return wire.Deferred, 50 * time.Millisecond
		}
	}
	w.run()
	j := w.accept(t, spelled)
	if !running {
		w.finish(t, j.ID)
	} else {
		synctest.Wait() // every row is split and deferred
		s, err := w.c.Snapshot(j.ID)
		require.NoError(t, err)
		require.Positive(t, s.PendingRetry)
		require.Equal(t, s.Unique-s.Answered, s.PendingRetry)
	}
	w.stop()
	require.NoError(t, <-w.ended)
	fs.countdown.Store(n)
	_, err := w.erase(t.Context(), erasedAddress)
	fs.countdown.Store(-1 << 40)
	more = fs.failedStep.Load() != nil
	if err != nil {
		require.ErrorIs(t, err, errDisk)
	}
	require.NoError(t, w.store.Close())

	again := newTestEnv(t, disk.CrashClone(vfs.CrashCloneCfg{}))
	again.run()
	if !running {
		again.results(t, j.ID, results.Filter{})
	}
	_, failed := again.erase(t.Context(), erasedAddress)
	require.NoError(t, failed, "step %d: %v", n, *cmp.Or(fs.failedStep.Load(), new(string)))
	done := again.finish(t, j.ID)
	require.Equal(t, store.JobCompleted, done.State)
	var stored bytes.Buffer
	require.NoError(t, again.c.Results(t.Context(), j.ID, results.Filter{}, &stored))
	require.Equal(t, spelledErased, inputOf(stored.String()), "step %d: %v", n,
		*cmp.Or(fs.failedStep.Load(), new(string)))
	packed, err := readWhole(again.fs, "data/jobs/"+j.ID+"/"+done.Result)
	require.NoError(t, err)
	sum := sha256.Sum256(packed)
	require.Equal(t, hex.EncodeToString(sum[:]), done.ResultSHA)
	require.NoError(t, again.close(t))
	return more
}

// TestEraseReturnsOnceDurable cuts the power after Erase has returned; all unsynced data is lost.
func TestEraseReturnsOnceDurable(t *testing.T) {
	disk := vfs.NewCrashableMem()
	w := newTestEnv(t, disk)
	w.run()
	j := w.finish(t, w.accept(t, spelled).ID)
	_, err := w.erase(t.Context(), erasedAddress)
	require.NoError(t, err)
	after := newTestEnv(t, disk.CrashClone(vfs.CrashCloneCfg{}))
	require.Equal(t, spelledErased, inputOf(after.results(t, j.ID, results.Filter{})))
	require.NoError(t, after.close(t))
	require.NoError(t, w.close(t))
}

// TestEraseContinuesPastADamagedJob: one unreadable job does not stop the others.
func TestEraseContinuesPastADamagedJob(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	a, b := w.finish(t, w.accept(t, spelled).ID), w.finish(t, w.accept(t, spelled).ID)
	require.NoError(t, wholefile.Write(w.fs, w.uploadOf(t, a.ID), []byte("nonsense")))
	n, err := w.erase(t.Context(), erasedAddress)
	require.ErrorIs(t, err, jobfiles.ErrDamaged)
	require.ErrorContains(t, err, a.ID)
	require.Equal(t, 1, n)
	require.Equal(t, spelledErased, inputOf(w.results(t, b.ID, results.Filter{})))
	require.NoError(t, w.close(t))
}

func TestEraseEndsWithItsContext(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	w.finish(t, w.accept(t, spelled).ID)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err := w.erase(ctx, erasedAddress)
	require.True(t, errors.Is(err, context.Canceled))
	require.NoError(t, w.close(t))
}

package coordinator

import (
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/ingest"
	"probity/coordinator/jobfiles"
	"probity/coordinator/results"
	"probity/prober/wire"
	"probity/store"
)

var times = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ`)

// withoutTimes returns a result without its times: a row that is answered again after a crash has a new one.
func withoutTimes(s string) string { return times.ReplaceAllString(s, "T") }

// deferSome slowly defers and returns some rows once, chosen by row number.
func deferSome(pace time.Duration) func(*wire.Batch, *wire.Row) (wire.Outcome, time.Duration) {
	return func(_ *wire.Batch, r *wire.Row) (wire.Outcome, time.Duration) {
		if r.Number%64 == 0 && pace > 0 {
			time.Sleep(pace)
		}
		if r.Number%17 == 3 && r.Attempt == 0 {
			return wire.Deferred, time.Millisecond
		}
		return wire.Settled, 0
	}
}

// TestResultsSurvivePowerLoss cuts the power at random moments of a job, repeatedly, and continues from the disk with
// all, some or none of the unsynced data.
func TestResultsSurvivePowerLoss(t *testing.T) {
	in := testCSV(8000, 3)
	clean := newTestEnv(t, vfs.NewMem())
	clean.prober.outcome = deferSome(0)
	clean.run()
	want := withoutTimes(clean.results(t, clean.finish(t, clean.accept(t, in).ID).ID, results.Filter{}))
	require.NoError(t, clean.close(t))
	checkResults(t, in, want)

	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
	for range 5 {
		fs := vfs.NewCrashableMem()
		w := newTestEnv(t, fs)
		j := w.accept(t, in)
		restarts := 0
		for done := false; !done; restarts++ {
			w.prober.outcome, w.prober.part = deferSome(100*time.Microsecond), 64
			w.run()
			after := time.Duration(rng.IntN(120)) * time.Millisecond
			ctx, stop := context.WithTimeout(t.Context(), after)
			_, err := w.c.Wait(ctx, j.ID)
			stop()
			done = err == nil || restarts == 6
			if done {
				break
			}
			crashed := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: []int{0, 50, 100}[rng.IntN(3)], RNG: rng})
			w.close(t)
			fs = crashed
			w = newTestEnv(t, fs)
			known := answeredRows(t, w, j)
			w.prober.outcome = nil
			t.Logf("life %d: crash after %v with %d rows answered", restarts, after, len(known))
			failOnRepeat(t, w, known)
		}
		got := w.results(t, w.finish(t, j.ID).ID, results.Filter{})
		require.Equal(t, want, withoutTimes(got))
		require.NoError(t, w.close(t))
	}
}

// answeredRows reads the answered rows from the log on the disk.
func answeredRows(t *testing.T, w *testEnv, j *store.Job) map[uint32]bool {
	known := map[uint32]bool{}
	now, err := w.c.Job(j.ID)
	require.NoError(t, err)
	f, err := w.c.files.OpenAnswers(now)
	require.NoError(t, err)
	if f == nil {
		return known
	}
	defer f.Close()
	end, err := jobfiles.ReadRows(f, func(g *jobfiles.Group) error {
		for row, rec := range g.Answers() {
			if rec.Kind() == jobfiles.Final {
				require.False(t, known[row], "answered twice")
				known[row] = true
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Zero(t, end.Damaged)
	return known
}

// failOnRepeat fails the test when a durably answered row is sent again.
func failOnRepeat(t *testing.T, w *testEnv, known map[uint32]bool) {
	w.prober.onAsk = func(row uint32) {
		if known[row] {
			t.Errorf("row %d is asked again after its answer was durable", row)
		}
	}
}

func TestBrokenUploadLeavesNoFiles(t *testing.T) {
	fs := vfs.NewMem()
	w := newTestEnv(t, fs)
	broken := errors.New("connection reset")
	refused := errors.New("not enough credits")
	for _, c := range []struct {
		name string
		u    ingest.Upload
		want error
	}{
		{"broken", ingest.Upload{Body: failingReader{strings.NewReader("email\na@x.example\n"), broken}}, broken},
		{"refused by a part", ingest.Upload{Body: strings.NewReader("email\na@x.example\n"), Options: ingest.Options{
			Parts: func(*store.Job) []store.Part { return []store.Part{failingPart(refused)} }}}, refused},
	} {
		_, err := w.c.Accept(t.Context(), c.u)
		require.ErrorIs(t, err, c.want, c.name)
		left, err := fs.List("data/jobs")
		require.NoError(t, err)
		require.Empty(t, left, c.name)
	}
	require.NoError(t, w.close(t))
}

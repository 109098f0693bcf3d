package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/ingest"
	"probity/coordinator/plan"
	"probity/coordinator/results"
	"probity/store"
)

// acceptReady accepts a list as a job that waits to be started.
func (w *testEnv) acceptReady(t testing.TB, csv string) *store.Job {
	t.Helper()
	hold := func(j *store.Job) []store.Part {
		j.State, j.Unstarted = store.JobReady, true
		return nil
	}
	j, err := w.c.Accept(context.Background(), ingest.Upload{Body: strings.NewReader(csv),
		Options: ingest.Options{Parts: hold}})
	require.NoError(t, err)
	return j
}

// restart ends the process of a test and starts another on the same disk; after a crash without what was not synced.
func (w *testEnv) restart(t *testing.T, mem *vfs.MemFS, crash bool) *testEnv {
	t.Helper()
	fs := vfs.FS(mem)
	if crash {
		fs = mem.CrashClone(vfs.CrashCloneCfg{})
	}
	require.NoError(t, w.close(t))
	next := newTestEnv(t, fs)
	next.run()
	return next
}

func TestReadyJobSurvivesRestartAndCrash(t *testing.T) {
	for name, crash := range map[string]bool{"restart": false, "crash": true} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			w := newTestEnv(t, mem)
			w.run()
			in := testCSV(500, 1)
			j := w.acceptReady(t, in)
			w = w.restart(t, mem, crash)
			require.Equal(t, store.JobReady, stateOf(t, w, j.ID).State)
			require.Empty(t, w.prober.settled)
			_, err := w.c.Pause(j.ID)
			require.ErrorIs(t, err, ErrState)
			p, err := w.c.Preview(t.Context(), j)
			require.NoError(t, err)
			require.Equal(t, []string{"id", "email", "note"}, p.Columns)
			require.Len(t, p.Rows, 10)
			require.Equal(t, []string{"3", "n 3"}, []string{p.Rows[3][0], p.Rows[3][2]})
			_, err = w.c.Start(j.ID)
			require.NoError(t, err)
			require.Equal(t, store.JobCompleted, w.finish(t, j.ID).State)
			checkResults(t, in, w.results(t, j.ID, results.Filter{}))
			_, err = w.c.Start(j.ID)
			require.ErrorIs(t, err, ErrState)
			require.NoError(t, w.close(t))
		})
	}
}

// A job that is started is not lost, whatever comes after the commit.
func TestStartedJobRunsAfterACrash(t *testing.T) {
	mem := vfs.NewCrashableMem()
	w := newTestEnv(t, mem)
	j := w.acceptReady(t, testCSV(300, 1))
	_, err := w.c.Start(j.ID) // nothing runs here
	require.NoError(t, err)
	w = w.restart(t, mem, true)
	require.Equal(t, store.JobCompleted, w.finish(t, j.ID).State)
	require.NoError(t, w.close(t))
}

func TestReadyJobIsDeletedAfterSevenDays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem())
		w.run()
		old := w.acceptReady(t, testCSV(50, 1))
		time.Sleep(2 * day)
		young := w.acceptReady(t, testCSV(50, 1))
		time.Sleep(5*day - time.Minute)
		require.Equal(t, store.JobReady, stateOf(t, w, old.ID).State)
		time.Sleep(time.Hour + 2*time.Minute)
		_, err := w.c.Job(old.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = w.fs.Stat(w.c.files.Path(old.ID))
		require.Error(t, err, "its folder is gone")
		require.Equal(t, store.JobReady, stateOf(t, w, young.ID).State)
		require.NoError(t, w.c.Delete(young.ID))
		require.NoError(t, w.close(t))
	})
}

// TestPartsOfExpiryAndDeletion: other records of a job end in the commits that expire and delete it.
func TestPartsOfExpiryAndDeletion(t *testing.T) {
	var ended []string
	failing := errors.New("no")
	part := func(what string) func(string) store.Part {
		return func(job string) store.Part {
			return func(*pebble.Batch) error {
				ended = append(ended, what+" "+job)
				return failing
			}
		}
	}
	w := newTestEnv(t, vfs.NewMem(), func(_ *testEnv, c *Config) {
		c.OnExpire, c.OnDelete = part("expired"), part("deleted")
	})
	w.run()
	id := w.acceptReady(t, testCSV(50, 1)).ID
	require.ErrorIs(t, w.c.Delete(id), failing)
	require.Equal(t, store.JobReady, stateOf(t, w, id).State)
	failing = nil
	require.NoError(t, w.c.Delete(id))
	require.Equal(t, []string{"expired " + id, "expired " + id, "expired " + id, "deleted " + id}, ended)
	require.NoError(t, w.close(t))
}

// A start and a deletion at one time: one of them wins, and a started job has its files.
func TestReadyJobIsStartedOrDeleted(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	for range 50 {
		j := w.acceptReady(t, "email\na@x.example\n")
		deleted := make(chan error, 1)
		go func() { deleted <- w.c.Delete(j.ID) }()
		_, started := w.c.Start(j.ID)
		if err := <-deleted; err != nil {
			require.NoError(t, started)
			require.ErrorIs(t, err, ErrState)
			require.Equal(t, store.JobCompleted, w.finish(t, j.ID).State)
			continue
		}
		_, err := w.c.Job(j.ID) // it was never started, or had finished
		require.ErrorIs(t, err, store.ErrNotFound)
	}
	require.NoError(t, w.close(t))
}

// An address is erased from a list that was not started.
func TestErasureReachesReadyJobs(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	w.run()
	j := w.acceptReady(t, "id,email\n1,U7@shop.example\n2,b@x.example\n")
	left, err := w.c.ForErasure().Erase(t.Context(), erasedAddress, nil, func(string, int64) error { return nil })
	require.NoError(t, err)
	require.Empty(t, left)
	requireNowhere(t, w, erasedAddress)
	s := stateOf(t, w, j.ID)
	p, err := w.c.Preview(t.Context(), &s.Job)
	require.NoError(t, err)
	require.Equal(t, "<erased>", p.Rows[0][1])
	_, err = w.c.Start(j.ID)
	require.NoError(t, err)
	w.finish(t, j.ID)
	require.Equal(t, "id,email\n1,<erased>\n2,b@x.example\n", inputOf(w.results(t, j.ID, results.Filter{})))
	require.NoError(t, w.close(t))
}

// TestReadyJobTellsThePlan: domains of companies share the budget of the provider that hosts them, which their names do
// not tell.
func TestReadyJobTellsThePlan(t *testing.T) {
	w := newTestEnv(t, vfs.NewMem())
	var list strings.Builder
	list.WriteString("email\n")
	for i := range 400 {
		fmt.Fprintf(&list, "u%d@hosted%d.example\n", i, i%40)
	}
	j := w.acceptReady(t, list.String())
	p, err := w.c.Preview(t.Context(), j)
	require.NoError(t, err)
	planned, err := w.c.Plan(t.Context(), j.ID, plan.Options{Refused: plan.DefaultRefused})
	require.NoError(t, err)
	require.Positive(t, planned.MinTime, "the largest domain alone takes no time")
	require.Equal(t, &planned.MinTime, p.LeastTime)

	before := w.dns.asked["hosted1.example"]
	_, err = w.c.Preview(t.Context(), j)
	require.NoError(t, err)
	require.Equal(t, before, w.dns.asked["hosted1.example"], "it is not planned again")

	w.dns.dead.Store(true)
	for i := range 10 {
		fmt.Fprintf(&list, "v%d@shop.example\n", i)
	}
	p, err = w.c.Preview(t.Context(), w.acceptReady(t, list.String()))
	require.NoError(t, err)
	require.Nil(t, p.LeastTime, "nothing is known")
	require.Equal(t, []string{"email"}, p.Columns)
	require.NoError(t, w.close(t))
}

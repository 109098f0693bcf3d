package coordinator

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/erase"
	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/wholefile"
	"probity/prober/wire"
	"probity/store"
)

// fakeCaches are nodes with a cache each; some are absent.
type fakeCaches struct {
	before func(ctx context.Context) error // called before the nodes are reached

	mu     sync.Mutex     // guards all below while an eraser runs
	cached map[string]int // verdicts of the address by node
	away   map[string]bool
	fails  map[string]bool // reachable nodes that fail
	asked  int
}

func (n *fakeCaches) setAway(node string, unreachable bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away[node] = unreachable
}

// repair makes a node work again.
func (n *fakeCaches) repair(node string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fails[node] = false
}

func (n *fakeCaches) timesAsked() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked
}

func (n *fakeCaches) Forget(ctx context.Context, _ string,
	done func(string) bool) (reached map[string]int, unreachable []string, err error) {
	if n.before != nil {
		if err := n.before(ctx); err != nil {
			return nil, nil, err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked++
	reached = map[string]int{}
	for node, verdicts := range n.cached {
		switch {
		case done(node):
		case n.away[node], n.fails[node]:
			unreachable = append(unreachable, node)
		default:
			reached[node], n.cached[node] = verdicts, 0
		}
	}
	return reached, unreachable, nil
}

func (n *fakeCaches) Reachable(node string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.away[node]
}

// none is the erasure of what there is not.
func none(string) (int, error) { return 0, nil }

func (w *testEnv) eraser(n *fakeCaches) *erase.Eraser {
	return erase.New(erase.Config{Store: w.store, Jobs: w.c.ForErasure(), Caches: n, Answers: none, Reports: none})
}

// requestErasure erases erasedAddress.
func requestErasure(ctx context.Context, t *testing.T, r *erase.Eraser) (store.Erasure, error) {
	a, err := engine.Parse(erasedAddress)
	require.NoError(t, err)
	return r.Erase(ctx, a, "root", time.Now())
}

// slowOpens is a disk on which it takes a second to open a file.
type slowOpens struct{ vfs.FS }

func (d slowOpens) Open(path string, o ...vfs.OpenOption) (vfs.File, error) {
	time.Sleep(time.Second)
	return d.FS.Open(path, o...)
}

// TestErasureSearchesSeveralJobsAtOnce: jobs of other addresses, however many they are, do not wait for each other's
// files.
func TestErasureSearchesSeveralJobsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
		disk := vfs.NewMem()
		w := newTestEnv(t, disk)
		w.run()
		const others = 40
		for i := range others {
			w.finish(t, w.accept(t, fmt.Sprintf("email\nbo%d@else.example\n", i)).ID)
		}
		j := w.finish(t, w.accept(t, spelled).ID)
		require.NoError(t, w.close(t))

		w = newTestEnv(t, disk, func(_ *testEnv, c *Config) { c.FS = slowOpens{disk} })
		began := time.Now()
		e, err := requestErasure(t.Context(), t, w.eraser(&fakeCaches{}))
		took := time.Since(began)
		require.NoError(t, err)
		requireDone(t, w, e)
		require.Equal(t, spelledErased, inputOf(w.results(t, j.ID, results.Filter{})))
		const opens = 2 // files of each job: its upload and its answers
		require.Less(t, took, others*opens*time.Second/2)
		require.NoError(t, w.close(t))
	})
}

// runEraserFor runs an eraser for a time and returns the receipt.
func runEraserFor(t *testing.T, w *testEnv, r *erase.Eraser, id string, d time.Duration) store.Erasure {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	time.Sleep(d)
	synctest.Wait()
	stop()
	require.NoError(t, <-ended)
	e, err := w.store.Erasure(id)
	require.NoError(t, err)
	return e
}

// spelledRows are the rows of the list whose e-mail cell is erasedAddress.
const spelledRows = 3

// requireDone checks a receipt: one job, its rows, and no address.
func requireDone(t *testing.T, w *testEnv, e store.Erasure) {
	t.Helper()
	require.False(t, e.Open(), e.Fault)
	require.EqualValues(t, 1, e.JobCount)
	require.EqualValues(t, spelledRows, e.Rows)
	require.Empty(t, e.Address)
	require.Empty(t, e.Jobs)
	require.Empty(t, e.Fault)
	open, err := w.store.OpenErasures()
	require.NoError(t, err)
	require.Empty(t, open)
}

// TestErasureSurvivesACrashBeforeCaches cuts the power when the jobs are done and no cache is. The next start
// continues, and the receipt is that of an uninterrupted erasure.
func TestErasureSurvivesACrashBeforeCaches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := vfs.NewCrashableMem()
		w := newTestEnv(t, disk)
		w.run()
		j := w.finish(t, w.accept(t, spelled).ID)
		var after *vfs.MemFS
		cut := errors.New("the power was cut")
		nodes := &fakeCaches{cached: map[string]int{"p1": 1}, before: func(context.Context) error {
			after = disk.CrashClone(vfs.CrashCloneCfg{})
			return cut
		}}
		asked, err := requestErasure(t.Context(), t, w.eraser(nodes))
		require.NoError(t, err, "the wish is durable")
		require.True(t, asked.Open())
		require.Equal(t, "caches: the power was cut", asked.Fault)
		require.NoError(t, w.close(t))

		again := newTestEnv(t, after)
		again.run()
		nodes.before = nil
		e := runEraserFor(t, again, again.eraser(nodes), asked.ID, time.Second)
		requireDone(t, again, e)
		require.Equal(t, "p1", e.Caches[0].Node)
		require.EqualValues(t, 1, e.Caches[0].Verdicts)
		require.Equal(t, asked.Hash, e.Hash)
		require.Zero(t, nodes.cached["p1"])
		require.Equal(t, spelledErased, inputOf(again.results(t, j.ID, results.Filter{})))
		require.NoError(t, again.close(t))
	})
}

// TestErasureSurvivesDiskFailures fails each durable step of the jobs in turn, before and after it took effect. The
// erasure stays open, the receipt says what failed, and a minute later it is done, with the right counts.
func TestErasureSurvivesDiskFailures(t *testing.T) {
	for _, persist := range []bool{false, true} {
		failed := 0
		for n, more := int64(1), true; more; n++ {
			synctest.Test(t, func(t *testing.T) {
				disk := &faultFS{FS: vfs.NewMem(), persist: persist}
				w := newTestEnv(t, vfs.NewMem(), func(_ *testEnv, c *Config) { c.FS = disk })
				w.run()
				j := w.finish(t, w.accept(t, spelled).ID)
				nodes := &fakeCaches{cached: map[string]int{"p1": 1}}
				r := w.eraser(nodes)
				disk.countdown.Store(n)
				e, err := requestErasure(t.Context(), t, r)
				require.NoError(t, err)
				disk.countdown.Store(-1 << 40)
				more = disk.failedStep.Load() != nil
				if more && e.Open() {
					failed++
					require.Contains(t, e.Fault, errDisk.Error(), *disk.failedStep.Load())
					require.Zero(t, nodes.cached["p1"], "the caches are told all the same")
				}
				requireDone(t, w, runEraserFor(t, w, r, e.ID, 2*time.Minute))
				require.Equal(t, spelledErased, inputOf(w.results(t, j.ID, results.Filter{})))
				require.NoError(t, w.close(t))
			})
		}
		require.Greater(t, failed, 10)
	}
}

// TestCancelledErasureIsFinishedLater cancels the call while the nodes are reached.
func TestCancelledErasureIsFinishedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem())
		w.run()
		w.finish(t, w.accept(t, spelled).ID)
		ctx, cancel := context.WithCancel(t.Context())
		nodes := &fakeCaches{cached: map[string]int{"p1": 1},
			before: func(ctx context.Context) error { cancel(); return ctx.Err() }}
		r := w.eraser(nodes)
		e, err := requestErasure(ctx, t, r)
		require.NoError(t, err)
		require.True(t, e.Open())
		nodes.before = nil
		requireDone(t, w, runEraserFor(t, w, r, e.ID, time.Second))
		require.NoError(t, w.close(t))
	})
}

// TestAbsentNodeErasesOnceItReturns: until then the receipt says when the verdict in its cache expires. A node that
// stays absent keeps the erasure open only until that time.
func TestAbsentNodeErasesOnceItReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem())
		w.run()
		w.finish(t, w.accept(t, spelled).ID)
		nodes := &fakeCaches{cached: map[string]int{"p1": 1, "p2": 1}, away: map[string]bool{"p2": true}}
		r := w.eraser(nodes)
		e, err := requestErasure(t.Context(), t, r)
		require.NoError(t, err)
		require.True(t, e.Open())
		require.Empty(t, e.Fault)
		again, err := requestErasure(t.Context(), t, r)
		require.NoError(t, err)
		require.Equal(t, e.ID, again.ID, "one wish for one address")
		e = runEraserFor(t, w, r, e.ID, 10*time.Minute)
		require.True(t, e.Open())
		require.InDelta(t, 13, nodes.asked, 2, "tried each minute, and not more often")
		for _, c := range e.Caches {
			require.Equal(t, c.Node == "p2", c.Done.IsZero())
			if c.Node == "p2" {
				require.Equal(t, e.Requested.AddDate(0, 0, 31), c.Until)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(2 * time.Second) // it was tried at the start; the next try is a minute later
		nodes.setAway("p2", false)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		stop()
		require.NoError(t, <-ended)
		e, err = w.store.Erasure(e.ID)
		require.NoError(t, err)
		requireDone(t, w, e)
		require.Zero(t, nodes.cached["p2"])

		nodes.setAway("p2", true)
		e, err = requestErasure(t.Context(), t, r)
		require.NoError(t, err)
		for i := range e.Caches {
			e.Caches[i].Until = time.Now().Add(10 * time.Minute) // as if most of the month were over
		}
		require.NoError(t, w.store.SaveErasure(&e))
		e = runEraserFor(t, w, r, e.ID, 8*time.Minute)
		require.True(t, e.Open())
		e = runEraserFor(t, w, r, e.ID, 5*time.Minute)
		require.False(t, e.Open())
		require.NoError(t, w.close(t))
	})
}

// TestFailingNodeIsRetriedEachMinute: a reachable node that fails is tried each minute; one that was absent, as soon as
// it is back.
func TestFailingNodeIsRetriedEachMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem())
		nodes := &fakeCaches{cached: map[string]int{"p1": 1}, away: map[string]bool{},
			fails: map[string]bool{"p1": true}}
		r := w.eraser(nodes)
		e, err := requestErasure(t.Context(), t, r)
		require.NoError(t, err)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		require.InDelta(t, 12, nodes.timesAsked(), 1)
		nodes.setAway("p1", true)
		time.Sleep(10 * time.Second)
		nodes.repair("p1")
		nodes.setAway("p1", false)
		time.Sleep(6 * time.Second)
		synctest.Wait()
		stop()
		require.NoError(t, <-ended)
		e, err = w.store.Erasure(e.ID)
		require.NoError(t, err)
		require.False(t, e.Open())
		require.NoError(t, w.close(t))
	})
}

// TestErasureStaysOpenForADamagedJob: the other jobs are done, only that one is tried again, and the receipt names it.
func TestErasureStaysOpenForADamagedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem(), func(_ *testEnv, c *Config) { c.RetainResults = 24 * time.Hour })
		w.prober.outcome = func(*wire.Batch, *wire.Row) (wire.Outcome, time.Duration) { return wire.Settled, 0 }
		w.run()
		bad, good := w.finish(t, w.accept(t, spelled).ID), w.finish(t, w.accept(t, spelled).ID)
		require.NoError(t, wholefile.Write(w.fs, w.uploadOf(t, bad.ID), []byte("nonsense")))
		r := w.eraser(&fakeCaches{})
		e, err := requestErasure(t.Context(), t, r)
		require.NoError(t, err)
		require.Contains(t, e.Fault, bad.ID)
		require.Equal(t, []string{bad.ID}, e.JobsLeft)
		require.Equal(t, spelledErased, inputOf(w.results(t, good.ID, results.Filter{})))
		e = runEraserFor(t, w, r, e.ID, 24*time.Hour+2*time.Hour)
		requireDone(t, w, e)
		require.NoError(t, w.close(t))
	})
}

package coordinator

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/results"
	"probity/internal/detector"
	"probity/store"
)

// TestBackupIsConsistentInAnyCopyOrder: jobs run and an address is erased while the files of a backup are copied one
// after another, in any order. The restored jobs end as those of the server, with or without the address.
func TestBackupIsConsistentInAnyCopyOrder(t *testing.T) {
	detector.SpareByDay(t)
	const erased = "u7@d1.example"
	in := strings.Replace(testCSV(3000, 8), "email,note\n", "email,note\n7,"+erased+",\"about "+erased+"\"\n", 1)
	clean := newTestEnv(t, vfs.NewMem())
	clean.run()
	want := withoutTimes(clean.results(t, clean.finish(t, clean.accept(t, in).ID).ID, results.Filter{}))
	require.NoError(t, clean.close(t))
	checkResults(t, in, want)

	rng := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 3))
	cut := 0
	for range 20 {
		disk := vfs.NewMem()
		w := newTestEnv(t, disk)
		w.prober.outcome, w.prober.part = deferSome(2*time.Millisecond), 64
		w.run()
		over := w.finish(t, w.accept(t, in).ID)
		running := w.accept(t, in)
		waitAnswered(t, w, running.ID, rng.Int64N(2500))
		require.NoError(t, w.c.Backup(context.Background(), "aside", w.store.Checkpoint))
		var erasing sync.WaitGroup
		after := rng.IntN(20)
		copied := vfs.NewMem()
		for i, path := range shuffledFiles(t, disk, "aside", rng) {
			if i == after {
				erasing.Go(func() {
					_, err := w.erase(context.Background(), erased)
					require.NoError(t, err)
				})
			}
			copySlowly(t, disk, copied, path, "data"+strings.TrimPrefix(path, "aside"))
		}
		erasing.Wait()
		require.NoError(t, w.close(t))

		restored := newTestEnv(t, copied)
		was, err := restored.c.Job(running.ID)
		require.NoError(t, err)
		if was.State == store.JobRunning {
			cut++
		}
		restored.run()
		for _, id := range []string{over.ID, running.ID} {
			done := restored.finish(t, id)
			require.Equal(t, store.JobCompleted, done.State, done.Error)
			require.Empty(t, done.Damage)
			require.Equal(t, want, withoutTimes(restored.results(t, id, results.Filter{})))
			require.Equal(t, over.Counts, done.Counts)
		}
		require.NoError(t, restored.close(t))
	}
	require.Positive(t, cut, "no backup was made of a job at work")
}

// waitAnswered waits until a job has so many answers, or is finished.
func waitAnswered(t *testing.T, w *testEnv, id string, n int64) {
	require.Eventually(t, func() bool {
		s, err := w.c.Snapshot(id)
		return err == nil && (s.Answered >= n || s.State.Finished())
	}, time.Minute, time.Millisecond)
}

// shuffledFiles are all files below a folder.
func shuffledFiles(t *testing.T, fs vfs.FS, dir string, rng *rand.Rand) (paths []string) {
	names, err := fs.List(dir)
	require.NoError(t, err)
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		require.NoError(t, err)
		if info.IsDir() {
			paths = append(paths, shuffledFiles(t, fs, path, rng)...)
		} else {
			paths = append(paths, path)
		}
	}
	rng.Shuffle(len(paths), func(i, k int) { paths[i], paths[k] = paths[k], paths[i] })
	return paths
}

// copySlowly copies a file as it grows: a part of it at a time.
func copySlowly(t *testing.T, from, to vfs.FS, path, as string) {
	src, err := from.Open(path)
	require.NoError(t, err)
	require.NoError(t, to.MkdirAll(to.PathDir(as), 0o700))
	dst, err := to.Create(as, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	b := make([]byte, 32<<10)
	for {
		n, err := src.Read(b)
		_, failed := dst.Write(b[:n])
		require.NoError(t, failed)
		if err != nil {
			break
		}
	}
	require.NoError(t, errors.Join(src.Close(), dst.Close()))
}

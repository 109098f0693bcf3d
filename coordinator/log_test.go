package coordinator

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestManyJobsSyncNoMoreOftenThanOne lets an answer wait for its sync, as many times longer as there are jobs, unless it is awaited.
func TestManyJobsSyncNoMoreOftenThanOne(t *testing.T) {
	for jobs, want := range map[int]time.Duration{1: logFlushAfter, 4: 4 * logFlushAfter, maxRunning: logFlushMost} {
		synctest.Test(t, func(t *testing.T) {
			c := New(Config{})
			for range jobs {
				c.running <- struct{}{}
			}
			fs := vfs.NewMem()
			n, err := openNames(fs, "names")
			require.NoError(t, err)
			l, err := openLog(fs, "log", n, func([]byte) error { return nil })
			require.NoError(t, err)
			l.after = c.flushAfter
			go l.run()
			_, err = l.add(make([]byte, entryBytes))
			require.NoError(t, err)
			time.Sleep(want - 1)
			synctest.Wait()
			require.Zero(t, durable(l), "%d jobs", jobs)
			time.Sleep(1 * time.Nanosecond)
			synctest.Wait()
			require.EqualValues(t, entryBytes, durable(l), "%d jobs", jobs)

			began := time.Now()
			mark, err := l.add(make([]byte, entryBytes))
			require.NoError(t, err)
			require.NoError(t, l.wait(mark))
			require.Zero(t, time.Since(began), "somebody waits")
			require.NoError(t, l.close())
			require.NoError(t, n.Close())
		})
	}
}

func durable(l *resultLog) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.synced
}

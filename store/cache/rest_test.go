package cache

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestTablesAreWrittenPatiently writes files block by block, with so much work before each, and looks at how long that takes.
func TestTablesAreWrittenPatiently(t *testing.T) {
	const blocks, work = 10, time.Millisecond
	always := func(time.Time) bool { return true }
	for _, x := range []struct {
		name, file string
		pressed    func(time.Time) bool
		awaited    bool
		work       time.Duration
		want       time.Duration
	}{
		{"nobody is given way to", "1.sst", nil, false, work, blocks * work},
		{"nobody presses", "1.sst", func(time.Time) bool { return false }, false, work, blocks * work},
		{"they press", "1.sst", always, false, work, blocks * work * (1 + restTimes)},
		{"they press, and the work was long", "1.sst", always, false, longestRest, blocks * 2 * longestRest},
		{"they press, and the work was little", "1.sst", always, false, pieceOfWork / 10, pieceOfWork * (1 + restTimes)},
		{"they press, and writers wait", "1.sst", always, true, work, blocks * work},
		{"it is a log", "1.log", always, false, work, blocks * work},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Cache{manners: new(manners)}
				if x.pressed != nil {
					c.GiveWay(x.pressed)
				}
				if x.awaited {
					c.manners.listener().WriteStallBegin(pebble.WriteStallBeginInfo{})
				}
				f, err := patient{vfs.NewMem(), c.manners}.Create(x.file, vfs.WriteCategoryUnspecified)
				require.NoError(t, err)
				began := time.Now()
				for range blocks {
					time.Sleep(x.work)
					_, err := f.Write([]byte("block"))
					require.NoError(t, err)
				}
				require.Equal(t, x.want, time.Since(began))
				c.manners.listener().WriteStallEnd()
				require.Equal(t, x.pressed != nil && x.pressed(time.Now()), c.manners.rests(time.Now()))
			})
		})
	}
}

// TestWritersDoNotWaitForRests writes a table so slowly, while singles press, that the memtables are full meanwhile: that a writer
// waits is heard of, which ends the rests, and nothing is lost.
func TestWritersDoNotWaitForRests(t *testing.T) {
	c, err := Open(Config{FS: vfs.NewMem(), Dir: "cache", MemTable: 256 << 10})
	require.NoError(t, err)
	var heard, done atomic.Bool
	c.GiveWay(func(time.Time) bool {
		for !c.manners.awaited.Load() {
			if done.Load() {
				return false
			}
			runtime.Gosched()
		}
		heard.Store(true)
		return true
	})
	v := sampleVerdict()
	n := 0
	for ; !heard.Load(); n++ {
		require.NoError(t, c.Put([]Entry{{numbered(n), &v}}))
	}
	done.Store(true)
	for i := range n {
		_, ok := c.Get(numbered(i), v.VerifiedAt)
		require.True(t, ok)
	}
	require.NoError(t, c.Close())
	require.False(t, c.manners.awaited.Load())
}

package cache

import (
	"runtime"
	"sync"
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
		behind     bool
		work       time.Duration
		want       time.Duration
	}{
		{"nobody is given way to", "1.sst", nil, false, false, work, blocks * work},
		{"nobody presses", "1.sst", func(time.Time) bool { return false }, false, false, work, blocks * work},
		{"they press", "1.sst", always, false, false, work, blocks * work * (1 + restTimes)},
		{"they press, and the work was long", "1.sst", always, false, false, longestRest, blocks * 2 * longestRest},
		{"they press, and the work was little", "1.sst", always, false, false, pieceOfWork / 10, pieceOfWork * (1 + restTimes)},
		{"they press, and writers wait", "1.sst", always, true, false, work, blocks * work},
		{"they press, and many tables have gathered", "1.sst", always, false, true, work, blocks * work},
		{"it is a log", "1.log", always, false, false, work, blocks * work},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &Cache{manners: &manners{behind: func() bool { return x.behind }}}
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
// waits is heard of, and nothing is lost.
func TestWritersDoNotWaitForRests(t *testing.T) {
	c, err := Open(Config{FS: vfs.NewMem(), Dir: "cache", MemTable: 256 << 10})
	require.NoError(t, err)
	var heard, done atomic.Bool
	c.GiveWay(func(time.Time) bool {
		for !heard.Load() && !done.Load() {
			heard.Store(c.manners.awaited.Load())
			runtime.Gosched()
		}
		return true
	})
	v := sampleVerdict()
	n := 0
	for ; !heard.Load() && n < 100_000; n++ {
		require.NoError(t, c.Put([]Entry{{numbered(n), &v}}))
	}
	done.Store(true)
	require.True(t, heard.Load())
	for i := range n {
		_, ok := c.Get(numbered(i), v.VerifiedAt)
		require.True(t, ok)
	}
	require.NoError(t, c.Close())
	require.False(t, c.manners.awaited.Load())
}

// TestTablesThatHaveGathered writes memtables out while nothing is compacted.
func TestTablesThatHaveGathered(t *testing.T) {
	disk := held{vfs.NewMem(), make(chan struct{})}
	free := sync.OnceFunc(func() { close(disk.free) })
	defer free()
	c := open(t, disk)
	v := sampleVerdict()
	for n := range manyTables {
		require.False(t, c.behind(), n)
		require.NoError(t, c.Put([]Entry{{numbered(0), &v}, {numbered(1), &v}}))
		require.NoError(t, c.db.Flush())
	}
	require.True(t, c.behind())
	free()
	require.NoError(t, c.Close())
}

// held is a disk on which compactions wait.
type held struct {
	vfs.FS
	free chan struct{}
}

func (h held) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if c == "pebble-compaction" {
		<-h.free
	}
	return h.FS.Create(name, c)
}

func (h held) Unwrap() vfs.FS { return h.FS }

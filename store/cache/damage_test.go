package cache

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/internal/detector"
)

// cacheWithData makes a disk with a cache that has a table, a log and 5,000 verdicts, closed or as a crash leaves it.
func cacheWithData(t *testing.T) *vfs.MemFS {
	disk := vfs.NewCrashableMem()
	c := open(t, disk)
	v := engine.VerdictFor(engine.ReasonNone, "x", 0, time.Now())
	var entries []Entry
	for i := range 5000 {
		entries = append(entries, Entry{testKey(i), &v})
	}
	require.NoError(t, c.Put(entries))
	require.NoError(t, putBudget(c, 1))
	require.NoError(t, c.db.Flush())
	require.NoError(t, c.PutBudgets([]Budget{{Name: "late", State: []byte("x"), Until: time.Now().Add(time.Hour)}}))
	require.NoError(t, c.Put(entries[:1000]))
	require.NoError(t, c.PutBudgets([]Budget{{Name: "later", State: []byte("x"), Until: time.Now().Add(time.Hour)}}))
	crashed := disk.CrashClone(vfs.CrashCloneCfg{})
	require.NoError(t, c.Close())
	return crashed
}

// corrupt changes a file of the cache.
func corrupt(t *testing.T, disk vfs.FS, name string, change func(b []byte) []byte) {
	name = path.Join("cache", name)
	f, err := disk.Open(name)
	require.NoError(t, err)
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	f, err = disk.Create(name, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(change(b))
	require.NoError(t, err)
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
}

// TestADamagedCacheIsSetAside damages each file of a cache in several ways: it opens and works, at once or after
// SetAside, and never reports a budget that it does not have as unused. (The database cannot detect a lost or truncated
// log, nor damage in its last 32 KiB.)
func TestADamagedCacheIsSetAside(t *testing.T) {
	detector.Spare(t)
	whole := cacheWithData(t)
	clone := func() *vfs.MemFS { return whole.CrashClone(vfs.CrashCloneCfg{}) }
	names, err := whole.List("cache")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasPrefix(name, "LOCK") || strings.HasPrefix(name, "marker") {
			continue // empty: their content is their name
		}
		for part := range 4 {
			t.Run(fmt.Sprintf("%s bit in part %d", name, part), func(t *testing.T) {
				disk := clone()
				corrupt(t, disk, name, func(b []byte) []byte {
					if len(b) > 0 {
						b[part*(len(b)-1)/3] ^= 4
					}
					return b
				})
				useDamaged(t, disk, "big", "late")
			})
		}
		budgets := []string{"big", "late"}
		if strings.HasSuffix(name, ".log") {
			budgets = budgets[:1]
		}
		t.Run(name+" lost", func(t *testing.T) {
			disk := clone()
			require.NoError(t, disk.Remove(path.Join("cache", name)))
			useDamaged(t, disk, budgets...)
		})
		t.Run(name+" cut", func(t *testing.T) {
			disk := clone()
			corrupt(t, disk, name, func(b []byte) []byte { return b[:len(b)/2] })
			useDamaged(t, disk, budgets...)
		})
	}
}

func useDamaged(t *testing.T, disk vfs.FS, budgets ...string) {
	c := open(t, disk)
	use := func() {
		for i := range 5000 {
			c.Get(testKey(i), time.Now())
		}
		_, err := c.Sweep(t.Context(), time.Now())
		_ = err // the result does not matter: Damage reports it
		for _, name := range budgets {
			state, ok, err := c.Budget(name)
			require.True(t, err != nil || ok && len(state) > 0, "%s: a budget that was written counts as untouched",
				name)
		}
	}
	use()
	select {
	case <-c.Damage():
		c.SetAside()
	default:
	}
	use()
	v := engine.VerdictFor(engine.ReasonNone, "x", 0, time.Now())
	require.NoError(t, c.Put([]Entry{{testKey(1), &v}}))
	_, ok := c.Get(testKey(1), time.Now())
	require.True(t, ok)
	require.NoError(t, c.PutBudgets([]Budget{{Name: "big", State: []byte("2"), Until: time.Now().Add(time.Hour)}}))
	_, err := c.Sweep(context.Background(), time.Now())
	require.NoError(t, err)
	require.NoError(t, c.Close())
	c = open(t, disk)
	state, ok, err := c.Budget("big")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, "2", string(state))
	require.NoError(t, c.Close())
}

// TestDamagedDatabaseIsKept flips a bit of a file that the start reads. The folder set aside has the damaged file, also
// after all reports about it were handled, and each database is logged in one short line.
func TestDamagedDatabaseIsKept(t *testing.T) {
	for _, part := range []string{".sst", "MANIFEST"} {
		t.Run(part, func(t *testing.T) {
			disk := cacheWithData(t)
			names, err := disk.List("cache")
			require.NoError(t, err)
			flipped := map[string][]byte{}
			for _, name := range names {
				if !strings.Contains(name, part) || strings.HasPrefix(name, "marker") {
					continue
				}
				corrupt(t, disk, name, func(b []byte) []byte {
					for i := range b { // every block, so that the start and each read meet it
						b[i] ^= 4
					}
					flipped[name] = bytes.Clone(b)
					return b
				})
			}
			require.NotEmpty(t, flipped)
			var log bytes.Buffer
			c, err := Open(Config{FS: disk, Dir: "cache", FilterBytes: 1 << 16,
				Log: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, err)
			for range 3 { // as mendCache does
				c.Get(testKey(1), time.Now())
				_, _, _ = c.Budget("big") // the error is another test's
				select {
				case <-c.Damage():
					c.SetAside()
				default:
				}
			}
			for name, want := range flipped {
				require.Equal(t, want, readContents(t, disk, path.Join("cache.damaged", name)), "%s", log.String())
			}
			require.NoError(t, c.Close())
			require.LessOrEqual(t, strings.Count(log.String(), "level=ERROR"), 2, "%s", log.String())
			require.Less(t, log.Len(), 1500)
			require.NotContains(t, log.String(), "goroutine")
		})
	}
}

// readContents returns the content of a file.
func readContents(t *testing.T, disk vfs.FS, name string) []byte {
	f, err := disk.Open(name)
	require.NoError(t, err)
	b, err := io.ReadAll(f)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	return b
}

// TestDamageOfTheOldDatabaseIsNotOfTheNew: a read that started before the replacement may report damage after it.
func TestDamageOfTheOldDatabaseIsNotOfTheNew(t *testing.T) {
	c := open(t, vfs.NewMem())
	old := c.health
	c.SetAside()
	old.recordDamage(pebble.DataCorruptionInfo{Path: "cache/000001.sst", Details: errValue},
		slog.New(slog.DiscardHandler))
	select {
	case <-c.Damage():
		t.Fatal("the new database is condemned")
	default:
	}
	require.NoError(t, c.Close())
}

package cache

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/engine"
)

// keySource makes keys as HMACs do.
type keySource struct{ *rand.Rand }

func (c keySource) key() (k Key) {
	for i := 0; i < len(k); i += 8 {
		binary.BigEndian.PutUint64(k[i:], c.Uint64())
	}
	return k
}

// TestKeyFilterFalsePositives checks the documented rates of keyFilter, at a thousandth of its size.
func TestKeyFilterFalsePositives(t *testing.T) {
	for keys, atMost := range map[int]float64{5_000: 0.002, 13_000: 0.02, 40_000: 0.26} {
		r := keySource{rand.New(rand.NewPCG(1, uint64(keys)))}
		kf := make(keyFilter, 1<<21/1000)
		added := make([]Key, keys)
		for i := range added {
			added[i] = r.key()
			kf.add(&added[i])
		}
		for i := range added {
			require.True(t, kf.mayContain(&added[i]))
		}
		falsePositives := 0
		for range 100_000 {
			k := r.key()
			if kf.mayContain(&k) {
				falsePositives++
			}
		}
		t.Logf("%d keys: %.4f", keys, float64(falsePositives)/100_000)
		require.Less(t, float64(falsePositives)/100_000, atMost, keys)
	}
}

// putNew writes n verdicts of a given time at new keys.
func putNew(t *testing.T, c *Cache, r keySource, n int, at time.Time) (keys []Key) {
	v := engine.VerdictFor(engine.ReasonMailboxNotFound, "x", 0, at)
	var entries []Entry
	for range n {
		keys = append(keys, r.key())
		entries = append(entries, Entry{keys[len(keys)-1], &v})
	}
	require.NoError(t, c.Put(entries))
	return keys
}

func requireAll(t *testing.T, c *Cache, keys []Key) {
	for i := range keys {
		_, ok := c.Get(keys[i], time.Now())
		require.True(t, ok, "key %d", i)
		found := 0
		require.NoError(t, c.GetBatch(keys[i:i+1], time.Now(), func(int, engine.Verdict) { found++ }))
		require.Equal(t, 1, found)
	}
}

// filterReady reports whether the key filter is in use: it recognises keys that were never written.
func filterReady(c *Cache, r keySource) bool {
	for range 100 {
		if k := r.key(); !c.filters.mayContain(&k) {
			return true
		}
	}
	return false
}

func TestKeyFilterOfEmptyCacheIsReadyAtOnce(t *testing.T) {
	c := open(t, vfs.NewMem())
	defer c.Close()
	r := keySource{rand.New(rand.NewPCG(1, 1))}
	require.True(t, filterReady(c, r))
	requireAll(t, c, putNew(t, c, r, 100, time.Now()))
}

func TestKeyFilterIsRebuiltBySweepAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs, r := vfs.NewMem(), keySource{rand.New(rand.NewPCG(1, 2))}
		c := open(t, fs)
		keys := putNew(t, c, r, 3*sweepStep, time.Now())
		require.NoError(t, c.Close())

		c = open(t, fs)
		defer c.Close()
		keys = append(keys, putNew(t, c, r, 10, time.Now())...)
		require.False(t, filterReady(c, r), "nobody knows yet what is there")
		requireAll(t, c, keys)

		ctx, cancel := context.WithTimeout(t.Context(), sweepPause+time.Millisecond)
		defer cancel()
		_, err := c.Sweep(ctx, time.Now())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, filterReady(c, r), "the sweep did not reach the end")

		_, err = c.Sweep(t.Context(), time.Now())
		require.NoError(t, err)
		require.True(t, filterReady(c, r))
		requireAll(t, c, keys)
	})
}

// TestKeyFilterHasKeysWrittenDuringSweeps writes between the steps of sweeps, two of which overlap.
func TestKeyFilterHasKeysWrittenDuringSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := open(t, vfs.NewMem()), keySource{rand.New(rand.NewPCG(1, 3))}
		defer c.Close()
		keys := putNew(t, c, r, 4*sweepStep, time.Now())
		ended := make(chan error, 3)
		for i := range cap(ended) {
			go func() {
				time.Sleep(time.Duration(i) * 3 * sweepPause / 2)
				_, err := c.Sweep(t.Context(), time.Now())
				ended <- err
			}()
		}
		for range 40 {
			time.Sleep(sweepPause / 3)
			keys = append(keys, putNew(t, c, r, 5, time.Now())...)
		}
		for range cap(ended) {
			require.NoError(t, <-ended)
		}
		require.True(t, filterReady(c, r))
		requireAll(t, c, keys)
	})
}

func TestKeyFilterDropsSweptKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, r := open(t, vfs.NewMem()), keySource{rand.New(rand.NewPCG(1, 4))}
		defer c.Close()
		keys := putNew(t, c, r, 100, time.Now().Add(-3*24*time.Hour))
		_, err := c.Sweep(t.Context(), time.Now())
		require.NoError(t, err)
		for i := range keys {
			require.False(t, c.filters.mayContain(&keys[i]))
		}
	})
}

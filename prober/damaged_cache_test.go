package prober

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/prober/wire"
	"probity/store/cache"
)

// TestDamagedCacheCostsAnHour flips bits of a node's cache while it is stopped. The node starts, does not ask the
// receiver whose budget was used up within the hour, and goes on afterwards; another start finds nothing to mend.
func TestDamagedCacheCostsAnHour(t *testing.T) {
	for _, files := range []string{".sst", "MANIFEST"} {
		t.Run(files, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { damageCache(t, files) })
		})
	}
}

func damageCache(t *testing.T, files string) {
	const budget = 20
	table := tableWith("refusals_per_hour = 0", fmt.Sprintf("refusals_per_hour = %d", budget))
	h := &fakeServer{rcpt: func(string) string { return "550 5.1.1 User unknown" }}
	b := newTestNode(t, table, map[string]*fakeServer{"mx.a.example": h})
	require.NoError(t, b.cache.Close())
	disk := vfs.NewMem()
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	withNode := func(work func()) {
		var err error
		b.cache, err = cache.Open(cache.Config{FS: disk, Dir: "cache", FilterBytes: 1 << 16, Log: logger})
		require.NoError(t, err)
		b.start(func(c *Config) { c.Log = logger })
		work()
		b.stop()
		require.NoError(t, b.cache.Close())
	}
	ask := func(round int, span time.Duration) {
		var addrs []string
		for i := range 100 {
			addrs = append(addrs, fmt.Sprintf("u%d.%d@d%d.example", round, i, i%7))
		}
		ctx, cancel := context.WithTimeout(context.Background(), span)
		defer cancel()
		require.NoError(t, b.prober.Verify(ctx, &wire.Batch{Job: "j", Rows: b.rows(mxA, addrs...), Started: time.Now()},
			3*time.Hour, func(wire.Results) {}))
	}
	withNode(func() { ask(0, 10*time.Minute) })
	withNode(func() {}) // what was in the log is in a table now
	used := len(h.snapshot().refusalTimes)
	require.NotZero(t, used)
	flipBits(t, disk, files)
	withNode(func() {
		ask(1, 40*time.Minute)
		require.Len(t, h.snapshot().refusalTimes, used, "the hour's budget was used up")
	})
	withNode(func() {
		for round := range 18 { // rows that must wait long are returned
			ask(2+round, 10*time.Minute)
			time.Sleep(10 * time.Minute)
		}
	})
	require.Greater(t, len(h.snapshot().refusalTimes), used, "the node goes on")
	require.LessOrEqual(t, mostInSpan(h.snapshot().refusalTimes, time.Hour), budget)
	_, err := disk.Stat("cache.damaged")
	require.NoError(t, err)
	require.NotContains(t, log.String(), "a budget cannot be read", "the damage was told of once")
	require.Less(t, log.Len(), 5000, "%s", log.String())
}

// flipBits changes a bit in the first half of each file whose name has part in it.
func flipBits(t *testing.T, disk vfs.FS, part string) {
	names, err := disk.List("cache")
	require.NoError(t, err)
	flipped := 0
	for _, name := range names {
		if !strings.Contains(name, part) || strings.HasPrefix(name, "marker") {
			continue
		}
		f, err := disk.OpenReadWrite("cache/"+name, vfs.WriteCategoryUnspecified)
		require.NoError(t, err)
		b, err := io.ReadAll(f)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{b[len(b)/20] ^ 1}, int64(len(b)/20))
		require.NoError(t, err)
		require.NoError(t, f.Close())
		flipped++
	}
	require.NotZero(t, flipped)
}

//go:build unix

package cache

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/engine"
)

// BenchmarkLists measures the cache for a job of new addresses: each chunk is looked up without a hit, then written in
// parts. The case without a key filter is a cache that was not empty, until its first sweep.
func BenchmarkLists(b *testing.B) {
	for _, rows := range []int{500_000, 5_000_000} {
		for _, filtered := range []bool{true, false} {
			b.Run(fmt.Sprintf("%d/sieve=%t", rows, filtered), func(b *testing.B) {
				for range b.N {
					benchList(b, rows, filtered)
				}
			})
		}
	}
}

func benchList(b *testing.B, rows int, filtered bool) {
	c, err := Open(Config{FS: vfs.Default, Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	if !filtered {
		c.filters.complete.Store(nil)
	}
	before := cpuTime()
	v := sampleVerdict()
	keys := make([]Key, 4096)
	for from := 0; from < rows; from += len(keys) {
		for i := range keys {
			keys[i] = listKey(from/len(keys), from+i)
		}
		slices.SortFunc(keys, func(a, b Key) int { return slices.Compare(a[:], b[:]) })
		if err := c.GetBatch(keys, v.VerifiedAt, func(int, engine.Verdict) { b.Fatal("found") }); err != nil {
			b.Fatal(err)
		}
		for part := range slices.Chunk(keys, 512) {
			var entries []Entry
			for _, k := range part {
				entries = append(entries, Entry{k, &v})
			}
			if err := c.Put(entries); err != nil {
				b.Fatal(err)
			}
		}
	}
	m := c.db.Metrics()
	if err := c.Close(); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(rows)/1000, "cpu-us/row")
	b.ReportMetric(float64(m.DiskSpaceUsage())/1e6, "MB")
	b.ReportMetric(float64(m.ReadAmp()), "readamp")
}

// listKey is the key of a row: every second chunk is of one of ten large domains, the others are of hundreds of small
// ones.
func listKey(chunk, row int) (k Key) {
	domain := uint64(chunk / 2 % 10)
	if chunk%2 == 1 {
		domain = 10 + uint64(row)%400
	}
	h := sha256.Sum256(binary.BigEndian.AppendUint64(nil, domain))
	copy(k[:], h[:8])
	h = sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(row)))
	copy(k[8:], h[:])
	return k
}

// cpuTime is the processor time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

package cache

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// keyFilter is an in-memory Bloom filter of keys: a key that it does not contain was never added. Each key sets four
// bits of one word, so that a look-up costs one memory access (Putze, Sanders, Singler: Cache-, Hash- and
// Space-Efficient Bloom Filters, 2007). With 16 MiB, one look-up in six hundred is a false positive at 5,000,000 keys,
// one in fifty at 13,000,000, one in four at 40,000,000 (TestKeyFilterFalsePositives).
//
// Most rows of a job are new addresses. The database has a filter for each table, so a look-up there reads the filters
// of about ten tables, through an index of two levels (BenchmarkLists).
type keyFilter []atomic.Uint64

// locate returns the word and the bits of a key, taken from the HMAC of the address, which is uniformly distributed.
func (kf keyFilter) locate(k *Key) (word *atomic.Uint64, bits uint64) {
	h := binary.LittleEndian.Uint64(k[8:])
	return &kf[h>>32%uint64(len(kf))], 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63) | 1<<(h>>18&63)
}

func (kf keyFilter) add(k *Key) {
	word, bits := kf.locate(k)
	if word.Load()&bits != bits {
		word.Or(bits)
	}
}

func (kf keyFilter) mayContain(k *Key) bool {
	word, bits := kf.locate(k)
	return word.Load()&bits == bits
}

// keyFilters holds the key filter of the database's verdicts. Deleted keys stay in a filter; each sweep reads all keys
// and builds the next filter.
type keyFilters struct {
	wordCount int
	complete  atomic.Pointer[keyFilter] // has every key; nil for a database that was not empty, until its first sweep

	// Held for reading while keys are added and written, for writing while building changes. So beginRebuild waits for
	// the writes under way, and later writes wait for it. Look-ups never take it.
	mu sync.RWMutex
	// has every key written since the sweep started, and those that the sweep has read; nil between sweeps
	building *keyFilter
}

// mayContain reports whether the database may have a key.
func (f *keyFilters) mayContain(k *Key) bool {
	complete := f.complete.Load()
	return complete == nil || complete.mayContain(k)
}

// addThenWrite adds the keys of entries to every key filter, then calls write, which writes the entries into the
// database.
func (f *keyFilters) addThenWrite(entries []Entry, write func() error) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, kf := range [...]*keyFilter{f.complete.Load(), f.building} {
		if kf == nil {
			continue
		}
		for i := range entries {
			kf.add(&entries[i].Key)
		}
	}
	return write()
}

// beginRebuild starts the next key filter. An iterator that is made after it finds all earlier writes; later writes add
// their keys.
func (f *keyFilters) beginRebuild() *keyFilter {
	next := make(keyFilter, f.wordCount)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.building = &next
	return f.building
}

// withEveryKey is for a key filter that has every key of the database.
const withEveryKey = true

// finishRebuild replaces the key filter by next if that is complete. It does nothing if another rebuild has started
// since, because keys were added only to that one.
func (f *keyFilters) finishRebuild(next *keyFilter, complete bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.building != next {
		return
	}
	f.building = nil
	if complete {
		f.complete.Store(next)
	}
}

// initIfEmpty gives a database without verdicts, as on the first start, its key filter at once. No goroutine writes
// yet.
func (f *keyFilters) initIfEmpty(db *pebble.DB) error {
	it, err := db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableResult}, UpperBound: []byte{tableResult + 1}})
	if err != nil {
		return fmt.Errorf("cache read: %w", err)
	}
	empty := !it.First()
	if err := it.Close(); err != nil {
		return fmt.Errorf("cache read: %w", err)
	}
	if empty {
		f.finishRebuild(f.beginRebuild(), withEveryKey)
	}
	return nil
}

// FilterReady reports whether the key filter is in use. For a cache that was not empty, that is after the first sweep.
func (c *Cache) FilterReady() bool { return c.filters.complete.Load() != nil }

package cache

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// keyFilter is a Bloom filter of keys in memory: a key that it does not hold was never added. Each key sets four bits of one word, so
// that a look-up costs one access (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007). In 16 MiB one
// look-up in six hundred passes in vain with 5,000,000 keys, one in fifty with 13,000,000, one in four with 40,000,000 (TestKeyFilterFalsePositives).
//
// The database's own filters stand for a table each. A look-up asks those of some ten tables, through an index of two levels, and most
// rows of a list are new: that was a quarter of what a list of 5,000,000 rows cost in all. BenchmarkLists: 3.5 us a row for 8.6.
type keyFilter []atomic.Uint64

// locate is where a key's bits are: taken from the HMAC of the address, which is as good as chance.
func (s keyFilter) locate(k *Key) (word *atomic.Uint64, bits uint64) {
	h := binary.LittleEndian.Uint64(k[8:])
	return &s[h>>32%uint64(len(s))], 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63) | 1<<(h>>18&63)
}

func (s keyFilter) add(k *Key) {
	word, bits := s.locate(k)
	if word.Load()&bits != bits {
		word.Or(bits)
	}
}

func (s keyFilter) mayContain(k *Key) bool {
	word, bits := s.locate(k)
	return word.Load()&bits == bits
}

// keyFilters are what is known of the keys of all verdicts in the database. Keys that are deleted stay in a key filter; each sweep reads
// all that there are, and makes the next key filter of them.
type keyFilters struct {
	wordCount int
	complete  atomic.Pointer[keyFilter] // has every key; nil until an empty database or the first sweep has given it

	// For reading while keys are added and written: a key filter that begins waits for writes under way, as long as a stalled one takes, and
	// the next writes wait with it. Look-ups never take it. For writing while next is exchanged.
	mu       sync.RWMutex
	building *keyFilter // has every key that was written since a sweep began, and those that the sweep has read; nil between sweeps
}

// mayContain reports that a look-up in the database is not in vain, as far as is known.
func (s *keyFilters) mayContain(k *Key) bool {
	complete := s.complete.Load()
	return complete == nil || complete.mayContain(k)
}

// addThenWrite calls write, which writes entries into the database, with their keys in every key filter before.
func (s *keyFilters) addThenWrite(entries []Entry, write func() error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if complete := s.complete.Load(); complete != nil {
		complete.addAll(entries)
	}
	if s.building != nil {
		s.building.addAll(entries)
	}
	return write()
}

func (s keyFilter) addAll(entries []Entry) {
	for i := range entries {
		s.add(&entries[i].Key)
	}
}

// beginRebuild starts the next key filter. What was written before it returns, an iterator made after it finds; what is written later is
// added by who writes it.
func (s *keyFilters) beginRebuild() *keyFilter {
	next := make(keyFilter, s.wordCount)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.building = &next
	return s.building
}

// finishRebuild has a key filter take the place of the one before if it is whole, so that everything that was there was added; but not when another
// was begun after it, to which alone has been added since.
func (s *keyFilters) finishRebuild(next *keyFilter, complete bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.building != next {
		return
	}
	if s.building = nil; complete {
		s.complete.Store(next)
	}
}

// initFilterIfEmpty gives a database without verdicts, as on the first start, its key filter at once. Nothing writes yet.
func (c *Cache) initFilterIfEmpty() error {
	it, err := c.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableResult}, UpperBound: []byte{tableResult + 1}})
	if err != nil {
		return fmt.Errorf("cache read: %w", err)
	}
	empty := !it.First()
	if err := it.Close(); err != nil {
		return fmt.Errorf("cache read: %w", err)
	}
	if empty {
		c.filters.finishRebuild(c.filters.beginRebuild(), true)
	}
	return nil
}

// FilterReady reports that new addresses are told without the database. Until the first sweep of a cache that was not empty, they are not.
func (c *Cache) FilterReady() bool { return c.filters.complete.Load() != nil }

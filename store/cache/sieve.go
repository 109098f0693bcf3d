package cache

import (
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
)

// sieve is a Bloom filter of keys in memory: a key that it does not hold was never added. Each key sets four bits of one word, so
// that a look-up costs one access (Putze, Sanders, Singler: Cache-, Hash- and Space-Efficient Bloom Filters, 2007). In 16 MiB one
// look-up in six hundred passes in vain with 5,000,000 keys, one in fifty with 13,000,000, one in four with 40,000,000 (TestSieve).
//
// The database's own filters stand for a table each. A look-up asks those of some ten tables, through an index of two levels, and most
// rows of a list are new: that was a quarter of what a list of 5,000,000 rows cost in all. BenchmarkLists: 3.5 us a row for 8.6.
type sieve []atomic.Uint64

// place is where a key's bits are: taken from the HMAC of the address, which is as good as chance.
func (s sieve) place(k *Key) (word *atomic.Uint64, bits uint64) {
	h := binary.LittleEndian.Uint64(k[8:])
	return &s[h>>32%uint64(len(s))], 1<<(h&63) | 1<<(h>>6&63) | 1<<(h>>12&63) | 1<<(h>>18&63)
}

func (s sieve) add(k *Key) {
	word, bits := s.place(k)
	if word.Load()&bits != bits {
		word.Or(bits)
	}
}

func (s sieve) holds(k *Key) bool {
	word, bits := s.place(k)
	return word.Load()&bits == bits
}

// sieves are what is known of the keys of all verdicts in the database. Keys that are deleted stay in a sieve; each sweep reads
// all that there are, and makes the next sieve of them.
type sieves struct {
	words int
	whole atomic.Pointer[sieve] // has every key; nil until an empty database or the first sweep has given it

	// For reading while keys are added and written: a sieve that begins waits for writes under way, as long as a stalled one takes, and
	// the next writes wait with it. Look-ups never take it. For writing while next is exchanged.
	mu   sync.RWMutex
	next *sieve // has every key that was written since a sweep began, and those that the sweep has read; nil between sweeps
}

// mayHold reports that a look-up in the database is not in vain, as far as is known.
func (s *sieves) mayHold(k *Key) bool {
	whole := s.whole.Load()
	return whole == nil || whole.holds(k)
}

// writing calls write, which writes entries into the database, with their keys in every sieve before.
func (s *sieves) writing(entries []Entry, write func() error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if whole := s.whole.Load(); whole != nil {
		whole.addAll(entries)
	}
	if s.next != nil {
		s.next.addAll(entries)
	}
	return write()
}

func (s sieve) addAll(entries []Entry) {
	for i := range entries {
		s.add(&entries[i].Key)
	}
}

// begin starts the next sieve. What was written before it returns, an iterator made after it finds; what is written later is
// added by who writes it.
func (s *sieves) begin() *sieve {
	next := make(sieve, s.words)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next = &next
	return s.next
}

// end has a sieve take the place of the one before if it is whole, so that everything that was there was added; but not when another
// was begun after it, to which alone has been added since.
func (s *sieves) end(next *sieve, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next != next {
		return
	}
	if s.next = nil; whole {
		s.whole.Store(next)
	}
}

// sieveNothing gives a database without verdicts, as on the first start, its sieve at once. Nothing writes yet.
func (c *Cache) sieveNothing() error {
	it, err := c.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableResult}, UpperBound: []byte{tableResult + 1}})
	if err != nil {
		return fmt.Errorf("cache read: %w", err)
	}
	empty := !it.First()
	if err := it.Close(); err != nil {
		return fmt.Errorf("cache read: %w", err)
	}
	if empty {
		c.sieves.end(c.sieves.begin(), true)
	}
	return nil
}

// Sieved reports that new addresses are told without the database. Until the first sweep of a cache that was not empty, they are not.
func (c *Cache) Sieved() bool { return c.sieves.whole.Load() != nil }

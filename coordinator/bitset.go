package coordinator

import "sync/atomic"

// bitset is a set of rows for concurrent use.
type bitset []atomic.Uint64

func newBitset(n int64) bitset { return make(bitset, (n+63)/64) }

func (s bitset) has(i uint32) bool { return s[i/64].Load()&(1<<(i%64)) != 0 }

// add adds i and reports whether it was new.
func (s bitset) add(i uint32) bool {
	bit := uint64(1) << (i % 64)
	return s[i/64].Or(bit)&bit == 0
}

package jobfiles

import "sync/atomic"

// RowSet is a set of rows for concurrent use.
type RowSet []atomic.Uint64

// NewRowSet makes an empty set of rows below n.
func NewRowSet(n int64) RowSet { return make(RowSet, (n+63)/64) }

// Has reports whether the set has i.
func (s RowSet) Has(i uint32) bool { return s[i/64].Load()&(1<<(i%64)) != 0 }

// Add adds i and reports whether it was new.
func (s RowSet) Add(i uint32) bool {
	bit := uint64(1) << (i % 64)
	return s[i/64].Or(bit)&bit == 0
}

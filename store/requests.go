package store

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
)

// A request's name is the process that made it and a number, which 10,000 requests a second use up in three years.
const (
	processBytes = 7
	nameBytes    = processBytes + 5
)

// rememberedNames is how many of the last names are remembered as used or not, one bit each.
const rememberedNames = 1 << 20

// requests names requests. No two processes use the same names, and those of one come in order: new entries of a ledger
// lie next to each other. And it knows of a name whether the ledger can have it: that spares a single its look-up.
type requests struct {
	process [processBytes]byte
	last    atomic.Uint64
	used    [rememberedNames / 64]atomic.Uint64 // a ring of bits by number
}

// newProcess takes a process of its own.
func (r *requests) newProcess() { rand.Read(r.process[:]) }

// next is a name that was never given before.
func (r *requests) next() string {
	n := r.last.Add(1)
	word, bit := r.bitOf(n)
	word.And(^bit) // it was of a name that is out of the window now
	var b [nameBytes]byte
	binary.BigEndian.PutUint64(b[nameBytes-8:], n)
	copy(b[:], r.process[:])
	var text [2 * nameBytes]byte
	hex.Encode(text[:], b[:])
	return string(text[:])
}

func (r *requests) bitOf(n uint64) (word *atomic.Uint64, bit uint64) {
	return &r.used[n%rememberedNames/64], 1 << (n % 64)
}

// markUsed marks a name as one that the ledger may have, and tells whether it surely had it not until now. It is not sure of
// names that others made, or that are long ago.
func (r *requests) markUsed(name string) (fresh bool) {
	n, ours := r.numberOf(name)
	if !ours || n == 0 || n > r.last.Load() {
		return false
	}
	word, bit := r.bitOf(n)
	was := word.Or(bit)
	// The bit may have been given away in between; the number after which it was is read after it.
	return was&bit == 0 && r.last.Load()-n < rememberedNames
}

func (r *requests) numberOf(name string) (n uint64, ours bool) {
	process, n, ok := parseName(name)
	return n, ok && process == r.process
}

// parseName is the process and the number of a name that some process made, with or without a key.
func parseName(name string) (process [processBytes]byte, n uint64, ok bool) {
	var b [nameBytes]byte
	if len(name) > 2*nameBytes && name[2*nameBytes] == keySeparator {
		name = name[:2*nameBytes]
	}
	if len(name) != 2*nameBytes {
		return process, 0, false
	}
	var text [2 * nameBytes]byte
	copy(text[:], name)
	if _, err := hex.Decode(b[:], text[:]); err != nil {
		return process, 0, false
	}
	return [processBytes]byte(b[:]), binary.BigEndian.Uint64(b[nameBytes-8:]) & (1<<40 - 1), true
}

// NewRequest names a request: 24 hexadecimal digits, different for each whatever process of whatever store makes it.
func (s *Store) NewRequest() string { return s.requests.next() }

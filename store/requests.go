package store

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
)

// The name of a request is the id of the process that made it and a number of 40 bits: enough for three years at 10,000 a second.
const (
	processBytes = 7
	nameBytes    = processBytes + 5
)

// rememberedNames is for how many of the last names it is known whether they were used, one bit each.
const rememberedNames = 1 << 20

// requests names requests. Names are unique across processes, and ascend within one, so that new entries of a ledger are
// adjacent. It also knows of recent names whether the ledger can have them, which saves a single call its look-up.
type requests struct {
	process [processBytes]byte
	last    atomic.Uint64
	used    [rememberedNames / 64]atomic.Uint64 // a ring of bits by number
}

// newProcess sets a new random process id.
func (r *requests) newProcess() { rand.Read(r.process[:]) }

// next returns a new name.
func (r *requests) next() string {
	n := r.last.Add(1)
	word, bit := r.bitOf(n)
	word.And(^bit) // it belonged to a name that is too old now
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

// markUsed marks a name as one that the ledger may have, and reports whether it is certain that the ledger did not have it. That
// is never certain for names of other processes and for old names.
func (r *requests) markUsed(name string) (fresh bool) {
	n, ours := r.numberOf(name)
	if !ours || n == 0 || n > r.last.Load() {
		return false
	}
	word, bit := r.bitOf(n)
	was := word.Or(bit)
	// The bit may have been reused in between; so last is read after the bit.
	return was&bit == 0 && r.last.Load()-n < rememberedNames
}

func (r *requests) numberOf(name string) (n uint64, ours bool) {
	process, n, ok := parseName(name)
	return n, ok && process == r.process
}

// parseName returns the process and the number of a name that any process made, with or without a key.
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

// NewRequest returns a new name for a request: 24 hexadecimal digits, unique across processes and stores.
func (s *Billing) NewRequest() string { return s.requests.next() }

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

// requests names requests. Names are unique across processes, and ascend within one, so that new entries of a ledger are adjacent.
type requests struct {
	process [processBytes]byte
	last    atomic.Uint64
}

// newProcess sets a new random process id.
func (r *requests) newProcess() { rand.Read(r.process[:]) }

// next returns a new name.
func (r *requests) next() string {
	var b [nameBytes]byte
	binary.BigEndian.PutUint64(b[nameBytes-8:], r.last.Add(1))
	copy(b[:], r.process[:])
	return hex.EncodeToString(b[:])
}

// NewRequest returns a new name for a request: 24 hexadecimal digits, unique across processes and stores.
func (b *Billing) NewRequest() string { return b.requests.next() }

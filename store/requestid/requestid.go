package requestid

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"sync/atomic"
)

// The id of a request is the id of the process that made it and a number of 40 bits: enough for three years at 10,000
// a second.
const (
	processBytes = 7
	idBytes      = processBytes + 5
)

// Source makes the ids of one process. Its methods may be called from any goroutine.
type Source struct {
	process [processBytes]byte
	last    atomic.Uint64
}

// New returns a source with a new random process id.
func New() *Source {
	s := new(Source)
	rand.Read(s.process[:])
	return s
}

// Next returns a new id.
func (s *Source) Next() string {
	var b [idBytes]byte
	binary.BigEndian.PutUint64(b[idBytes-8:], s.last.Add(1))
	copy(b[:], s.process[:])
	return hex.EncodeToString(b[:])
}

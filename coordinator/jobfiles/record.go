package jobfiles

import (
	"encoding/binary"

	"probity/engine"
)

// RecordBytes is the length of a Record.
const RecordBytes = 32

// Record is what is kept of one row's answer: the core of the verdict (see engine.AppendCore) with its kind in place of the basis of
// its score, then its names. The score is the one of the time when the record was made, so that results, callbacks and dashboard
// agree whenever they are read. The zero record is no answer.
type Record [RecordBytes]byte

// Kind says how a row's answer came about.
type Kind uint8

const (
	None        Kind = iota // there is no answer
	Final                   // the row is answered
	Provisional             // what is known while the row waits for its next attempt
)

// Refs are the names of a record, in an order that the format fixes; zero is the empty name.
type Refs [4]uint32

// The places of a record's names.
const (
	NameProvider = iota
	NameRule
	NameMX
	NameSuggestion
)

const (
	kindByte   = 5  // of the core: the first byte of the basis
	basisBytes = 3  // of the basis
	refsByte   = 16 // where the names begin
)

// NewRecord is the record of a verdict, still without names.
func NewRecord(k Kind, v *engine.Verdict) (r Record) {
	engine.AppendCore(r[:0], v)
	clear(r[kindByte : kindByte+basisBytes])
	r[kindByte] = byte(k)
	return r
}

// Kind is the kind of the record.
func (r *Record) Kind() Kind { return Kind(r[kindByte]) }

// SetKind gives the record another kind.
func (r *Record) SetKind(k Kind) { r[kindByte] = byte(k) }

// Reason is the reason of the verdict: the second byte of its core.
func (r *Record) Reason() engine.Reason { return engine.Reason(r[1]) }

// Refs are the names of the record.
func (r *Record) Refs() (n Refs) {
	for i := range n {
		n[i] = binary.LittleEndian.Uint32(r[refsByte+4*i:])
	}
	return n
}

// SetRefs gives the record its names.
func (r *Record) SetRefs(n Refs) {
	for i := range n {
		binary.LittleEndian.PutUint32(r[refsByte+4*i:], n[i])
	}
}

// Replace takes a newer record, unless this one is final.
func (r *Record) Replace(by *Record) {
	if r.Kind() != Final {
		*r = *by
	}
}

// Verdict is the core of the verdict, without its names.
func (r *Record) Verdict() (engine.Verdict, error) {
	core := *r
	core[kindByte] = 0
	return engine.ReadCore(core[:engine.CoreSize])
}

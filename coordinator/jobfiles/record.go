package jobfiles

import (
	"encoding/binary"

	"probity/engine"
)

// RecordBytes is the length of a Record.
const RecordBytes = 32

// Record is the stored answer of one row: the core of the verdict (see engine.AppendCore), with its kind in place of the basis of its
// score, then its names. The score is fixed when the record is made, so that results, callbacks and dashboard always agree. The zero
// record is no answer.
type Record [RecordBytes]byte

// Kind says how a row's answer came about.
type Kind uint8

const (
	None        Kind = iota // there is no answer
	Final                   // the row is answered
	Provisional             // the answer so far, while the row waits for its next attempt
)

// Refs are the references to a record's names, in the order of the Name constants; zero is the empty name.
type Refs [4]uint32

// The indexes of Refs.
const (
	NameProvider = iota
	NameRule
	NameMX
	NameSuggestion
)

const (
	kindByte   = 5  // of the core: the first byte of the basis
	basisBytes = 3  // length of the basis
	refsByte   = 16 // where the references begin
)

// NewRecord makes the record of a verdict, without names.
func NewRecord(k Kind, v *engine.Verdict) (r Record) {
	engine.AppendCore(r[:0], v)
	clear(r[kindByte : kindByte+basisBytes])
	r[kindByte] = byte(k)
	return r
}

func (r *Record) Kind() Kind { return Kind(r[kindByte]) }

// Reason is the reason of the verdict, the second byte of its core.
func (r *Record) Reason() engine.Reason { return engine.Reason(r[1]) }

// Refs returns the references to the record's names.
func (r *Record) Refs() (n Refs) {
	for i := range n {
		n[i] = binary.LittleEndian.Uint32(r[refsByte+4*i:])
	}
	return n
}

// SetRefs sets the references to the record's names.
func (r *Record) SetRefs(n Refs) {
	for i := range n {
		binary.LittleEndian.PutUint32(r[refsByte+4*i:], n[i])
	}
}

// Replace replaces the record by a newer one, unless this one is final.
func (r *Record) Replace(by *Record) {
	if r.Kind() != Final {
		*r = *by
	}
}

// Verdict decodes the verdict, without its names.
func (r *Record) Verdict() (engine.Verdict, error) {
	core := *r
	core[kindByte] = 0
	return engine.ReadCore(core[:engine.CoreSize])
}

package jobfiles

import (
	"encoding/binary"

	"probity/engine"
	"probity/engine/basis"
)

// RecordBytes is the length of a Record.
const RecordBytes = 32

// Record is the stored answer of one row: the core of the verdict (see engine.AppendCore), with its kind and the
// reference to its details in place of the basis of its score, then its names. The score is fixed when the record is
// made, so that results, callbacks and dashboard always agree. The zero record is no answer.
type Record [RecordBytes]byte

// Kind says how a row's answer came about.
type Kind uint8

const (
	None        Kind = iota // there is no answer
	Final                   // the row is answered
	Provisional             // the answer so far, while the row waits for its next attempt
)

// Refs are the references to a record's names, in the order of the Name constants; zero is the empty name.
type Refs [names]uint32

// Names are the names of a record.
type Names [names]string

// The indexes of Refs.
const (
	NameProvider = iota
	NameRule
	NameMX
	NameSuggestion
	NameDetails // details of the verdict, as package details packs them; only in jobs that ask for them
	names
)

const (
	kindByte    = 5    // of the core: the first byte of the basis
	hasDetails  = 0x80 // of the kind's byte
	detailsByte = 6    // the reference to the details, if there are any
	refsByte    = 16   // where the other references begin
)

// NewRecord makes the record of a verdict, without names.
func NewRecord(k Kind, v *engine.Verdict) (r Record) {
	engine.AppendCore(r[:0], v)
	clear(r[kindByte : kindByte+basis.Size])
	r[kindByte] = byte(k)
	return r
}

// Kind says whether the row is answered.
func (r *Record) Kind() Kind { return Kind(r[kindByte] &^ hasDetails) }

// Reason is the reason of the verdict, the second byte of its core.
func (r *Record) Reason() engine.Reason { return engine.Reason(r[1]) }

// Refs returns the references to the record's names.
func (r *Record) Refs() (n Refs) {
	for i := range n[:NameDetails] {
		n[i] = binary.LittleEndian.Uint32(r[refsByte+4*i:])
	}
	if r[kindByte]&hasDetails != 0 {
		n[NameDetails] = binary.LittleEndian.Uint32(r[detailsByte:])
	}
	return n
}

// SetRefs sets the references to the record's names.
func (r *Record) SetRefs(n Refs) {
	for i := range n[:NameDetails] {
		binary.LittleEndian.PutUint32(r[refsByte+4*i:], n[i])
	}
	r[kindByte] &^= hasDetails
	if n[NameDetails] != 0 {
		r[kindByte] |= hasDetails
		binary.LittleEndian.PutUint32(r[detailsByte:], n[NameDetails])
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
	clear(core[kindByte : kindByte+basis.Size])
	return engine.ReadCore(core[:engine.CoreSize])
}

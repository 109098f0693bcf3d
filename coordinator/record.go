package coordinator

import (
	"encoding/binary"
	"time"

	"probity/engine"
)

const (
	recordBytes = 32
	entryBytes  = 4 + recordBytes // row, record
)

// record is what the log keeps of one answer: the verdict's core, then provider, rule, MX set and suggestion as
// offsets into the names. Its sixth byte, which the core leaves zero, is the tag; a zero record is no answer.
type record [recordBytes]byte

const (
	tagNone        = 0
	tagFinal       = 1
	tagProvisional = 2 // what is known while the row waits for its next attempt
	tagByte        = 5
)

// refs are the strings of a record.
type refs struct{ provider, rule, mx, suggestion uint32 }

// appendEntry appends (row, record) to a group of the log.
func appendEntry(dst []byte, row uint32, tag byte, v *engine.Verdict, r refs) []byte {
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, row)
	at := len(dst)
	dst = engine.AppendCore(dst, v)
	dst[at+tagByte] = tag
	for _, n := range [...]uint32{r.provider, r.rule, r.mx, r.suggestion} {
		dst = le.AppendUint32(dst, n)
	}
	return dst
}

// entryRow is the row of an entry.
func entryRow(e []byte) uint32 { return binary.LittleEndian.Uint32(e) }

// entryTag is the tag of an entry.
func entryTag(e []byte) byte { return e[4+tagByte] }

// entryReason is the reason of an entry's verdict: the second byte of its core.
func entryReason(e []byte) engine.Reason { return engine.Reason(e[4+1]) }

func (r *record) tag() byte { return r[tagByte] }

// set takes an entry's record, unless a better one is there: a final answer stays, a later provisional one replaces.
func (r *record) set(e []byte) {
	if r.tag() != tagFinal {
		copy(r[:], e[4:entryBytes])
	}
}

// verdict is the core of the record, and its references.
func (r *record) verdict() (engine.Verdict, refs, error) {
	core := *r
	core[tagByte] = 0
	v, err := engine.ReadCore(core[:engine.CoreSize])
	le := binary.LittleEndian
	return v, refs{le.Uint32(r[16:]), le.Uint32(r[20:]), le.Uint32(r[24:]), le.Uint32(r[28:])}, err
}

// known gives a verdict a time if it has none: no answer is older than its job's clock.
func known(v *engine.Verdict, now time.Time) {
	if v.VerifiedAt.IsZero() {
		v.VerifiedAt = now
	}
}

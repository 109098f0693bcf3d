package engine

import (
	"encoding/binary"
	"errors"
	"time"

	"probity/engine/basis"
)

// CoreSize is the length in bytes of a verdict's core on disk and on the wire.
const CoreSize = 16

// coreBasis is where in a core the basis begins.
const coreBasis = 5

// ErrCore is returned for bytes that AppendCore did not write.
var ErrCore = errors.New("not the core of a verdict")

// Bits of the core's fifth byte. Bits 2 and 3 hold the Tri of catch-all.
const (
	coreSMTPValid = 1 << 0
	coreFromCache = 1 << 1
	coreFull      = 1 << 4
	coreDisabled  = 1 << 5
)

// AppendCore appends the fixed part of v to dst: status, reason, score, flags, bits, the five bytes of the basis, and
// the time of the evidence in milliseconds since 1970 as a big-endian number of six bytes, with its sign. Strings
// (provider, rule, MX, message) are stored next to it, as each format interns them in its own way. The layout is
// version 1; formats that embed it carry their own version.
func AppendCore(dst []byte, v *Verdict) []byte {
	bits := uint8(v.Details.CatchAll) << 2
	for _, b := range [...]struct {
		on  bool
		bit uint8
	}{{v.SMTPValid, coreSMTPValid}, {v.FromCache, coreFromCache}, {v.Details.Full, coreFull},
		{v.Details.Disabled, coreDisabled}} {
		if b.on {
			bits |= b.bit
		}
	}
	dst = append(dst, byte(v.Status), byte(v.Reason), v.Score, byte(v.Flags), bits)
	at := len(dst)
	dst = append(dst, make([]byte, CoreSize-coreBasis)...)
	v.Basis.Put(dst[at:])
	ms := uint64(v.VerifiedAt.UnixMilli())
	binary.BigEndian.PutUint16(dst[at+basis.Size:], uint16(ms>>32))
	binary.BigEndian.PutUint32(dst[at+basis.Size+2:], uint32(ms))
	return dst
}

// ReadCore reads what AppendCore wrote. Status and reason always agree in what it returns.
func ReadCore(b []byte) (Verdict, error) {
	if len(b) < CoreSize || b[4]>>6 != 0 || b[4]>>2&3 > uint8(No) {
		return Verdict{}, ErrCore
	}
	v := Verdict{Status: Status(b[0]), Reason: Reason(b[1]), Score: b[2], Flags: Flags(b[3])}
	if int(v.Reason) >= len(reasonNames) || v.Status != v.Reason.Bucket() || v.Score > 100 ||
		!v.Basis.Read(b[coreBasis:]) {
		return Verdict{}, ErrCore
	}
	v.SMTPValid, v.FromCache = b[4]&coreSMTPValid != 0, b[4]&coreFromCache != 0
	v.Details.CatchAll = Tri(b[4] >> 2 & 3)
	v.Details.Full, v.Details.Disabled = b[4]&coreFull != 0, b[4]&coreDisabled != 0
	at := b[coreBasis+basis.Size:]
	ms := int64(int16(binary.BigEndian.Uint16(at)))<<32 | int64(binary.BigEndian.Uint32(at[2:]))
	v.VerifiedAt = time.UnixMilli(ms).UTC()
	return v, nil
}

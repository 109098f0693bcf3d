package detail

import (
	"encoding/binary"
	"errors"
	"time"

	"probity/engine"
)

// ErrMalformed is returned for bytes that Append did not write.
var ErrMalformed = errors.New("not the details of a verdict")

// maxString bounds every string: rules, hosts and messages are far shorter.
const maxString = 1024

// The first byte: a stage, and what follows.
const (
	stageMask  = 0x0f
	hasTexts   = 0x10
	hasWitness = 0x20
	ofDecoy    = 0x40 // the witness is a made-up recipient
)

// Append appends the details of v; of one for which no host was asked it appends nothing. The form: a byte of stage and
// flags, the attempts, the reply (code, then enhanced code or 0), host; with texts the message and the source. Then of
// a witness: the reply, the meaning, the blame, its time in milliseconds after the verdict's, its host; with texts its
// rule, message and source. A host or source equal to the verdict's is empty.
func Append(dst []byte, v *engine.Verdict) []byte {
	d, w := &v.Details, v.Details.Witness
	if d.Code == 0 && d.Host == "" && d.Attempts == 0 {
		return dst
	}
	first := byte(d.Stage) & stageMask
	texts := d.Source != "" || d.Message != ""
	if texts {
		first |= hasTexts
	}
	if w != nil {
		first |= hasWitness
		if w.Subject == engine.SubjectDecoy {
			first |= ofDecoy
		}
	}
	dst = append(dst, first, byte(min(d.Attempts, 255)))
	dst = AppendString(AppendReply(dst, d.Code, d.Enhanced), d.Host)
	if texts {
		dst = AppendString(AppendString(dst, d.Message), d.Source)
	}
	if w == nil {
		return dst
	}
	dst = append(AppendReply(dst, w.Reply.Code, w.Reply.Enhanced), byte(w.Finding.Meaning), byte(w.Finding.Blame))
	dst = binary.AppendVarint(dst, w.At.UnixMilli()-v.VerifiedAt.UnixMilli())
	dst = AppendString(dst, unless(w.Host, d.Host))
	if texts {
		dst = AppendString(AppendString(AppendString(dst, w.Finding.Rule), w.Message), unless(w.Source, d.Source))
	}
	return dst
}

// Read reads what Append wrote into v, whose time is known. All of src must be used.
func Read(src []byte, v *engine.Verdict) error {
	if len(src) == 0 {
		return nil
	}
	r, d := Reader{Src: src}, &v.Details
	first := r.Byte()
	texts := first&hasTexts != 0
	d.Stage, d.Attempts = engine.Stage(first&stageMask), int(r.Byte())
	d.Code, d.Enhanced = r.Reply()
	d.Host = r.String()
	if texts {
		d.Message, d.Source = r.String(), r.String()
	}
	if first&hasWitness != 0 {
		w := &engine.Witness{}
		w.Subject = engine.SubjectTarget
		if first&ofDecoy != 0 {
			w.Subject = engine.SubjectDecoy
		}
		w.Reply.Stage = engine.StageRcpt
		w.Reply.Code, w.Reply.Enhanced = r.Reply()
		w.Finding.Meaning, w.Finding.Blame = engine.Meaning(r.Byte()), engine.Blame(r.Byte())
		w.At = time.UnixMilli(v.VerifiedAt.UnixMilli() + r.Varint()).UTC()
		w.Host = or(r.String(), d.Host)
		if texts {
			w.Finding.Rule, w.Message = r.String(), r.String()
			w.Source = or(r.String(), d.Source)
		}
		d.Witness = w
		r.Bad = r.Bad || w.Finding.Meaning > engine.ProtocolFault || w.Finding.Blame > engine.BlameRecipient
	}
	if r.Bad || len(r.Src) > 0 || d.Code == 0 && d.Host == "" && d.Attempts == 0 || d.Stage > engine.StageSession ||
		texts != (d.Source != "" || d.Message != "") {
		return ErrMalformed
	}
	return nil
}

func unless(s, same string) string {
	if s == same {
		return ""
	}
	return s
}

func or(s, same string) string {
	if s == "" {
		return same
	}
	return s
}

// AppendReply appends a code and an enhanced code (RFC 3463), of which most numbers are small.
func AppendReply(dst []byte, code int, e engine.Enhanced) []byte {
	dst = binary.AppendUvarint(binary.BigEndian.AppendUint16(dst, uint16(code)), uint64(e.Class))
	if e.Class == 0 {
		return dst
	}
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(e.Subject)), uint64(e.Detail))
}

// AppendString appends a string of at most 1,024 bytes.
func AppendString(dst []byte, s string) []byte {
	s = s[:min(len(s), maxString)]
	return append(binary.AppendUvarint(dst, uint64(len(s))), s...)
}

// Reader reads fields from the front of Src; after a missing one it is Bad and returns zeros.
type Reader struct {
	Src []byte
	Bad bool
}

func (r *Reader) next(n int) []byte {
	if r.Bad || len(r.Src) < n {
		r.Bad = true
		return make([]byte, n)
	}
	b := r.Src[:n]
	r.Src = r.Src[n:]
	return b
}

// Byte reads a byte.
func (r *Reader) Byte() byte { return r.next(1)[0] }

// Uint16 reads a big-endian number of two bytes.
func (r *Reader) Uint16() uint16 { return binary.BigEndian.Uint16(r.next(2)) }

// Uint64 reads a big-endian number of eight bytes.
func (r *Reader) Uint64() uint64 { return binary.BigEndian.Uint64(r.next(8)) }

func (r *Reader) uvarint(most uint64) uint64 {
	n, k := binary.Uvarint(r.Src)
	if r.Bad || k <= 0 || n > most || k > 1 && r.Src[k-1] == 0 {
		r.Bad = true
		return 0
	}
	r.Src = r.Src[k:]
	return n
}

// Varint reads a signed number.
func (r *Reader) Varint() int64 {
	n, k := binary.Varint(r.Src)
	if r.Bad || k <= 0 || k > 1 && r.Src[k-1] == 0 {
		r.Bad = true
		return 0
	}
	r.Src = r.Src[k:]
	return n
}

// String reads a string.
func (r *Reader) String() string { return string(r.next(int(r.uvarint(maxString)))) }

// Reply reads a code and an enhanced code.
func (r *Reader) Reply() (code int, e engine.Enhanced) {
	code = int(r.Uint16())
	e.Class = uint16(r.uvarint(1<<16 - 1))
	if e.Class != 0 {
		e.Subject, e.Detail = uint16(r.uvarint(1<<16-1)), uint16(r.uvarint(1<<16-1))
	}
	return code, e
}

package feedback

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"probity/engine"
	"probity/engine/outcome"
	"probity/store"
)

// Hash stands for an address.
type Hash [16]byte

// Verdict is what was said of an address.
type Verdict struct {
	At  time.Time // when the evidence was taken, in whole seconds
	Bin outcome.Bin
}

// Report is what a sender says became of a message.
type Report struct {
	Hash Hash
	At   time.Time // in whole seconds
	Kind outcome.Kind
}

// The records. A key begins with store.TableFeedback and a kind; numbers are big-endian, times Unix seconds.
//
//	kind             key after it                           value
const (
	kindWaiting   = 'w' // hash, time, kind, account        empty
	kindOutcome   = 'o' // hash, account                    kind, time of the last report, time of the verdict, bin
	kindCount     = 'c' // account, 0, bin                  a uvarint for each outcome.Kind
	kindUnmatched = 'u' // account                          uvarint: reports about nothing
)

const (
	hashSize = len(Hash{})
	timeSize = 8
)

// errDamaged is wrapped by the errors of records that this program did not write.
var errDamaged = errors.New("a record of feedback is damaged")

func damaged(kind byte) error { return fmt.Errorf("%w: kind %q", errDamaged, kind) }

// recordKey is a key of a kind with its parts.
func recordKey(kind byte, parts ...[]byte) []byte {
	k := []byte{store.TableFeedback, kind}
	for _, part := range parts {
		k = append(k, part...)
	}
	return k
}

func timeBytes(t time.Time) []byte { return binary.BigEndian.AppendUint64(nil, uint64(t.Unix())) }

func readTime(b []byte) time.Time { return time.Unix(int64(binary.BigEndian.Uint64(b)), 0).UTC() }

func outcomeKey(h Hash, account string) []byte { return recordKey(kindOutcome, h[:], []byte(account)) }

func waitingKey(r Report, account string) []byte {
	return recordKey(kindWaiting, r.Hash[:], timeBytes(r.At), []byte{byte(r.Kind)}, []byte(account))
}

// readWaiting reads a key of kindWaiting.
func readWaiting(k []byte) (r Report, account string, err error) {
	rest := k[min(2, len(k)):]
	if len(rest) <= hashSize+timeSize+1 || rest[hashSize+timeSize] >= outcome.Kinds {
		return r, "", damaged(kindWaiting)
	}
	copy(r.Hash[:], rest)
	r.At = readTime(rest[hashSize:])
	r.Kind = outcome.Kind(rest[hashSize+timeSize])
	return r, string(rest[hashSize+timeSize+1:]), nil
}

func appendBin(dst []byte, b outcome.Bin) []byte {
	return append(append(dst, byte(b.Status), byte(b.Reason), b.Band), b.Receiver...)
}

func readBin(b []byte) (bin outcome.Bin, ok bool) {
	if len(b) < 3 || b[0] > byte(engine.Invalid) || int(b[1]) >= engine.Reasons || b[2] > 100 {
		return bin, false
	}
	return outcome.Bin{Status: engine.Status(b[0]), Reason: engine.Reason(b[1]), Band: b[2], Receiver: string(b[3:])},
		true
}

func appendVerdict(dst []byte, v Verdict) []byte {
	return appendBin(append(dst, timeBytes(v.At)...), v.Bin)
}

func readVerdict(b []byte) (v Verdict, ok bool) {
	if len(b) < timeSize {
		return v, false
	}
	v.At = readTime(b)
	v.Bin, ok = readBin(b[timeSize:])
	return v, ok
}

// counted is an outcome that is counted, with its verdict.
type counted struct {
	kind     outcome.Kind
	reported time.Time // the last report about the verdict
	verdict  Verdict
}

func (c counted) value() []byte {
	return appendVerdict(append([]byte{byte(c.kind)}, timeBytes(c.reported)...), c.verdict)
}

func readCounted(b []byte) (c counted, err error) {
	if len(b) < 1+timeSize || b[0] >= outcome.Kinds {
		return c, damaged(kindOutcome)
	}
	c.kind = outcome.Kind(b[0])
	c.reported = readTime(b[1:])
	v, ok := readVerdict(b[1+timeSize:])
	if !ok {
		return c, damaged(kindOutcome)
	}
	c.verdict = v
	return c, nil
}

func countsValue(c outcome.Counts) (b []byte) {
	for _, n := range c {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func readCounts(b []byte) (c outcome.Counts, err error) {
	for i := range c {
		n, size := binary.Uvarint(b)
		if size <= 0 || int64(n) < 0 {
			return outcome.Counts{}, damaged(kindCount)
		}
		c[i] = int64(n)
		b = b[size:]
	}
	if len(b) > 0 {
		return outcome.Counts{}, damaged(kindCount)
	}
	return c, nil
}

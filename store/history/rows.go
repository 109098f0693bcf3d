package history

import (
	"encoding/binary"
	"errors"
	"time"

	"probity/engine"
	"probity/engine/detail"
)

// Request is one request of an account.
type Request struct {
	At     time.Time // when it was answered, to the millisecond
	ID     string
	Method string
	Route  string // as the description names it, without parameters
	Status int
	Took   time.Duration // to the millisecond
	Key    string        // id of its API key; empty for the dashboard
	Detail string        // of an error, without addresses
}

// Verification is one verification of a single call or a batch.
type Verification struct {
	At      time.Time // when it was answered, to the millisecond
	Request string
	Email   string // as it was sent
	Key     string // id of the API key; empty for the dashboard
	Credits int64
	Test    bool // the verdict was simulated
	Verdict engine.Verdict
	// Proof says that the verdict has its rule and details: those of a single call. Node is the node that asked, Table
	// the hash of the provider table that decided.
	Proof bool
	Node  string
	Table [tableSize]byte
}

// ErrMalformed is returned for bytes that are no row.
var ErrMalformed = errors.New("not a row of the history")

// The flags of a verification.
const (
	isTest = 1 << iota
	hasProof
	allFlags = isTest | hasProof
)

// tableSize is the size of the hash of a provider table.
const tableSize = 8

// atSize is the size of the time that begins each row, in milliseconds since 1970.
const atSize = 8

func appendRequest(dst []byte, r *Request) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(r.At.UnixMilli()))
	dst = binary.BigEndian.AppendUint16(detail.AppendString(dst, r.ID), uint16(r.Status))
	dst = binary.AppendVarint(dst, r.Took.Milliseconds())
	dst = detail.AppendString(detail.AppendString(dst, r.Method), r.Route)
	return detail.AppendString(detail.AppendString(dst, r.Key), r.Detail)
}

func readRequest(src []byte) (q Request, err error) {
	r := detail.Reader{Src: src}
	q.At = time.UnixMilli(int64(r.Uint64())).UTC()
	q.ID, q.Status = r.String(), int(r.Uint16())
	took := r.Varint()
	q.Took = time.Duration(took) * time.Millisecond
	q.Method, q.Route = r.String(), r.String()
	q.Key, q.Detail = r.String(), r.String()
	if r.Bad || len(r.Src) > 0 || q.Took.Milliseconds() != took {
		return q, ErrMalformed
	}
	return q, nil
}

func appendVerification(dst []byte, v *Verification) []byte {
	flags := byte(0)
	if v.Test {
		flags |= isTest
	}
	if v.Proof {
		flags |= hasProof
	}
	dst = append(binary.BigEndian.AppendUint64(dst, uint64(v.At.UnixMilli())), flags)
	dst = detail.AppendString(detail.AppendString(dst, v.Request), v.Email)
	dst = detail.AppendString(dst, v.Verdict.ProviderName)
	dst = binary.AppendVarint(detail.AppendString(dst, v.Key), v.Credits)
	dst = engine.AppendCore(dst, &v.Verdict)
	if !v.Proof {
		return dst
	}
	dst = detail.AppendString(append(dst, v.Table[:]...), v.Node)
	return detail.Append(detail.AppendString(dst, v.Verdict.Rule), &v.Verdict)
}

func readVerification(src []byte) (v Verification, err error) {
	r := detail.Reader{Src: src}
	v.At = time.UnixMilli(int64(r.Uint64())).UTC()
	flags := r.Byte()
	v.Test, v.Proof = flags&isTest != 0, flags&hasProof != 0
	v.Request, v.Email = r.String(), r.String()
	receiver := r.String()
	v.Key = r.String()
	v.Credits = r.Varint()
	if r.Bad || flags&^allFlags != 0 || len(r.Src) < engine.CoreSize {
		return v, ErrMalformed
	}
	core := r.Src[:engine.CoreSize]
	r.Src = r.Src[engine.CoreSize:]
	if v.Verdict, err = engine.ReadCore(core); err != nil {
		return v, ErrMalformed
	}
	v.Verdict.ProviderName = receiver
	if v.Proof {
		binary.BigEndian.PutUint64(v.Table[:], r.Uint64())
		v.Node, v.Verdict.Rule = r.String(), r.String()
		err = detail.Read(r.Src, &v.Verdict)
		r.Src = nil
	}
	if r.Bad || err != nil || len(r.Src) > 0 {
		return v, ErrMalformed
	}
	return v, nil
}

// A block is rows that are stored as one value: its version, the time of its newest row, and each row after its length.
// An empty row was erased.
const (
	blockVersion = 1
	blockHead    = 1 + atSize
	blockRows    = 128      // a block is full with so many rows,
	blockBytes   = 32 << 10 // or so many bytes
)

// block is rows of one account and kind, in the order of their numbers.
type block struct {
	count  int
	newest uint64 // milliseconds
	value  []byte // room for the head, then the rows
}

// newBlock makes a block with the memory of a former one, or with new memory.
func newBlock(memory []byte) block {
	if memory == nil {
		memory = make([]byte, blockHead, blockHead+blockBytes/4)
	}
	return block{value: memory[:blockHead]}
}

// add adds a row.
func (b *block) add(row []byte) {
	b.value = append(binary.AppendUvarint(b.value, uint64(len(row))), row...)
	b.count++
	if len(row) >= atSize {
		b.newest = max(b.newest, binary.BigEndian.Uint64(row))
	}
}

func (b *block) full() bool { return b.count >= blockRows || len(b.value) >= blockBytes }

// seal writes the head and returns the value.
func (b *block) seal() []byte {
	b.value[0] = blockVersion
	binary.BigEndian.PutUint64(b.value[1:], b.newest)
	return b.value
}

// newestOf is the time of the newest row of a block, in milliseconds; 0 if it cannot be read.
func newestOf(value []byte) uint64 {
	if len(value) < blockHead || value[0] != blockVersion {
		return 0
	}
	return binary.BigEndian.Uint64(value[1:])
}

// splitBlock returns the rows of a block, which are parts of value. Of a malformed block it returns those before the
// fault.
func splitBlock(value []byte) (rows [][]byte) {
	if newestOf(value) == 0 {
		return nil
	}
	for rest := value[blockHead:]; len(rest) > 0; {
		n, k := binary.Uvarint(rest)
		if k <= 0 || n > uint64(len(rest)-k) {
			return rows
		}
		rows = append(rows, rest[k:k+int(n)])
		rest = rest[k+int(n):]
	}
	return rows
}

package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"time"
)

// record is the value of one key of the ledger: an entry, or the settlement of a single call (charge or release)
// together with the reservation before it. The pair is committed at once and listed as two entries; the key has the
// number of the second, and both are found by their cause.
type record struct {
	Entry
	Pair bool // the entry before is the reservation of the same credits
}

// settlementRecord is the settlement of a single call: it charges what was used, or, if that is zero, releases what was
// reserved.
func settlementRecord(request string, used, reserved int64, now time.Time) record {
	kind, n := Charge, used
	if used == 0 {
		kind, n = Release, reserved
	}
	id := singleCause + request + " " + string(kind)
	cause := id[:len(singleCause)+len(request)]
	return record{Pair: true, Entry: Entry{ID: id, Kind: kind, Credits: n, Cause: cause, At: now.UTC()}}
}

// applyAfter sets the number and the balances of the record. Before it, the account has credits c and last is its last
// entry.
func (r *record) applyAfter(c Credits, last uint64) {
	reserved, _ := c.apply(Reserve, r.Credits)
	now, amount := reserved.apply(r.Kind, r.Credits)
	r.Number = last + 2
	r.Amount = amount
	r.Balance = now.Balance
	r.Reserved = now.Reserved
}

// lookupID is the id by which the record is found.
func (r *record) lookupID() string {
	if r.Pair {
		return r.Cause
	}
	return r.ID
}

// entries appends the entries of the record to dst, oldest first.
func (r *record) entries(dst []Entry) []Entry {
	if r.Pair {
		e := r.Entry
		e.Number--
		e.Kind, e.ID = Reserve, e.Cause+" "+string(Reserve)
		e.Amount, e.Balance, e.Reserved = -e.Credits, e.Balance-r.Amount, e.Reserved+e.Credits
		dst = append(dst, e)
	}
	return append(dst, r.Entry)
}

// The forms of a record. Single entries are JSON and begin with a brace. Pairs, of which a busy account has thousands a
// second, are packed:
//
//	form, first letter of the kind, number, credits, balance, reserved (uvarint each),
//	unix nanoseconds uint64, request
const pairForm = 1

var errBadRecord = errors.New("a record of the ledger is damaged")

func (r *record) appendTo(dst []byte) ([]byte, error) {
	if !r.Pair {
		b, err := json.Marshal(r.Entry)
		return append(dst, b...), err
	}
	dst = append(dst, pairForm, r.Kind[0])
	for _, n := range [...]uint64{r.Number, uint64(r.Credits), uint64(r.Balance), uint64(r.Reserved)} {
		dst = binary.AppendUvarint(dst, n)
	}
	return append(appendUint64(dst, uint64(r.At.UnixNano())), r.Cause[len(singleCause):]...), nil
}

// singleCause is the prefix of a single call's cause.
const singleCause = "single "

// readRecord reads what appendTo wrote.
func readRecord(v []byte) (rec record, err error) {
	if len(v) == 0 || v[0] != pairForm {
		err = json.Unmarshal(v, &rec.Entry)
		return rec, err
	}
	r := reader{v: v[1:]}
	kind, number := r.bytes(1), r.uvarint(math.MaxUint64)
	credits, balance := int64(r.uvarint(uint64(MaxCredits))), int64(r.uvarint(uint64(MaxCredits)))
	reserved := int64(r.uvarint(uint64(MaxCredits)))
	unix := r.bytes(8)
	if r.failed {
		return record{}, errBadRecord
	}
	used := credits
	if kind[0] == Release[0] {
		used = 0
	}
	rec = settlementRecord(string(r.v), used, credits, time.Unix(0, int64(binary.BigEndian.Uint64(unix))))
	if rec.Kind[0] != kind[0] {
		return record{}, errBadRecord
	}
	rec.Number, rec.Balance, rec.Reserved = number, balance, reserved
	if rec.Kind == Release {
		rec.Amount = rec.Credits
	}
	return rec, nil
}

// reader decodes a value. After a failure it returns zeros.
type reader struct {
	v      []byte
	failed bool
}

func (r *reader) fail() { r.v, r.failed = nil, true }

func (r *reader) uvarint(most uint64) uint64 {
	n, size := binary.Uvarint(r.v)
	if size <= 0 || n > most {
		r.fail()
		return 0
	}
	r.v = r.v[size:]
	return n
}

func (r *reader) bytes(n int) []byte {
	if n > len(r.v) {
		r.fail()
		return nil
	}
	b := r.v[:n]
	r.v = r.v[n:]
	return b
}

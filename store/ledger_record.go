package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// record is the value of one key of the ledger: an entry, or the settlement of a single call (charge or release) together
// with the reservation before it. The pair is committed at once and listed as two entries; the key has the number of the
// second, and both are found by their cause.
type record struct {
	Entry
	Pair bool // the entry before is the reservation of the same credits
}

// settlementRecord is the settlement of a single call: it charges what was used, or, if that is zero, releases the hold.
func settlementRecord(request string, used, held int64, now time.Time) record {
	kind, n := Charge, used
	if used == 0 {
		kind, n = Release, held
	}
	id := paidWork{kind: workSingle, ref: request}.id(kind)
	cause := id[:len(id)-len(kind)-1]
	return record{Pair: true, Entry: Entry{ID: id, Kind: kind, Credits: n, Cause: cause, At: now.UTC()}}
}

// applyAfter sets the number and the balances of the record. Before it, the account has credits c and last is its last entry.
func (r *record) applyAfter(c Credits, last uint64) {
	reserved, _ := c.apply(Reserve, r.Credits)
	now, amount := reserved.apply(r.Kind, r.Credits)
	r.Number, r.Amount, r.Balance, r.Reserved = last+2, amount, now.Balance, now.Reserved
}

// reservation returns the first entry of a pair.
func (r *record) reservation() Entry {
	e := r.Entry
	e.Number--
	e.Kind, e.ID = Reserve, e.Cause+" "+string(Reserve)
	e.Amount, e.Balance, e.Reserved = -e.Credits, e.Balance-r.Amount, e.Reserved+e.Credits
	return e
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
		dst = append(dst, r.reservation())
	}
	return append(dst, r.Entry)
}

// The forms of a record. Single entries are JSON and begin with a brace. Pairs, of which a busy account has thousands a
// second, are packed:
//
//	form, first letter of the kind, number, credits, balance, reserved (uvarint each), unix nanoseconds uint64, request
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
func readRecord(v []byte) (r record, err error) {
	if len(v) == 0 || v[0] != pairForm {
		err = json.Unmarshal(v, &r.Entry)
		return r, err
	}
	return readPair(v[1:])
}

func readPair(v []byte) (record, error) {
	var n [4]uint64
	kind, v := cutByte(v)
	for i := range n {
		size := 0
		if n[i], size = binary.Uvarint(v); size <= 0 || (i > 0 && n[i] > uint64(MaxCredits)) {
			return record{}, errBadRecord
		}
		v = v[size:]
	}
	if len(v) < 8 {
		return record{}, errBadRecord
	}
	at := time.Unix(0, int64(binary.BigEndian.Uint64(v))).UTC()
	used, held := int64(n[1]), int64(0)
	if kind == Release[0] {
		used, held = 0, used
	}
	r := settlementRecord(string(v[8:]), used, held, at)
	if r.Kind[0] != kind {
		return record{}, errBadRecord
	}
	r.Number, r.Balance, r.Reserved = n[0], int64(n[2]), int64(n[3])
	if r.Kind == Release {
		r.Amount = r.Credits
	}
	return r, nil
}

// cutByte splits off the first byte; 0 if there is none.
func cutByte(v []byte) (byte, []byte) {
	if len(v) == 0 {
		return 0, nil
	}
	return v[0], v[1:]
}

// appendKeyNumber appends a numberedKey to dst.
func appendKeyNumber(dst []byte, table byte, name string, n uint64) []byte {
	dst = append(append(append(dst, table), name...), 0)
	return appendUint64(dst, n)
}

func appendCauseKey(dst []byte, account, id string) []byte {
	return append(append(append(append(dst, tableCause), account...), 0), id...)
}

// ledgerWriter writes records into a batch, and reuses its buffers. It is not safe for concurrent use.
type ledgerWriter struct{ k, v []byte }

// write adds a record of the account and its id to the batch; the caller writes the balance.
func (lw *ledgerWriter) write(b *pebble.Batch, account string, r *record) error {
	lw.k = appendKeyNumber(lw.k[:0], tableLedger, account, r.Number)
	var err error
	if lw.v, err = r.appendTo(lw.v[:0]); err != nil {
		return err
	}
	if err := b.Set(lw.k, lw.v, nil); err != nil {
		return err
	}
	lw.k = appendCauseKey(lw.k[:0], account, r.lookupID())
	lw.v = appendUint64(lw.v[:0], r.Number)
	return b.Set(lw.k, lw.v, nil)
}

func (lw *ledgerWriter) writeBalance(b *pebble.Batch, account string, c Credits, last uint64) error {
	lw.k = append(append(lw.k[:0], tableBalance), account...)
	lw.v = appendBalance(lw.v[:0], c, last)
	return b.Set(lw.k, lw.v, nil)
}

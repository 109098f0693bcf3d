package store

import (
	"encoding/json"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2"
)

// record is what one key of the ledger holds: an entry, or the end of a single verification, its charge or its release,
// together with the reservation before it. The two became true at one moment and are told as two entries; the key has
// the number of the second, and the cause is the id that both are found by.
type record struct {
	Entry
	Pair bool `json:"pair,omitempty"` // the entry before is the reservation of the same credits
}

// endOfSingle is how a single ends: it charges what was used, or releases what was held when nothing was.
func endOfSingle(request string, used, held int64, now time.Time) record {
	kind, n := Charge, used
	if used == 0 {
		kind, n = Release, held
	}
	id := work{kind: forSingle, ref: request}.id(kind)
	cause := id[:len(id)-len(kind)-1]
	return record{Pair: true, Entry: Entry{ID: id, Kind: kind, Credits: n, Cause: cause, At: now.UTC()}}
}

// comeAfter sets where an account stands after the record, that stood at c after entry number last.
func (r *record) comeAfter(c Credits, last uint64) {
	reserved, _ := c.after(Reserve, r.Credits)
	now, amount := reserved.after(r.Kind, r.Credits)
	r.Number, r.Amount, r.Balance, r.Reserved = last+2, amount, now.Balance, now.Reserved
}

// before is the reservation in a pair.
func (r *record) before() Entry {
	e := r.Entry
	e.Number--
	e.Kind, e.ID = Reserve, e.Cause+" "+string(Reserve)
	e.Amount, e.Balance, e.Reserved = -e.Credits, e.Balance-r.Amount, e.Reserved+e.Credits
	return e
}

// cause is the id that the record is found by.
func (r *record) cause() string {
	if r.Pair {
		return r.Cause
	}
	return r.ID
}

// entries are what the record tells, oldest first, appended to dst.
func (r *record) entries(dst []Entry) []Entry {
	if r.Pair {
		dst = append(dst, r.before())
	}
	return append(dst, r.Entry)
}

func readRecord(v []byte) (record, error) {
	var r record
	err := json.Unmarshal(v, &r)
	return r, err
}

// appendJSON is json.Marshal without its looking around: a busy account has many thousand records a second.
func (r *record) appendJSON(dst []byte) []byte {
	dst = strconv.AppendUint(append(dst, `{"number":`...), r.Number, 10)
	dst = appendString(append(dst, `,"id":`...), r.ID)
	dst = appendString(append(dst, `,"kind":`...), string(r.Kind))
	dst = strconv.AppendInt(append(dst, `,"credits":`...), r.Credits, 10)
	dst = strconv.AppendInt(append(dst, `,"amount":`...), r.Amount, 10)
	dst = appendString(append(dst, `,"cause":`...), r.Cause)
	dst = r.At.AppendFormat(append(dst, `,"at":"`...), time.RFC3339Nano)
	dst = strconv.AppendInt(append(dst, `","balance":`...), r.Balance, 10)
	dst = strconv.AppendInt(append(dst, `,"reserved":`...), r.Reserved, 10)
	if r.Pair {
		dst = append(dst, `,"pair":true`...)
	}
	return append(dst, '}')
}

// appendString appends s as a JSON string.
func appendString(dst []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == '"' || c == '\\' {
			b, err := json.Marshal(s)
			if err != nil {
				panic("BUG: a string is no JSON: " + err.Error())
			}
			return append(dst, b...)
		}
	}
	return append(append(append(dst, '"'), s...), '"')
}

// appendKeyNumber is keyNumber into dst.
func appendKeyNumber(dst []byte, table byte, name string, n uint64) []byte {
	dst = append(append(append(dst, table), name...), 0)
	return appendUint64(dst, n)
}

func appendCauseKey(dst []byte, account, id string) []byte {
	return append(append(append(append(dst, tableCause), account...), 0), id...)
}

// scribe writes records into a batch, and keeps the buffers for it. Not for concurrent use.
type scribe struct{ k, v []byte }

// write adds a record of the account and its id to the batch; the balance is the caller's to write.
func (s *scribe) write(b *pebble.Batch, account string, r *record) error {
	s.k = appendKeyNumber(s.k[:0], tableLedger, account, r.Number)
	s.v = r.appendJSON(s.v[:0])
	if err := b.Set(s.k, s.v, nil); err != nil {
		return err
	}
	s.k = appendCauseKey(s.k[:0], account, r.cause())
	s.v = appendUint64(s.v[:0], r.Number)
	return b.Set(s.k, s.v, nil)
}

func (s *scribe) writeBalance(b *pebble.Batch, account string, c Credits, last uint64) error {
	s.k = append(append(s.k[:0], tableBalance), account...)
	s.v = appendBalance(s.v[:0], c, last)
	return b.Set(s.k, s.v, nil)
}

package store

import (
	"encoding/binary"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// ledgerPage holds the settlements of single calls of one account in one commit. It has one key in the ledger and one by which it is
// found, instead of two for each settlement: a busy account's commits have dozens. The settlements on a page are consecutive, and
// their names are of this process and less than pageSpan apart, so that the page of a name is found without a key for each.
type ledgerPage struct {
	records     []*record // at most maxGroup
	first, last uint64    // of their names
}

// pageSpan bounds the distance of the names on one ledger page.
const pageSpan = 1 << 12

// The form of a ledger page. Each name is stored as its difference from the one before. The key has the number of the last entry.
//
//	form, settlements, number, balance and reserved after the last (uvarint each), unix nanoseconds of the first uint64, then for each:
//	credits<<1 | released (uvarint), nanoseconds since the one before (varint),
//	lengths of the prefix and the suffix shared with the name before (uvarint each), the bytes between (length uvarint, bytes)
const pageForm = 2

func (lp *ledgerPage) add(r *record, n uint64) {
	if len(lp.records) == 0 {
		lp.first, lp.last = n, n
	}
	lp.first, lp.last = min(lp.first, n), max(lp.last, n)
	lp.records = append(lp.records, r)
}

func (lp *ledgerPage) appendTo(dst []byte) []byte {
	last := lp.records[len(lp.records)-1]
	dst = append(dst, pageForm)
	for _, n := range [...]uint64{uint64(len(lp.records)), last.Number, uint64(last.Balance), uint64(last.Reserved)} {
		dst = binary.AppendUvarint(dst, n)
	}
	at, name := lp.records[0].At, ""
	dst = appendUint64(dst, uint64(at.UnixNano()))
	for _, r := range lp.records {
		released := uint64(0)
		if r.Kind == Release {
			released = 1
		}
		dst = binary.AppendUvarint(dst, uint64(r.Credits)<<1|released)
		dst = binary.AppendVarint(dst, int64(r.At.Sub(at)))
		next := r.Cause[len(singleCause):]
		dst = appendNameDelta(dst, name, next)
		at, name = r.At, next
	}
	return dst
}

// appendNameDelta appends the difference of a name from the one before.
func appendNameDelta(dst []byte, before, name string) []byte {
	short := min(len(before), len(name))
	head := 0
	for head < short && before[head] == name[head] {
		head++
	}
	tail := 0
	for tail < short-head && before[len(before)-1-tail] == name[len(name)-1-tail] {
		tail++
	}
	dst = binary.AppendUvarint(binary.AppendUvarint(dst, uint64(head)), uint64(tail))
	middle := name[head : len(name)-tail]
	return append(binary.AppendUvarint(dst, uint64(len(middle))), middle...)
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

func (r *reader) varint() int64 {
	n, size := binary.Varint(r.v)
	if size <= 0 {
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

// readNameDelta reads what appendNameDelta wrote.
func (r *reader) readNameDelta(before string) string {
	head, tail := int(r.uvarint(MaxName)), int(r.uvarint(MaxName))
	middle := r.bytes(int(r.uvarint(MaxName)))
	if head+tail > len(before) || head+tail+len(middle) > MaxName {
		r.fail()
		return ""
	}
	return before[:head] + string(middle) + before[len(before)-tail:]
}

// readPage reads what appendTo wrote after the form.
func readPage(v []byte) (ends []*record, err error) {
	r := &reader{v: v}
	count := int(r.uvarint(maxGroup))
	number := r.uvarint(1 << 62)
	now := Credits{Balance: int64(r.uvarint(uint64(MaxCredits))), Reserved: int64(r.uvarint(uint64(MaxCredits)))}
	began := r.bytes(8)
	if r.failed || count == 0 || number < 2*uint64(count) {
		return nil, errBadRecord
	}
	at, name := int64(binary.BigEndian.Uint64(began)), ""
	ends = make([]*record, 0, count)
	for range count {
		credits := r.uvarint(uint64(MaxCredits)<<1 | 1)
		if at += r.varint(); at < 0 { // before 1970, or an overflow
			return nil, errBadRecord
		}
		name = r.readNameDelta(name)
		used, held := int64(credits>>1), int64(credits>>1)
		if credits&1 == 1 {
			used = 0
		} else {
			now.Balance += used
		}
		if r.failed || credits == 0 || now.Balance > MaxCredits {
			return nil, errBadRecord
		}
		end := settlementRecord(name, used, held, time.Unix(0, at).UTC())
		ends = append(ends, &end)
	}
	if len(r.v) > 0 {
		return nil, errBadRecord
	}
	number -= 2 * uint64(count)
	for _, e := range ends {
		e.applyAfter(now, number)
		now, number = Credits{e.Balance, e.Reserved}, e.Number
	}
	return ends, nil
}

// readEntries appends the entries of a key of the ledger, oldest first.
func readEntries(dst []Entry, v []byte) ([]Entry, error) {
	if len(v) == 0 || v[0] != pageForm {
		r, err := readRecord(v)
		if err != nil {
			return dst, err
		}
		return r.entries(dst), nil
	}
	ends, err := readPage(v[1:])
	for i := range ends {
		dst = ends[i].entries(dst)
	}
	return dst, err
}

// pageCause is the prefix of the ids by which ledger pages are found; process and first name, eight bytes, follow. The value is the
// number of the page's last entry, and its last name.
const pageCause = "singles "

func appendPageKey(dst []byte, account string, process [processBytes]byte, name uint64) []byte {
	return appendUint64(append(append(appendKeyPrefix(dst, tableCause, account), pageCause...), process[:]...), name)
}

// writePage adds a ledger page to the batch, and empties it. A page with one settlement is written as a record.
func (lw *ledgerWriter) writePage(b *pebble.Batch, account string, process [processBytes]byte, page *ledgerPage) error {
	defer func() { // keeps its memory for reuse
		clear(page.records)
		page.records = page.records[:0]
	}()
	switch len(page.records) {
	case 0:
		return nil
	case 1:
		return lw.write(b, account, page.records[0])
	}
	number := page.records[len(page.records)-1].Number
	lw.k = appendUint64(appendKeyPrefix(lw.k[:0], tableLedger, account), number)
	lw.v = page.appendTo(lw.v[:0])
	if err := b.Set(lw.k, lw.v, nil); err != nil {
		return err
	}
	lw.k = appendPageKey(lw.k[:0], account, process, page.first)
	lw.v = appendUint64(appendUint64(lw.v[:0], number), page.last)
	return b.Set(lw.k, lw.v, nil)
}

// findSingle finds the settlement of a single call on the ledger pages of its process that may have it: those whose first name is at
// or less than pageSpan before its name.
func findSingle(r pebble.Reader, account, cause string) (found Entry, err error) {
	process, n, ok := parseName(strings.TrimPrefix(cause, singleCause))
	if !ok {
		return Entry{}, ErrNotFound
	}
	least := uint64(0)
	if n >= pageSpan {
		least = n - pageSpan + 1
	}
	err = walk(r, appendPageKey(nil, account, process, least), appendPageKey(nil, account, process, n+1), false, func(_, v []byte) error {
		if len(v) != 16 {
			return errBadRecord
		}
		if binary.BigEndian.Uint64(v[8:]) < n {
			return nil
		}
		page, err := get(r, numberedKey(tableLedger, account, binary.BigEndian.Uint64(v)))
		if err != nil {
			return err
		}
		if len(page) == 0 || page[0] != pageForm {
			return errBadRecord
		}
		ends, err := readPage(page[1:])
		for _, end := range ends {
			if end.Cause == cause {
				found = end.Entry
				return errStop
			}
		}
		return err
	})
	if err == nil && found.ID == "" {
		err = ErrNotFound
	}
	return found, err
}

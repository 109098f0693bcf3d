package store

import (
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// sheet is the ends of singles of one account that one commit makes durable, one key of the ledger and one by which they are
// found, where each had two of its own: a busy account's commits have dozens. Each end keeps its name, key, time and credits,
// and is told as it always was. The ends on a sheet follow each other, and bear names of this process that are no further
// apart than sheetSpan, so that the sheet of a name is found without a key for each.
type sheet struct {
	ends        []*record // at most maxGroup
	first, last uint64    // of their names
}

// sheetSpan is how far apart the names on one sheet may be.
const sheetSpan = 1 << 12

// The form of a sheet, of which a name tells only what the one before does not. The key has the number of the last entry.
//
//	form, ends, number, balance and reserved after the last (uvarint each), unix nanoseconds of the first uint64, then for each:
//	credits<<1 | released (uvarint), nanoseconds since the one before (varint),
//	bytes of the name before that begin this one, and that end it (uvarint each), what is between (length uvarint, bytes)
const sheetForm = 2

// takes tells whether an end of that name's number may stand on the sheet with those that are there.
func (s *sheet) takes(n uint64) bool {
	return len(s.ends) == 0 || max(s.last, n)-min(s.first, n) < sheetSpan
}

func (s *sheet) add(r *record, n uint64) {
	if len(s.ends) == 0 {
		s.first, s.last = n, n
	}
	s.first, s.last = min(s.first, n), max(s.last, n)
	s.ends = append(s.ends, r)
}

// reset empties the sheet. There is one for each account: it keeps the place, and nothing in it.
func (s *sheet) reset() {
	clear(s.ends)
	s.ends = s.ends[:0]
}

func (s *sheet) appendTo(dst []byte) []byte {
	last := s.ends[len(s.ends)-1]
	dst = append(dst, sheetForm)
	for _, n := range [...]uint64{uint64(len(s.ends)), last.Number, uint64(last.Balance), uint64(last.Reserved)} {
		dst = binary.AppendUvarint(dst, n)
	}
	at, name := s.ends[0].At, ""
	dst = appendUint64(dst, uint64(at.UnixNano()))
	for _, r := range s.ends {
		released := uint64(0)
		if r.Kind == Release {
			released = 1
		}
		dst = binary.AppendUvarint(dst, uint64(r.Credits)<<1|released)
		dst = binary.AppendVarint(dst, int64(r.At.Sub(at)))
		next := r.Cause[len(singleCause):]
		dst = appendAfter(dst, name, next)
		at, name = r.At, next
	}
	return dst
}

// appendAfter appends what of a name the one before does not tell.
func appendAfter(dst []byte, before, name string) []byte {
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

// reader takes a value apart. After it has failed it gives zeros.
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

// nameAfter reads what appendAfter wrote.
func (r *reader) nameAfter(before string) string {
	head, tail := int(r.uvarint(MaxName)), int(r.uvarint(MaxName))
	middle := r.bytes(int(r.uvarint(MaxName)))
	if head+tail > len(before) || head+tail+len(middle) > MaxName {
		r.fail()
		return ""
	}
	return before[:head] + string(middle) + before[len(before)-tail:]
}

// readSheet reads what appendTo wrote after the form.
func readSheet(v []byte) (ends []*record, err error) {
	r := &reader{v: v}
	count := int(r.uvarint(maxGroup))
	number := r.uvarint(1 << 62)
	now := Credits{Balance: int64(r.uvarint(uint64(MaxCredits))), Reserved: int64(r.uvarint(uint64(MaxCredits)))}
	began := r.bytes(8)
	if r.failed || count == 0 || number < 2*uint64(count) {
		return nil, errRecordForm
	}
	at, name := int64(binary.BigEndian.Uint64(began)), ""
	ends = make([]*record, 0, count)
	for range count {
		credits := r.uvarint(uint64(MaxCredits)<<1 | 1)
		if at += r.varint(); at < 0 { // before 1970, or later than nanoseconds tell
			return nil, errRecordForm
		}
		name = r.nameAfter(name)
		used, held := int64(credits>>1), int64(credits>>1)
		if credits&1 == 1 {
			used = 0
		} else {
			now.Balance += used
		}
		if r.failed || credits == 0 || now.Balance > MaxCredits {
			return nil, errRecordForm
		}
		end := endOfSingle(name, used, held, time.Unix(0, at).UTC())
		ends = append(ends, &end)
	}
	if len(r.v) > 0 {
		return nil, errRecordForm
	}
	number -= 2 * uint64(count)
	for _, e := range ends {
		e.comeAfter(now, number)
		now, number = Credits{e.Balance, e.Reserved}, e.Number
	}
	return ends, nil
}

// readEntries appends what a key of the ledger tells, oldest first.
func readEntries(dst []Entry, v []byte) ([]Entry, error) {
	if len(v) == 0 || v[0] != sheetForm {
		r, err := readRecord(v)
		if err != nil {
			return dst, err
		}
		return r.entries(dst), nil
	}
	ends, err := readSheet(v[1:])
	for i := range ends {
		dst = ends[i].entries(dst)
	}
	return dst, err
}

// sheetCause begins the ids by which sheets are found: process and first name, eight bytes. The value is the number of the
// sheet's last entry, and its last name.
const sheetCause = "singles "

func appendSheetKey(dst []byte, account string, process [processBytes]byte, name uint64) []byte {
	return appendUint64(append(appendCauseKey(dst, account, sheetCause), process[:]...), name)
}

// writeSheet adds a sheet to the batch, and empties it. One end alone is written as it always was.
func (s *scribe) writeSheet(b *pebble.Batch, account string, process [processBytes]byte, sh *sheet) error {
	defer sh.reset()
	switch len(sh.ends) {
	case 0:
		return nil
	case 1:
		return s.write(b, account, sh.ends[0])
	}
	number := sh.ends[len(sh.ends)-1].Number
	s.k = appendKeyNumber(s.k[:0], tableLedger, account, number)
	s.v = sh.appendTo(s.v[:0])
	if err := b.Set(s.k, s.v, nil); err != nil {
		return err
	}
	s.k = appendSheetKey(s.k[:0], account, process, sh.first)
	s.v = appendUint64(appendUint64(s.v[:0], number), sh.last)
	return b.Set(s.k, s.v, nil)
}

// onSheet finds the end of a single on the sheets that may have it, whatever process made them: those whose first name is not
// after it, and less than sheetSpan before.
func onSheet(r pebble.Reader, account, cause string) (Entry, error) {
	process, n, ok := splitName(strings.TrimPrefix(cause, singleCause))
	if !ok {
		return Entry{}, ErrNotFound
	}
	least := uint64(0)
	if n >= sheetSpan {
		least = n - sheetSpan + 1
	}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: appendSheetKey(nil, account, process, least), UpperBound: appendSheetKey(nil, account, process, n+1)})
	if err != nil {
		return Entry{}, err
	}
	e, err := findOnSheets(r, it, account, cause, n)
	return e, errors.Join(err, it.Close())
}

func findOnSheets(r pebble.Reader, it *pebble.Iterator, account, cause string, n uint64) (Entry, error) {
	for ok := it.First(); ok; ok = it.Next() {
		v := it.Value()
		if len(v) != 16 {
			return Entry{}, errRecordForm
		}
		if binary.BigEndian.Uint64(v[8:]) < n {
			continue
		}
		v, err := get(r, keyNumber(tableLedger, account, binary.BigEndian.Uint64(v)))
		if err != nil {
			return Entry{}, err
		}
		if len(v) == 0 || v[0] != sheetForm {
			return Entry{}, errRecordForm
		}
		ends, err := readSheet(v[1:])
		if err != nil {
			return Entry{}, err
		}
		for i := range ends {
			if ends[i].Cause == cause {
				return ends[i].Entry, nil
			}
		}
	}
	return Entry{}, errors.Join(ErrNotFound, it.Error())
}

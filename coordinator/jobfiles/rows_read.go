package jobfiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync/atomic"
)

// LogEnd is where a rows log ends, and the damage before that.
type LogEnd struct {
	At      int64  // offset of the next group
	Damaged int    // groups that were durable and cannot be read any more; their rows count as not answered
	Sum     uint64 // checksum of the last group; it covers that of the group before, and so the whole log

	number uint64 // of the last group
	last   int64  // its offset
}

// EndsIn reports whether a log begins with the groups before the end: whether its checksum is that of the last one.
func (e LogEnd) EndsIn(f io.ReaderAt) (bool, error) {
	if e.number == 0 {
		return true, nil
	}
	r := rowsReader{f: f, buf: make([]byte, groupHeaderBytes)}
	ok, err := r.group(e.last)
	return ok && r.g.sum == e.Sum, err
}

// ReadRows calls visit with each whole group of a rows log in the order in which they were written.
//
// The log ends at the first group that a crash left incomplete; bytes after that are not read. A group that cannot be
// read is damage if a later group says that it was durable: it is counted and skipped.
func ReadRows(f io.ReaderAt, visit func(*Group) error) (LogEnd, error) {
	return ReadRowsFrom(f, LogEnd{}, visit)
}

// ReadRowsFrom is ReadRows from where an earlier reading ended. If visit returns an error, the end is before its group.
func ReadRowsFrom(f io.ReaderAt, end LogEnd, visit func(*Group) error) (LogEnd, error) {
	r := rowsReader{f: f, buf: make([]byte, groupHeaderBytes)}
	for {
		ok, err := r.group(end.At)
		if err != nil {
			return end, err
		}
		if !ok || r.g.number != end.number+1 || r.g.previous != end.Sum {
			ok, err = r.findNext(end)
			if err != nil || !ok {
				return end, err
			}
		}
		if err := visit(&r.g); err != nil {
			return end, err
		}
		end.Damaged += int(r.g.number - end.number - 1)
		end.At, end.last = r.g.At+int64(len(r.g.bytes)), r.g.At
		end.number, end.Sum = r.g.number, r.g.sum
	}
}

// ReadGroup reads the group at an offset of the log.
func ReadGroup(f io.ReaderAt, at int64, visit func(*Group) error) error {
	r := rowsReader{f: f, buf: make([]byte, groupHeaderBytes)}
	ok, err := r.group(at)
	if err == nil && !ok {
		err = fmt.Errorf("rows log: group at %d: %w", at, ErrDamaged)
	}
	if err != nil {
		return err
	}
	return visit(&r.g)
}

// ReadAnswer reads the answer at an offset of the log, that of Group.AnswerAt, and its row. Its group was read before.
func ReadAnswer(f io.ReaderAt, at int64) (row uint32, rec Record, err error) {
	var b [entryBytes]byte
	if err := ReadFull(f, b[:], at); err != nil {
		return 0, rec, fmt.Errorf("rows log: answer at %d: %w", at, err)
	}
	return binary.LittleEndian.Uint32(b[:]), Record(b[4:]), nil
}

type rowsReader struct {
	f   io.ReaderAt
	buf []byte
	g   Group
}

// group reads the group at an offset. It returns false if there is no whole group.
func (r *rowsReader) group(at int64) (bool, error) {
	r.buf = r.buf[:groupHeaderBytes]
	if whole, err := r.readFull(r.buf, at); err != nil || !whole {
		return false, err
	}
	n := groupLength(r.buf)
	if n == 0 {
		return false, nil
	}
	if cap(r.buf) < n {
		r.buf = append(make([]byte, 0, n+n/4), r.buf...)
	}
	r.buf = r.buf[:n]
	if whole, err := r.readFull(r.buf[groupHeaderBytes:], at+groupHeaderBytes); err != nil || !whole {
		return false, err
	}
	return r.g.read(r.buf, at), nil
}

// readFull fills b; it returns false if the file ends before.
func (r *rowsReader) readFull(b []byte, at int64) (bool, error) {
	n, err := r.f.ReadAt(b, at)
	if n == len(b) {
		return true, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return false, nil
	}
	return false, fmt.Errorf("rows log: %d bytes at %d: %w", len(b), at, err)
}

const searchBytes = 64 << 10 // bytes of the log searched at a time

// findNext searches for the next group which says that the group after end was durable. If there is none, the log ends
// at end, unless a newer program wrote it.
func (r *rowsReader) findNext(end LogEnd) (bool, error) {
	n, err := r.f.ReadAt(r.buf[:1], end.At)
	if n == 0 && errors.Is(err, io.EOF) && end.At > 0 {
		return false, nil // the log is whole, as nearly all are
	}
	buf := make([]byte, searchBytes+groupHeaderBytes)
	for base := end.At; ; base += searchBytes {
		n, err := r.f.ReadAt(buf, base)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("rows log: %w", err)
		}
		for at := 0; at < min(n, searchBytes); at += Align {
			found := bytes.Index(buf[at:n], []byte(groupMagic))
			if found < 0 {
				break
			}
			at += found &^ (Align - 1)
			if found%Align != 0 {
				continue
			}
			ok, err := r.group(base + int64(at))
			if err != nil || ok && r.g.number > end.number+1 && r.g.durable > end.number {
				return ok && err == nil, err
			}
		}
		if n < len(buf) {
			break
		}
	}
	if end.At > 0 {
		return false, nil
	}
	head := make([]byte, len(groupMagic))
	if whole, err := r.readFull(head, 0); err != nil || !whole {
		return false, err
	}
	if err := checkMagic("the rows log", head, groupMagic); errors.Is(err, ErrVersion) {
		return false, err
	}
	return false, nil
}

const nameReadBytes = 512 // bytes of the first read of a name; longer names take two reads

// AppendName appends a name of the log, by its global reference, to dst.
func AppendName(dst []byte, f io.ReaderAt, ref uint32) ([]byte, error) {
	if ref == 0 {
		return dst, nil
	}
	at, start := int64(ref)*Align, len(dst)
	dst = slices.Grow(dst, nameReadBytes)
	b := dst[start : start+nameReadBytes]
	got, err := f.ReadAt(b, at)
	n, used := binary.Uvarint(b[:got])
	if used <= 0 || n > maxNameBytes {
		return dst, errors.Join(Ignore(err, io.EOF), fmt.Errorf("rows log: no name at %d: %w", at, ErrDamaged))
	}
	if used+int(n) <= got {
		return append(dst, b[used:used+int(n)]...), nil
	}
	dst = slices.Grow(dst, int(n))[:start+int(n)]
	if err := ReadFull(f, dst[start:], at+int64(used)); err != nil {
		return dst, fmt.Errorf("rows log: no name at %d: %w", at, err)
	}
	return dst, nil
}

// RowSet is a set of rows for concurrent use.
type RowSet []atomic.Uint64

// NewRowSet makes an empty set of rows below n.
func NewRowSet(n int64) RowSet { return make(RowSet, (n+63)/64) }

// Has reports whether the set has i.
func (s RowSet) Has(i uint32) bool { return s[i/64].Load()&(1<<(i%64)) != 0 }

// Add adds i and reports whether it was new.
func (s RowSet) Add(i uint32) bool {
	bit := uint64(1) << (i % 64)
	return s[i/64].Or(bit)&bit == 0
}

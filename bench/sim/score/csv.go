package score

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxRecord bounds one CSV record, in bytes.
const maxRecord = 8 << 20

// errRecordTooLong means that a record exceeds maxRecord: most likely a quote
// was never closed.
var errRecordTooLong = errors.New("record over 8 MiB: is a quote left open?")

// records reads CSV records without changing them: comma, a quote opens only at
// a field's start, LF or CRLF. It keeps the raw bytes, so that a copy is exact.
type records struct {
	in   *bufio.Reader
	line int
	// raw is the record with its line end; cells are its fields, unquoted. Both
	// are valid until the next call.
	raw   []byte
	cells [][]byte
}

// openRecords reads CSV from in, plain or compressed with gzip or zstd.
func openRecords(in io.Reader) (*records, error) {
	buffered := bufio.NewReaderSize(in, 1<<18)
	head, err := buffered.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		plain, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		buffered = bufio.NewReaderSize(plain, 1<<18)
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		plain, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		buffered = bufio.NewReaderSize(plain.IOReadCloser(), 1<<18)
	}
	return &records{in: buffered}, nil
}

// next reads one record; io.EOF after the last.
func (r *records) next() error {
	r.raw = r.raw[:0]
	open := false
	for {
		part, err := r.in.ReadSlice('\n')
		r.raw = append(r.raw, part...)
		if len(r.raw) > maxRecord {
			return fmt.Errorf("line %d: %w", r.line+1, errRecordTooLong)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if err != nil && (err != io.EOF || len(r.raw) == 0) {
			return err
		}
		r.line++
		if bytes.IndexByte(r.raw, '"') < 0 {
			r.splitPlain()
			return nil
		}
		open = r.splitQuoted()
		if !open || err == io.EOF {
			return nil
		}
	}
}

// body is the record without its line end.
func (r *records) body() []byte {
	return bytes.TrimSuffix(bytes.TrimSuffix(r.raw, []byte("\n")), []byte("\r"))
}

func (r *records) splitPlain() {
	r.cells = r.cells[:0]
	rest := r.body()
	for {
		i := bytes.IndexByte(rest, ',')
		if i < 0 {
			r.cells = append(r.cells, rest)
			return
		}
		r.cells = append(r.cells, rest[:i])
		rest = rest[i+1:]
	}
}

// splitQuoted splits a record with quotes, and reports whether one is still open.
func (r *records) splitQuoted() (open bool) {
	r.cells = r.cells[:0]
	rest := r.body()
	for {
		cell, after, closed := cutCell(rest)
		if !closed {
			return true
		}
		r.cells = append(r.cells, cell)
		if len(after) == 0 {
			return false
		}
		rest = after[1:]
	}
}

// cutCell cuts off one cell; after begins with the comma that follows it.
func cutCell(rest []byte) (cell, after []byte, closed bool) {
	if len(rest) == 0 || rest[0] != '"' {
		if i := bytes.IndexByte(rest, ','); i >= 0 {
			return rest[:i], rest[i:], true
		}
		return rest, nil, true
	}
	var plain []byte
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] != '"':
			plain = append(plain, rest[i])
		case i+1 < len(rest) && rest[i+1] == '"':
			plain = append(plain, '"')
			i++
		default:
			tail, after := cutBare(rest[i+1:])
			return append(plain, tail...), after, true
		}
	}
	return nil, nil, false
}

// cutBare cuts off the bytes between a closing quote and the next comma.
func cutBare(rest []byte) (tail, after []byte) {
	if i := bytes.IndexByte(rest, ','); i >= 0 {
		return rest[:i], rest[i:]
	}
	return rest, nil
}

// find returns the index of the last column of that name; -1 if there is none.
func (r *records) find(name string) int {
	for i := len(r.cells) - 1; i >= 0; i-- {
		if string(bytes.TrimPrefix(r.cells[i], []byte("\ufeff"))) == name {
			return i
		}
	}
	return -1
}

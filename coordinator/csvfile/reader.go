package csvfile

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// Options describe the file, as its sender says. The zero value is a file with a header and a column named email.
type Options struct {
	Column    string // header name, or 1-based number, of the e-mail column; empty: email
	Index     int    // 1-based number of the e-mail column; 0: Column names it
	NoHeader  bool   // the first line is a row
	Delimiter byte   // one of Delimiters; 0: the first that yields the e-mail column
	AnyColumn bool   // accept a column in which almost no cell looks like an address
	Limits    Limits
}

// Limits are the bounds that differ between installations. Zero means the default.
type Limits struct {
	Addresses int64 // non-blank e-mail cells: 5,000,000
	Bytes     int64 // of the unpacked file: 8 GiB
}

// Reader reads a file once, block by block, in flat memory.
type Reader struct {
	src      io.Reader
	closeSrc func()
	limits   Limits
	dialect  Dialect
	preamble []byte // bytes before the first row (byte order mark, sep line, header) as sent; UTF-16 as UTF-8
	pending  []byte // read and not yet emitted
	eof      bool
	utf16    bool // the source was UTF-16
	valid    bool // all bytes so far are UTF-8
	rows     int64
	emails   int64
	line     int64
	check    *columnCheck // nil with AnyColumn
	json     *jsonLines   // nil for CSV
}

// NewReader starts to read a file: it detects compression, encoding and delimiter, and reads the header.
// An error that is not an *Error is one of src.
func NewReader(src io.Reader, o Options) (*Reader, error) {
	unpacked, closeSrc, err := unpack(bufio.NewReaderSize(src, 64<<10))
	if err != nil {
		return nil, err
	}
	limits := Limits{Addresses: cmp.Or(o.Limits.Addresses, MaxAddresses), Bytes: cmp.Or(o.Limits.Bytes, 8<<30)}
	r := &Reader{closeSrc: closeSrc, limits: limits, valid: true, line: 1}
	if !o.AnyColumn {
		r.check = &columnCheck{}
	}
	raw := bufio.NewReaderSize(&limitReader{r: unpacked, left: limits.Bytes, max: limits.Bytes}, 64<<10)
	r.src = raw
	start, err := raw.Peek(longestStart)
	if err == nil || errors.Is(err, io.EOF) {
		err = checkForeign(start)
	}
	if err == nil {
		if bytes.HasPrefix(start, []byte{0xff, 0xfe}) || bytes.HasPrefix(start, []byte{0xfe, 0xff}) {
			r.utf16 = true
			r.src = transform.NewReader(raw, unicode.UTF16(unicode.BigEndian, unicode.ExpectBOM).NewDecoder())
		}
		err = r.readPreamble(o)
	}
	if err != nil {
		closeSrc()
		return nil, err
	}
	return r, nil
}

// Close frees the decompressor. It does not close the source.
func (r *Reader) Close() { r.closeSrc() }

// Preamble returns the bytes before the first row, in the encoding of Dialect. That of JSON lines is final only after
// Next returned io.EOF.
func (r *Reader) Preamble() []byte {
	if r.json != nil {
		return r.json.header()
	}
	return r.preamble
}

// Dialect returns the dialect of the file; Header, Widest and Encoding are final only after Next returned io.EOF.
func (r *Reader) Dialect() Dialect {
	d := r.dialect
	if r.json != nil {
		names := r.json.names
		d.HasHeader, d.Name = true, names[d.Column]
		d.Header, d.Widest = len(names), len(names)
	}
	switch {
	case r.utf16:
		d.Encoding = UTF16
	case r.valid:
		d.Encoding = UTF8
	default:
		d.Encoding = Windows1252
		if d.CR {
			d.Encoding = Macintosh
		}
		d.Name = string(d.AppendUTF8(nil, []byte(d.Name)))
	}
	return d
}

// Next fills b with the next rows; after the last it returns io.EOF. b.Buf holds the bytes as sent (UTF-16 as UTF-8).
func (r *Reader) Next(b *Block) error {
	if err := r.fill(BlockBytes); err != nil {
		return err
	}
	n := 0 // bytes of the whole rows that are pending
	for n == 0 {
		var err error
		b.Buf = append(b.Buf[:0], r.pending...)
		b.Rows, b.First, b.Line = b.Rows[:0], uint32(r.rows), r.line
		n, err = r.dialect.scan(b, r.eof)
		switch {
		case err != nil:
			return err
		case n > 0:
		case r.eof && r.rows == 0:
			return refuse(Unacceptable, 0, "the file has no rows below its header; send a line for each address, or use has_header=false if its first line is one")
		case r.eof:
			return io.EOF
		case len(r.pending) >= MaxRow:
			return refuse(Unacceptable, r.line, "this row is longer than %d MiB; send a CSV file with line ends",
				MaxRow>>20)
		default:
			if err := r.fill(min(2*len(r.pending), MaxRow)); err != nil {
				return err
			}
		}
	}
	b.Buf = b.Buf[:n]
	r.pending = r.pending[:copy(r.pending, r.pending[n:])]
	r.valid = r.valid && utf8.Valid(b.Buf)
	r.rows += int64(len(b.Rows))
	r.line += r.dialect.countLines(b.Buf)
	for i := range b.Rows {
		if !b.Rows[i].Blank {
			r.emails++
		}
	}
	if r.emails > r.limits.Addresses {
		return refuse(TooLarge, 0, "the file has more than %d addresses; send it in parts", r.limits.Addresses)
	}
	if r.rows > MaxRows {
		return refuse(TooLarge, 0, "the file has more than %d rows; send it in parts", MaxRows)
	}
	if r.check != nil {
		r.check.add(b)
		if r.check.isComplete() || r.eof && len(r.pending) == 0 {
			err := r.check.verdict(r.Dialect())
			r.check = nil
			return err
		}
	}
	return nil
}

// fill reads until n bytes are pending or the source ends.
func (r *Reader) fill(n int) error {
	if cap(r.pending) < n {
		r.pending = append(make([]byte, 0, n), r.pending...)
	}
	for !r.eof && len(r.pending) < n {
		m, err := r.src.Read(r.pending[len(r.pending):n])
		r.pending = r.pending[:len(r.pending)+m]
		if errors.Is(err, io.EOF) {
			r.eof = true
		} else if err != nil {
			return err
		}
	}
	return nil
}

// IsOneByte reports whether each byte of the file is one character, so that AppendUTF8 has to convert it.
func (d *Dialect) IsOneByte() bool { return d.Encoding == Windows1252 || d.Encoding == Macintosh }

// AppendUTF8 appends text of the dialect's encoding as UTF-8. UTF-8 text, and UTF-16, which was converted by the
// Reader, is copied.
func (d *Dialect) AppendUTF8(dst, text []byte) []byte {
	if !d.IsOneByte() {
		return append(dst, text...)
	}
	characters := charmap.Windows1252
	if d.Encoding == Macintosh {
		characters = charmap.Macintosh
	}
	for _, c := range text {
		if c < utf8.RuneSelf {
			dst = append(dst, c)
		} else {
			dst = utf8.AppendRune(dst, characters.DecodeByte(c))
		}
	}
	return dst
}

package csvfile

import (
	"bytes"
	"math"
)

// Parse finds the rows of a block that holds whole rows of this dialect, as Reader.Next returned it. It does not change
// the dialect, which goroutines may share.
func (d *Dialect) Parse(b *Block) error {
	b.Rows = b.Rows[:0]
	own := *d
	consumed, err := own.scan(b, atEnd)
	if err != nil {
		return err
	}
	if consumed != len(b.Buf) {
		return refuse(Unacceptable, b.Line, "a stored block holds more than %d rows", MaxBlockRows)
	}
	return nil
}

// atEnd is for text after which none comes: its last row needs no line end.
const atEnd = true

// scan appends the whole rows of b.Buf to b.Rows and returns their length in bytes. If final, the last row needs no
// line end. Plain rows cost three vectorised searches; a row with a quote anywhere is read cell by cell.
func (d *Dialect) scan(b *Block, final bool) (int, error) {
	buf, pos := b.Buf, 0
	newline := d.newline()
	quote := indexFrom(buf, 0, '"')
	for pos < len(buf) && len(b.Rows) < MaxBlockRows {
		if quote < pos {
			quote = indexFrom(buf, pos, '"')
		}
		end := indexFrom(buf, pos, newline)
		var row Row
		next := end + 1
		switch {
		case quote < end:
			s := rowScan{d: d, buf: buf, final: final}
			done, err := s.row(pos)
			if err != nil {
				err.Line += b.Line + d.countLines(buf[:pos])
				return pos, err
			}
			if !done {
				return pos, nil
			}
			row, next = s.result, s.next
		case end == len(buf) && !final:
			return pos, nil
		default:
			row = d.plainRow(buf, pos, end)
		}
		if err := d.checkRow(b, &row); err != nil {
			return pos, err
		}
		b.Rows = append(b.Rows, row)
		pos = min(next, len(buf))
	}
	return pos, nil
}

// indexFrom is the index of c in buf at or after pos, len(buf) if there is none.
func indexFrom(buf []byte, pos int, c byte) int {
	if i := bytes.IndexByte(buf[pos:], c); i >= 0 {
		return pos + i
	}
	return len(buf)
}

// plainRow is the row buf[pos:end], which holds no quote.
func (d *Dialect) plainRow(buf []byte, pos, end int) Row {
	r := Row{Start: uint32(pos)}
	end = d.endLine(&r, buf, pos, end)
	line := buf[pos:end]
	r.Cells = uint16(min(bytes.Count(line, []byte{d.Delimiter})+1, math.MaxUint16)) // so many are refused anyway
	r.EmailStart, r.EmailEnd = r.End, r.End                                         // if it is too short
	from := 0
	for range d.Column {
		i := bytes.IndexByte(line[from:], d.Delimiter)
		if i < 0 {
			return r
		}
		from += i + 1
	}
	r.EmailStart = uint32(pos + from)
	r.EmailEnd = uint32(pos + indexFrom(line, from, d.Delimiter))
	return r
}

// endLine sets the row's end, whose line ends at end, and returns it. The unquoted text before it begins at text.
func (d *Dialect) endLine(r *Row, buf []byte, text, end int) int {
	switch {
	case end == len(buf):
		r.lineEnd = endNone
	case d.CR:
		r.lineEnd = endCR
	default:
		r.lineEnd = endLF
	}
	if !d.CR && end > text && buf[end-1] == '\r' {
		end--
		if r.lineEnd == endLF {
			r.lineEnd = endCRLF
		}
	}
	r.End = uint32(end)
	return end
}

// checkRow refuses a row that exceeds a bound, and sets Widest and the row's Blank.
func (d *Dialect) checkRow(b *Block, r *Row) error {
	line := func() int64 { return b.Line + d.countLines(b.Buf[:r.Start]) }
	if d.Header > 0 && int(r.Cells) > d.Header+MaxExtraCells {
		return refuse(Unacceptable, line(), "this row has %d cells and the first has %d: at most %d more are accepted; "+
			"quote cells that contain the delimiter %q", r.Cells, d.Header, MaxExtraCells, d.Delimiter)
	}
	if r.End-r.Start > MaxField && d.longField(b.Buf[r.Start:r.End]) {
		return refuse(Unacceptable, line(), "a cell of this row is longer than %d KiB; shorten it or close its quote",
			MaxField>>10)
	}
	d.Widest = max(d.Widest, int(r.Cells))
	r.Blank = blank(b.Buf[r.EmailStart:r.EmailEnd], r.Quoted)
	return nil
}

// longField reports whether line is a plain cell over the bound; quoted cells are checked while they are read.
func (d *Dialect) longField(line []byte) bool {
	if bytes.IndexByte(line, '"') >= 0 {
		return false
	}
	for len(line) > MaxField {
		i := bytes.IndexByte(line, d.Delimiter)
		if i < 0 || i > MaxField {
			return true
		}
		line = line[i+1:]
	}
	return false
}

// rowScan reads one row cell by cell.
type rowScan struct {
	d      *Dialect
	buf    []byte
	final  bool
	result Row
	next   int
	visit  func(start, end int, quoted bool) // called with every cell, when not nil
}

// row reads the row at pos; false if the buffer ends before the row and more may follow. An error's Line counts from
// the row's own line.
func (s *rowScan) row(pos int) (bool, *Error) {
	s.result = Row{Start: uint32(pos)}
	newline := s.d.newline()
	for cells := 1; ; cells++ {
		start, quoted := pos, pos < len(s.buf) && s.buf[pos] == '"'
		if quoted {
			closed := s.closingQuote(pos + 1)
			if closed < 0 && (s.final || len(s.buf)-start > MaxField) {
				return false, refuse(Unacceptable, s.linesBefore(start),
					"unclosed quote (no end within %d KiB): close it, or write \"\" for a quote inside a cell",
					MaxField>>10)
			} else if closed < 0 {
				return false, nil
			}
			pos = closed
		}
		body := pos
		for pos < len(s.buf) && s.buf[pos] != s.d.Delimiter && s.buf[pos] != newline {
			pos++
		}
		if pos-start > MaxField {
			return false, refuse(Unacceptable, s.linesBefore(start),
				"a cell that begins here is longer than %d KiB; shorten it or close its quote", MaxField>>10)
		}
		if pos == len(s.buf) && !s.final {
			return false, nil
		}
		atEnd := pos == len(s.buf) || s.buf[pos] == newline
		cellEnd := pos
		if atEnd {
			s.next = pos + 1
			cellEnd = s.d.endLine(&s.result, s.buf, body, pos)
		}
		if s.visit != nil {
			s.visit(start, cellEnd, quoted)
		}
		if cells-1 == s.d.Column {
			s.result.EmailStart, s.result.EmailEnd, s.result.Quoted = uint32(start), uint32(cellEnd), quoted
		}
		if atEnd {
			s.result.Cells = uint16(min(cells, math.MaxUint16))
			if cells <= s.d.Column {
				s.result.EmailStart, s.result.EmailEnd = s.result.End, s.result.End
			}
			return true, nil
		}
		pos++
	}
}

// closingQuote is the index after the closing quote of a cell whose text begins at pos, -1 if it is not in the buffer.
func (s *rowScan) closingQuote(pos int) int {
	for {
		i := bytes.IndexByte(s.buf[pos:], '"')
		if i < 0 {
			return -1
		}
		pos += i + 1
		if pos == len(s.buf) && !s.final {
			return -1 // the next byte may double this quote
		}
		if pos == len(s.buf) || s.buf[pos] != '"' {
			return pos
		}
		pos++
	}
}

// linesBefore counts the line ends between the row's start and pos.
func (s *rowScan) linesBefore(pos int) int64 {
	return s.d.countLines(s.buf[s.result.Start:pos])
}

package csvfile

import (
	"slices"
	"strconv"
	"strings"
)

// AppendRow appends row i as UTF-8: its own cells unchanged, padded to the widest row, then ours, then its own line
// end. The block's bytes must be UTF-8: see AppendUTF8.
func (d *Dialect) AppendRow(dst []byte, b *Block, i int, ours []string) []byte {
	dst = d.AppendInputCells(dst, b, i)
	for _, cell := range ours {
		dst = append(dst, d.Delimiter)
		dst = d.AppendCell(dst, cell)
	}
	return d.AppendLineEnd(dst, b, i)
}

// AppendInputCells appends the first part of AppendRow: row i's own cells, padded.
func (d *Dialect) AppendInputCells(dst []byte, b *Block, i int) []byte {
	r := &b.Rows[i]
	dst = append(dst, b.Buf[r.Start:r.End]...)
	for range d.Widest - int(r.Cells) {
		dst = append(dst, d.Delimiter)
	}
	return dst
}

// AppendLineEnd appends the last part of AppendRow: row i's line end.
func (d *Dialect) AppendLineEnd(dst []byte, b *Block, i int) []byte {
	switch end := b.Rows[i].lineEnd; {
	case d.CR:
		return append(dst, '\r')
	case end == endCRLF || end == endNone && d.CRLF:
		return append(dst, '\r', '\n')
	}
	return append(dst, '\n')
}

// AppendPreamble appends the preamble, with the names of our columns at the end of the header. A name that the file
// already has becomes name_2, or the next free number.
func (d *Dialect) AppendPreamble(dst, preamble []byte, names []string) []byte {
	if !d.HasHeader {
		return append(dst, preamble...)
	}
	dst = append(dst, preamble[:d.HeaderAt]...)
	text, header := d.headerOf(preamble)
	ours := make([]string, len(names))
	for i, name := range names {
		ours[i] = freeName(header.cells, name)
	}
	return d.AppendRow(dst, &Block{Buf: text, Rows: []Row{header.row}}, 0, ours)
}

// headerOf returns the header in UTF-8, and as a record.
func (d *Dialect) headerOf(preamble []byte) ([]byte, record) {
	text := d.AppendUTF8(nil, preamble[d.HeaderAt:])
	rec, _, err := d.readRecord(text, atEnd)
	if err != nil {
		panic("BUG: a header that was accepted cannot be read again: " + err.Error())
	}
	return text, rec
}

func freeName(taken []string, name string) string {
	candidate := name
	for n := 2; slices.Contains(taken, candidate); n++ {
		candidate = name + "_" + strconv.Itoa(n)
	}
	return candidate
}

// AppendCell appends a cell of ours: guarded against being read as a formula, and quoted if necessary.
func (d *Dialect) AppendCell(dst []byte, cell string) []byte {
	if cell == "" {
		return dst
	}
	quoted := strings.IndexByte(cell, d.Delimiter) >= 0 || strings.ContainsAny(cell, "\"\r\n")
	if quoted {
		dst = append(dst, '"')
	}
	if strings.IndexByte("=+-@\t\r", cell[0]) >= 0 {
		dst = append(dst, '\'')
	}
	if !quoted {
		return append(dst, cell...)
	}
	for i := range len(cell) {
		if cell[i] == '"' {
			dst = append(dst, '"')
		}
		dst = append(dst, cell[i])
	}
	return append(dst, '"')
}

// ColumnNames gives each column of the widest row a unique name, for formats in which a column needs one. It is the
// header's cell, with _2 or the next free number if the name occurred before; a column without a header cell is named
// by its 1-based index.
func (d *Dialect) ColumnNames(preamble []byte) []string {
	var header []string
	if d.HasHeader {
		_, rec := d.headerOf(preamble)
		header = rec.cells
	}
	taken := slices.Clone(header) // so that no name_2 of ours equals a header cell
	names := make([]string, d.Widest)
	for i := range names {
		switch {
		case i >= len(header) || header[i] == "":
			names[i] = freeName(taken, strconv.Itoa(i+1))
		case slices.Contains(header[:i], header[i]):
			names[i] = freeName(taken, header[i])
		default:
			names[i] = header[i]
		}
		taken = append(taken, names[i])
	}
	return names
}

// EachCell calls visit with the unquoted text of each cell of row i. The text is valid until visit returns.
func (d *Dialect) EachCell(b *Block, i int, visit func(text []byte)) {
	s := rowScan{d: d, buf: b.Buf, final: true}
	s.visit = func(start, end int, quoted bool) {
		text := b.Buf[start:end]
		if quoted {
			b.unquoted = appendUnquoted(b.unquoted[:0], text)
			text = b.unquoted
		}
		visit(text)
	}
	if _, err := s.row(int(b.Rows[i].Start)); err != nil {
		panic("BUG: a row that was accepted cannot be read again: " + err.Error())
	}
}

package csvfile

import (
	"slices"
	"strconv"
)

// ColumnNames gives each column of the widest row a unique name, for formats in which a column needs one. It is the header's cell,
// with _2 or the next free number if the name occurred before; a column without a header cell is named by its 1-based index.
func (d *Dialect) ColumnNames(preamble []byte) []string {
	var header []string
	if d.HasHeader {
		_, header = d.headerOf(preamble)
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

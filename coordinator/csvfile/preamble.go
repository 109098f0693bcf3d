package csvfile

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"probity/engine"
)

// Delimiters are the characters that can part cells, in the order in which they are tried.
const Delimiters = ",;\t|"

// BOM is the byte order mark of a file in UTF-8.
const BOM = "\xef\xbb\xbf"

// readPreamble detects the dialect from the first record and moves the header from the pending bytes to the preamble.
func (r *Reader) readPreamble(o Options) error {
	if err := r.fill(BlockBytes); err != nil {
		return err
	}
	if bytes.HasPrefix(r.pending, []byte(BOM)) {
		r.takePreamble(len(BOM))
	}
	if isJSON, _ := beginsJSON(r.pending); isJSON && o.Delimiter == 0 {
		return r.readJSONLines(o)
	}
	r.dialect.CR = endsWithCR(r.pending)
	candidates := Delimiters
	// Spreadsheets write a leading line sep=; with the delimiter.
	line := r.pending[:indexFrom(r.pending, 0, r.dialect.newline())]
	sep := bytes.TrimSuffix(line, []byte{'\r'})
	if len(sep) == 5 && strings.EqualFold(string(sep[:4]), "sep=") && strings.IndexByte(Delimiters, sep[4]) >= 0 {
		candidates = string(sep[4:])
		r.takePreamble(min(len(line)+1, len(r.pending)))
	}
	if o.Delimiter != 0 {
		candidates = string(o.Delimiter)
	}
	if len(r.pending) == 0 {
		return refuse(Unacceptable, 0, "the file is empty; send a header line with a column named email, and a line for each address")
	}
	rec, err := r.detectDialect(o, candidates)
	if err != nil {
		return err
	}
	d := &r.dialect
	if len(rec.cells) > MaxColumns {
		return refuse(TooLarge, r.line, "the file has %d columns; at most %d are accepted", len(rec.cells), MaxColumns)
	}
	if !o.NoHeader && isAddress(rec.cells[d.Column]) {
		return refuse(Unacceptable, r.line, "the header of the e-mail column is itself an address: if the file has no header line, say so with has_header=false")
	}
	d.HasHeader, d.Header, d.Widest = !o.NoHeader, len(rec.cells), len(rec.cells)
	d.CRLF = bytes.HasSuffix(r.pending[:rec.next], []byte("\r\n"))
	if d.HasHeader {
		d.Name, d.HeaderAt = rec.cells[d.Column], len(r.preamble)
		r.takePreamble(rec.next)
	}
	return nil
}

// takePreamble moves n pending bytes to the preamble.
func (r *Reader) takePreamble(n int) {
	part := r.pending[:n]
	r.valid = r.valid && utf8.Valid(part)
	r.line += r.dialect.countLines(part)
	r.preamble = append(r.preamble, part...)
	r.pending = r.pending[:copy(r.pending, r.pending[n:])]
}

// record is the first record of the file, read with one delimiter.
type record struct {
	delimiter byte
	cells     []string
	row       Row
	next      int // where the one after it begins
}

// detectDialect sets the delimiter and the column: the first delimiter that yields the e-mail column.
func (r *Reader) detectDialect(o Options, candidates string) (record, error) {
	var seen []record
	for _, delimiter := range []byte(candidates) {
		rec, err := r.firstRecord(delimiter)
		if err != nil {
			return rec, err
		}
		seen = append(seen, rec)
	}
	// a column by number exists with every delimiter: prefer one that splits the line
	for _, minCells := range []int{2, 1} {
		for _, rec := range seen {
			if col, ok := findColumn(rec.cells, o, minCells); ok {
				r.dialect.Delimiter, r.dialect.Column = rec.delimiter, col
				return rec, nil
			}
		}
	}
	return record{}, noColumn(seen, o)
}

// firstRecord reads the first record with a delimiter. It reads more of the source until the record is whole.
func (r *Reader) firstRecord(delimiter byte) (record, error) {
	for {
		rec, done, err := (&Dialect{Delimiter: delimiter, CR: r.dialect.CR}).readRecord(r.pending, r.eof)
		if err != nil {
			if bytes.IndexByte(r.pending[:min(len(r.pending), MaxField)], 0) >= 0 {
				return rec, notText()
			}
			err.Line += r.line
			return rec, err
		}
		if done {
			return rec, nil
		}
		if len(r.pending) >= MaxRow {
			return rec, refuse(Unacceptable, r.line,
				"the first line is longer than %d MiB; send a CSV file with line ends", MaxRow>>20)
		}
		if err := r.fill(min(2*len(r.pending), MaxRow)); err != nil {
			return rec, err
		}
	}
}

// endsWithCR reports whether lines end with CR alone, as older programs of the Macintosh write them: the first line end
// outside of quotes is one, and no LF stands outside of quotes.
func endsWithCR(head []byte) bool {
	found, quoted := false, false
	for _, c := range head {
		switch {
		case c == '"':
			quoted = !quoted
		case c == '\n' && !quoted:
			return false
		case c == '\r' && !quoted:
			found = true
		}
	}
	return found
}

// readRecord reads the texts of the cells of the record at the start of buf.
func (d *Dialect) readRecord(buf []byte, final bool) (record, bool, *Error) {
	rec := record{delimiter: d.Delimiter}
	s := rowScan{d: &Dialect{Delimiter: d.Delimiter, CR: d.CR, Column: -1}, buf: buf, final: final}
	s.visit = func(start, end int, quoted bool) {
		cell := buf[start:end]
		if quoted {
			cell = appendUnquoted(nil, cell)
		}
		rec.cells = append(rec.cells, string(cell))
	}
	done, err := s.row(0)
	rec.row, rec.next = s.result, min(s.next, len(buf))
	return rec, done, err
}

// findColumn finds the e-mail column among the cells of the first record: that of Index, if it is set. A column by name
// is the cell with the exact name, else the leftmost that equals it without case and spaces; a column by number must be
// one of at least minCells.
func findColumn(cells []string, o Options, minCells int) (int, bool) {
	if o.Index > 0 {
		return o.Index - 1, o.Index <= len(cells)
	}
	if o.NoHeader && o.Column == "" {
		at := slices.IndexFunc(cells, isAddress)
		return at, at >= 0
	}
	name := cmp.Or(o.Column, "email")
	if !o.NoHeader {
		at := slices.Index(cells, name)
		if at < 0 {
			at = slices.IndexFunc(cells, func(c string) bool { return normalizeName(c) == normalizeName(name) })
		}
		if at >= 0 {
			return at, true
		}
	}
	n, err := strconv.Atoi(name)
	return n - 1, err == nil && n >= 1 && n <= len(cells) && len(cells) >= minCells
}

func isAddress(cell string) bool {
	_, err := engine.ParseTrimmed(cell)
	return err == nil
}

func normalizeName(s string) string {
	return strings.ToLower(strings.Join(strings.Fields(s), ""))
}

// isBinary reports whether r is a control character that no text has.
func isBinary(r rune) bool { return unicode.IsControl(r) && !unicode.IsSpace(r) }

func notText() *Error {
	return refuse(Unacceptable, 1, "the file does not look like text; send a CSV file in UTF-8, or UTF-16 with a byte order mark")
}

// noColumn is the error for a missing e-mail column. It lists the cells found with the delimiter that gives the most.
func noColumn(seen []record, o Options) error {
	best := slices.MaxFunc(seen, func(a, b record) int { return cmp.Compare(len(a.cells), len(b.cells)) })
	text := strings.Join(best.cells, "")
	switch {
	case strings.TrimSpace(text) == "":
		return refuse(Unacceptable, 1, "the first line is empty; begin the file with its header, or with its first row if it has none")
	case strings.ContainsFunc(text, isBinary):
		return notText()
	}
	if at := slices.IndexFunc(best.cells, isAddress); at >= 0 && !o.NoHeader {
		return refuse(Unacceptable, 1, "the first line has an address in column %[1]d, so it is not a header; if the file has none, use has_header=false and email_column=%[1]d", at+1)
	}
	found := showNames(best.cells)
	if n, err := strconv.Atoi(o.Column); err == nil {
		return refuse(Unacceptable, 1, "there is no email_column=%d; give a number from 1 to %d, or one of the names (delimiter %q): %s", n, len(best.cells), best.delimiter, found)
	}
	if o.NoHeader {
		return refuse(Unacceptable, 1, "no e-mail column in the first row, which has %s (delimiter %q); give its number as email_column", found, best.delimiter)
	}
	return refuse(Unacceptable, 1, "no column named %q; found %s (delimiter %q); name yours, or give its number, as email_column",
		cmp.Or(o.Column, "email"), found, best.delimiter)
}

// showNames lists the first names of columns.
func showNames(all []string) string {
	var names []string
	for i, name := range all {
		if i == 20 {
			names = append(names, "…")
			break
		}
		names = append(names, show(name))
	}
	return strings.Join(names, ", ")
}

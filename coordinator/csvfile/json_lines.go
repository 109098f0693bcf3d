package csvfile

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// jsonLines reads JSON lines, one object a line, as rows of CSV. Each member is a cell in the column of its name. A
// member that no earlier line had gets a column after those that are known, so that the header is complete at the end
// of the file only: rows before that are short.
type jsonLines struct {
	src     *bufio.Reader
	line    int64    // of the last line that was read
	long    []byte   // a line that is longer than the buffer of src
	names   []string // of the columns
	columns map[string]int
	nameLen int        // of the names together, as cells of the header
	cells   []jsonCell // of the row, by column
	row     int64      // number of the row
	out     []byte     // rows that are not read yet
	at      int        // where they begin
}

// jsonCell is the value of a member, as it is written.
type jsonCell struct {
	row   int64 // that it is of; the cells of other rows are empty
	value []byte
}

// beginsJSON reports whether text begins with an object, as JSON lines do and no usual header does, or with an array
// of objects.
func beginsJSON(text []byte) (begins, inArray bool) {
	text = bytes.TrimLeft(text, " \t\r\n")
	of := bytes.TrimLeft(bytes.TrimPrefix(text, []byte{'['}), " \t\r\n")
	begins = len(of) > 0 && of[0] == '{'
	return begins, begins && text[0] == '['
}

// readJSONLines reads the rest of the file as JSON lines, whose first line names the e-mail column.
func (r *Reader) readJSONLines(o Options) error {
	if _, inArray := beginsJSON(r.pending); inArray {
		return refuse(Unacceptable, 0, "the file is a JSON array; send JSON lines instead, one object a line and no "+
			"commas between them")
	}
	if o.NoHeader {
		return refuse(Unacceptable, 0, "the file has JSON lines, whose members have names: leave out has_header=false")
	}
	read := bytes.Clone(r.pending) // r.pending gets the rows
	src := r.src
	if r.eof {
		src = bytes.NewReader(nil)
	}
	j := &jsonLines{src: bufio.NewReaderSize(io.MultiReader(bytes.NewReader(read), src), 64<<10),
		columns: map[string]int{}}
	if err := j.readRow(); err != nil {
		return err
	}
	column, found := findColumn(j.names, o, 1)
	if !found {
		return refuse(Unacceptable, j.line, "no member named %q in the first object, which has %s; name yours as "+
			"email_column", cmp.Or(o.Column, "email"), showNames(j.names))
	}
	d := &r.dialect
	d.JSON, d.Delimiter, d.Column = true, ',', column
	r.json = j
	// the rows can be longer than the lines: a row is as wide as its last member's column
	r.src = &limitReader{r: j, left: r.limits.Bytes, max: r.limits.Bytes}
	r.pending = r.pending[:0]
	r.eof = false
	r.line = 1
	return nil
}

// header is the line of names, as CSV.
func (j *jsonLines) header() []byte {
	var line []byte
	for i, name := range j.names {
		if i > 0 {
			line = append(line, ',')
		}
		line = appendCSV(line, []byte(name))
	}
	return append(line, '\n')
}

// Read reads rows.
func (j *jsonLines) Read(p []byte) (int, error) {
	if j.at == len(j.out) {
		j.out, j.at = j.out[:0], 0
		if err := j.readRow(); err != nil {
			return 0, err
		}
	}
	n := copy(p, j.out[j.at:])
	j.at += n
	return n, nil
}

// readRow appends the row of the next line that is not empty to out.
func (j *jsonLines) readRow() error {
	object, err := j.readLine()
	for err == nil && len(object) == 0 {
		object, err = j.readLine()
	}
	if err != nil {
		return err
	}
	if object[0] != '{' || !json.Valid(object) {
		return j.refuseLine(object)
	}
	if !utf8.Valid(object) { // RFC 8259, section 8.1
		return refuse(Unacceptable, j.line, "this line is not in UTF-8, as JSON is; send the file in UTF-8")
	}
	j.row++
	width := 0
	err = eachMember(object, func(name, value []byte) error {
		at, err := j.column(name)
		if err != nil {
			return err
		}
		if j.cells[at].row == j.row {
			return refuse(Unacceptable, j.line, "the member %s is there twice; send each once", show(j.names[at]))
		}
		j.cells[at] = jsonCell{j.row, value}
		width = max(width, at+1)
		return nil
	})
	if err != nil {
		return err
	}
	return j.appendRow(width)
}

// appendRow appends the cells of the row, up to its last, to out.
func (j *jsonLines) appendRow(width int) error {
	rowStart := len(j.out)
	for i := range width {
		if i > 0 {
			j.out = append(j.out, ',')
		}
		if j.cells[i].row != j.row {
			continue
		}
		start := len(j.out)
		j.out = appendCSV(j.out, jsonText(j.cells[i].value))
		if len(j.out)-start > MaxField {
			return refuse(Unacceptable, j.line, "the member %s is longer than %d KiB; shorten it", show(j.names[i]),
				MaxField>>10)
		}
	}
	j.out = append(j.out, '\n')
	if len(j.out)-rowStart > MaxRow {
		return refuse(Unacceptable, j.line, "this line is longer than %d MiB; shorten it", MaxRow>>20)
	}
	return nil
}

// column returns the column of a member, and makes one for a new name.
func (j *jsonLines) column(name []byte) (int, error) {
	text := jsonText(name)
	at, known := j.columns[string(text)]
	if known {
		return at, nil
	}
	at = len(j.names)
	if at == MaxColumns {
		return 0, refuse(TooLarge, j.line, "the file has more than %d different members; at most %[1]d are accepted",
			MaxColumns)
	}
	named := len(appendCSV(nil, text))
	j.nameLen += named + 1
	if named > MaxField || j.nameLen > MaxRow {
		return 0, refuse(Unacceptable, j.line, "the names of members are too long, at most %d KiB each and %d MiB "+
			"together; shorten them", MaxField>>10, MaxRow>>20)
	}
	j.names = append(j.names, string(text))
	j.columns[j.names[at]] = at
	j.cells = append(j.cells, jsonCell{})
	return at, nil
}

// readLine returns the next line, without white space around it. It is valid until the next call.
func (j *jsonLines) readLine() ([]byte, error) {
	j.line++
	line, err := j.src.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		j.long = j.long[:0]
		for errors.Is(err, bufio.ErrBufferFull) && len(j.long) <= MaxRow {
			j.long = append(j.long, line...)
			line, err = j.src.ReadSlice('\n')
		}
		j.long = append(j.long, line...)
		line = j.long
	}
	if len(line) > MaxRow {
		return nil, refuse(Unacceptable, j.line, "this line is longer than %d MiB; send one object a line", MaxRow>>20)
	}
	if errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil // the next call finds the end again
	}
	return bytes.Trim(line, " \t\r\n"), err
}

// refuseLine is the refusal of a line that is not an object.
func (j *jsonLines) refuseLine(line []byte) error {
	var value json.RawMessage
	if err := json.Unmarshal(line, &value); err != nil {
		return refuse(Unacceptable, j.line, "this line is not JSON (%v); send one object a line", err)
	}
	return refuse(Unacceptable, j.line, "this line is not a JSON object; send one object a line")
}

// eachMember calls visit with the name and the value of each member of a valid object, as they are written.
func eachMember(object []byte, visit func(name, value []byte) error) error {
	for pos := skipSpace(object, 1); object[pos] != '}'; {
		nameEnd := valueEnd(object, pos)
		name := object[pos:nameEnd]
		pos = skipSpace(object, skipSpace(object, nameEnd)+1) // over the colon
		end := valueEnd(object, pos)
		if err := visit(name, object[pos:end]); err != nil {
			return err
		}
		pos = skipSpace(object, end)
		if object[pos] == ',' {
			pos = skipSpace(object, pos+1)
		}
	}
	return nil
}

// skipSpace is the first index from pos that is not white space of JSON.
func skipSpace(text []byte, pos int) int {
	for text[pos] == ' ' || text[pos] == '\t' || text[pos] == '\r' || text[pos] == '\n' {
		pos++
	}
	return pos
}

// valueEnd is the index after the value at pos of valid JSON. In an array or object strings are passed over.
func valueEnd(text []byte, pos int) int {
	depth := 0
	for {
		switch text[pos] {
		case '"':
			for pos++; text[pos] != '"'; pos++ {
				if text[pos] == '\\' {
					pos++
				}
			}
			pos++
		case '{', '[':
			depth++
			pos++
			continue
		case '}', ']':
			depth--
			pos++
		case ' ', '\t', '\r', '\n', ',', ':':
			pos++
			continue
		default:
			pos += bytes.IndexAny(text[pos:], " \t\r\n,]}")
		}
		if depth == 0 {
			return pos
		}
	}
}

// jsonText is the text of a value in a cell: that of a string, nothing for null, and any other as it is written.
func jsonText(value []byte) []byte {
	switch {
	case value[0] == 'n':
		return nil
	case value[0] != '"':
		return value
	case bytes.IndexByte(value, '\\') < 0:
		return value[1 : len(value)-1]
	}
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		panic("BUG: a string of a valid line is not one: " + err.Error())
	}
	return []byte(text)
}

// appendCSV appends a cell, quoted if it has to be. It is not changed: input cells are not guarded against being read
// as formulas.
func appendCSV(dst, text []byte) []byte {
	if !bytes.ContainsAny(text, ",\"\r\n") {
		return append(dst, text...)
	}
	dst = append(dst, '"')
	for from := text; ; {
		i := bytes.IndexByte(from, '"')
		if i < 0 {
			dst = append(dst, from...)
			return append(dst, '"')
		}
		dst = append(append(dst, from[:i]...), '"', '"')
		from = from[i+1:]
	}
}

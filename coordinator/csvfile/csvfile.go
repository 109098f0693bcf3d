package csvfile

import (
	"bytes"
	"fmt"

	"probity/engine"
)

// The bounds of a file. Those that an operator may want to change are in Limits.
const (
	MaxColumns    = 1000       // cells of the header
	MaxExtraCells = 64         // cells by which a row may exceed the header
	MaxField      = 64 << 10   // bytes of one cell in the file, quotes included
	MaxAddresses  = 5_000_000  // of one file, unless Limits say otherwise
	MaxRow        = 8 << 20    // bytes of one row
	MaxRows       = 20_000_000 // rows, blank ones included: bounds tables by row number
	BlockBytes    = 1 << 20    // bytes of one block, unless a single row is longer
	MaxBlockRows  = 1 << 16    // rows of one block
)

// MaxPooledBytes bounds a buffer that is kept for reuse: two blocks of usual rows. Blocks with rows of megabytes are
// not kept.
const MaxPooledBytes = 2 * BlockBytes

// Kind says which refusal an Error is.
type Kind uint8

// The kinds.
const (
	Unacceptable Kind = iota // not a file that we accept
	TooLarge                 // over a limit
)

// Error is a refusal of the file. Detail says what is wrong and what to do; Line is 1-based, 0 if it concerns no line.
type Error struct {
	Kind   Kind
	Line   int64
	Detail string
}

func (e *Error) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("line %d: %s", e.Line, e.Detail)
	}
	return e.Detail
}

func refuse(kind Kind, line int64, format string, args ...any) *Error {
	return &Error{Kind: kind, Line: line, Detail: fmt.Sprintf(format, args...)}
}

// The encodings a file can be in.
const (
	UTF8        = "utf-8"
	UTF16       = "utf-16"
	Windows1252 = "windows-1252"
	Macintosh   = "macintosh" // Mac OS Roman, of files whose lines end with CR
)

// Dialect describes how a file is written. It is complete once the file was read to its end.
type Dialect struct {
	Delimiter byte   `json:"delimiter"`
	Encoding  string `json:"encoding"`
	HasHeader bool   `json:"has_header"`
	Column    int    `json:"column"`      // of the e-mail cell, 0-based
	Name      string `json:"column_name"` // its header cell; empty without a header
	HeaderAt  int    `json:"header_at"`   // where the header begins in the preamble, after byte order mark and sep line
	Header    int    `json:"header"`      // cells of the header, or of the first row if there is no header
	Widest    int    `json:"widest"`      // cells of the widest row, header included
	CRLF      bool   `json:"crlf"`        // line end of the first line, for rows that have none
	CR        bool   `json:"cr"`          // every line ends with CR, and LF is a character as any other
	JSON      bool   `json:"json"`        // it was sent as JSON lines; its blocks are CSV
}

// newline is the last byte of each line.
func (d *Dialect) newline() byte {
	if d.CR {
		return '\r'
	}
	return '\n'
}

// countLines counts the line ends in text.
func (d *Dialect) countLines(text []byte) int64 { return int64(bytes.Count(text, []byte{d.newline()})) }

// The line ends of rows.
const (
	endNone = iota // the last line, unfinished
	endLF
	endCRLF
	endCR
)

// Row is one row as offsets into its block's bytes.
type Row struct {
	Start, End           uint32 // the cells, without the line end
	EmailStart, EmailEnd uint32 // the e-mail cell, quotes included; empty if the row is too short
	Cells                uint16
	Quoted               bool // the e-mail cell is quoted
	Blank                bool // the e-mail cell is empty after trimming
	lineEnd              uint8
}

// Block is a run of whole rows. Its memory belongs to the caller, and is reused by the next call that fills it.
type Block struct {
	Buf   []byte
	Rows  []Row
	First uint32 // number of the first row, counted from 0
	Line  int64  // line of the first row, counted from 1

	unquoted []byte // buffer of Email and EachCell
}

// Email is the text of a row's e-mail cell, unquoted. It is valid until the next call; do not write to it.
func (b *Block) Email(i int) []byte {
	r := &b.Rows[i]
	cell := b.Buf[r.EmailStart:r.EmailEnd]
	if !r.Quoted {
		return cell
	}
	b.unquoted = appendUnquoted(b.unquoted[:0], cell)
	return b.unquoted
}

// appendUnquoted appends the text of a quoted cell: doubled quotes become one, text after the closing quote stays.
func appendUnquoted(dst, cell []byte) []byte {
	cell = cell[1:]
	for {
		i := bytes.IndexByte(cell, '"')
		if i < 0 {
			return append(dst, cell...)
		}
		dst, cell = append(dst, cell[:i]...), cell[i+1:]
		if len(cell) == 0 || cell[0] != '"' {
			return append(dst, cell...)
		}
		dst, cell = append(dst, '"'), cell[1:]
	}
}

// blank reports whether a cell is empty after trimming.
func blank(cell []byte, quoted bool) bool {
	if quoted {
		cell = appendUnquoted(nil, cell)
	}
	if len(cell) > 0 && cell[0] > ' ' && cell[0] < 0x7f {
		return false
	}
	return engine.Trim(string(cell)) == ""
}

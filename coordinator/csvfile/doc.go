// Package csvfile turns an uploaded CSV file into blocks of rows, and rows back into CSV with cells appended. A file of
// JSON lines becomes CSV as it is read.
//
// It knows compression (none, gzip, zstd, zip with one file), encodings (UTF-8, UTF-16 with a byte order mark,
// Windows-1252, Mac OS Roman), delimiters, quotes and line ends. It does not judge addresses: of a row it says only
// where the e-mail cell is and whether it is blank, and of the e-mail column whether it can be one. It opens no file
// and starts no goroutine of its own.
//
// Invariants:
//  1. A block holds whole rows, and a row's cells are a span of the block's bytes: for CSV in UTF-8, the output has
//     those bytes unchanged. For JSON lines it has the text of each member.
//  2. Memory is one block (1 MiB, or one row of at most 8 MiB), whatever the size of the file.
//  3. No file makes it panic; a file that it refuses gets an *Error with the line and what to do.
//  4. Parsing a block again gives the same rows, so that storing its bytes is enough.
//  5. Every line of the output has the same number of cells before ours: short rows are padded to the widest row.
//
// An empty line is a row with one empty cell. A quote opens a quoted cell only at the cell's start; text after the
// closing quote belongs to the cell. A line ends with LF or CRLF, or each with CR alone, and each row is written back
// with its own line end.
package csvfile

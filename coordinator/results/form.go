package results

import (
	"bytes"
	"cmp"
	"errors"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"probity/engine"
)

// Format is the format of rows.
type Format string

// The formats.
const (
	CSV Format = "csv" // the input with our columns appended
	// one object a line: row, then the verification result, then the row's other columns as input
	JSONL Format = "jsonl"
)

// Compress is the compression of a result.
type Compress string

// The compressions.
const (
	None Compress = "none"
	Gzip Compress = "gzip"
	Zstd Compress = "zstd"
)

// Form is the format and compression of a result file.
type Form struct {
	Format   Format
	Compress Compress
	BOM      bool // CSV begins with the byte order mark of UTF-8, by which Excel knows the encoding
}

// Filter says which rows of a job are wanted, and how. The zero value is the whole file as plain CSV.
type Filter struct {
	Form
	Status  []engine.Status // empty: all, blank rows included
	Partial bool            // for an unfinished job: the answers so far; rows without an answer have empty columns
	NoInput bool            // JSONL without input
	Reasons []engine.Reason // empty: all, blank rows included

	InputOnly bool   // CSV without our columns
	Row       uint32 // only this row, counted from 1; 0: all
	// From is the row, counted from 1, at which Find begins. The answers of a finished job are then checked as a whole
	// only once. 0: for Write, which writes all rows.
	From uint32
}

// WithDefaults sets the format and compression that f leaves open.
func (f Filter) WithDefaults() Filter {
	f.Format, f.Compress = cmp.Or(f.Format, CSV), cmp.Or(f.Compress, None)
	return f
}

var errForm = errors.New("unknown format or compression")

// compressor compresses independent parts one after another: gzip members or zstd frames.
type compressor struct {
	method Compress
	zstd   *zstd.Encoder
	gzip   *gzip.Writer
	buf    bytes.Buffer
}

// compress returns b compressed, valid until the next call.
func (c *compressor) compress(b []byte) ([]byte, error) {
	c.buf.Reset()
	switch c.method {
	case None:
		return b, nil
	case Zstd:
		c.buf.Grow(len(b) / 4)
		return c.zstd.EncodeAll(b, c.buf.AvailableBuffer()), nil
	case Gzip:
		if c.gzip == nil {
			var err error
			if c.gzip, err = gzip.NewWriterLevel(&c.buf, gzip.BestSpeed); err != nil {
				return nil, err
			}
		}
		c.gzip.Reset(&c.buf)
		_, err := c.gzip.Write(b)
		err = errors.Join(err, c.gzip.Close())
		return c.buf.Bytes(), err
	}
	return nil, errForm
}

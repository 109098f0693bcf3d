package jobfiles

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"
)

// An upload is one object:
//
//	frames      whole rows of the file as they were sent, each frame compressed separately with zstd
//	addresses   the set of the addresses in it; see package addresses. It may be missing
//	duplicates  of each frame: row uint32, the first row with the same address uint32; in the order of rows
//	index       length of the preamble uint32, the preamble; then of each frame
//	              line of its first row uint64, xxh3 of the compressed frame uint64, xxh3 of its duplicates uint64
//	              compressed bytes, bytes, rows, duplicates uint32 each
//	footer      length of the index uint64, xxh3 of index and length uint64, magic of 8 bytes as in a rows log
//
// The offset of a frame follows from the lengths of those before it. Numbers are little-endian.
const (
	uploadMagic         = "prbupl\x01\xfe"
	uploadFooterBytes   = 8 + 8 + len(uploadMagic)
	maxUploadIndexBytes = 64 << 20
	frameEntryBytes     = 3*8 + 4*4
	maxFrameRows        = 1 << 16
	maxUploadRows       = 1 << 31
	duplicateBytes      = 4 + 4
)

// Frame is a run of rows of an upload.
type Frame struct {
	Line  int64  // of the first row
	First uint32 // number of the first row
	Rows  uint32
	Raw   uint32 // bytes, decompressed

	at, packed    int64
	sum           uint64
	duplicatesAt  int64
	duplicates    uint32
	duplicatesSum uint64
}

// UploadWriter writes an upload: its frames, then the set of its addresses, if there is one, then its duplicates, then
// Finish.
type UploadWriter struct {
	w      io.Writer
	frames []Frame
	end    int64 // of the frames
	rows   int64

	next              int    // the frame whose duplicates are being collected
	pendingDuplicates []byte // of that frame
	last              int64  // the last row that is a duplicate, -1 before the first
	duplicates        int64
}

// NewUploadWriter starts an upload that goes to w. After Finish, the caller makes w durable.
func NewUploadWriter(w io.Writer) *UploadWriter { return &UploadWriter{w: w, last: -1} }

// AddFrame adds a compressed frame. Of f, only Line, Rows and Raw are used.
func (w *UploadWriter) AddFrame(packed []byte, f Frame) error {
	if f.Rows > maxFrameRows || w.rows+int64(f.Rows) > maxUploadRows || len(packed) > math.MaxUint32 {
		return fmt.Errorf("upload: a frame of %d rows after %d: %w", f.Rows, w.rows, ErrDamaged)
	}
	f.First = uint32(w.rows)
	f.at = w.end
	f.packed = int64(len(packed))
	f.sum = xxh3.Hash(packed) // before the write: a file may change the bytes
	if _, err := w.w.Write(packed); err != nil {
		return err
	}
	w.frames = append(w.frames, f)
	w.end += int64(len(packed))
	w.rows += int64(f.Rows)
	return nil
}

// Written gives access to the frames written so far, which from reads. It need not be closed.
func (w *UploadWriter) Written(from io.ReaderAt, unpack *zstd.Decoder) *Upload {
	return &Upload{Frames: w.frames, rows: w.rows, from: from, unpack: unpack}
}

// Addresses returns where the set of the upload's addresses is written.
func (w *UploadWriter) Addresses() io.Writer { return w.w }

// AddDuplicate adds a row whose address occurs first in an earlier row. Rows must ascend.
func (w *UploadWriter) AddDuplicate(row, first uint32) error {
	if int64(row) <= w.last || first >= row || int64(row) >= w.rows {
		return fmt.Errorf("upload of %d rows: row %d repeats row %d, after row %d: %w", w.rows, row, first, w.last,
			ErrDamaged)
	}
	for f := &w.frames[w.next]; row-f.First >= f.Rows; f = &w.frames[w.next] {
		if err := w.flushDuplicates(); err != nil {
			return err
		}
	}
	w.pendingDuplicates = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(w.pendingDuplicates, row),
		first)
	w.last = int64(row)
	w.duplicates++
	return nil
}

func (w *UploadWriter) flushDuplicates() error {
	f := &w.frames[w.next]
	w.next++
	if len(w.pendingDuplicates) == 0 {
		return nil
	}
	f.duplicates, f.duplicatesSum = uint32(len(w.pendingDuplicates)/duplicateBytes), xxh3.Hash(w.pendingDuplicates)
	_, err := w.w.Write(w.pendingDuplicates)
	w.pendingDuplicates = w.pendingDuplicates[:0]
	return err
}

// Finish writes the remaining duplicates and the index.
func (w *UploadWriter) Finish(preamble []byte) error {
	if w.next < len(w.frames) {
		if err := w.flushDuplicates(); err != nil {
			return err
		}
	}
	le := binary.LittleEndian
	b := append(le.AppendUint32(nil, uint32(len(preamble))), preamble...)
	for i := range w.frames {
		f := &w.frames[i]
		for _, n := range [...]uint64{uint64(f.Line), f.sum, f.duplicatesSum} {
			b = le.AppendUint64(b, n)
		}
		for _, n := range [...]uint32{uint32(f.packed), f.Raw, f.Rows, f.duplicates} {
			b = le.AppendUint32(b, n)
		}
	}
	if len(b) > maxUploadIndexBytes {
		return fmt.Errorf("upload: an index of %d bytes; at most %d are read", len(b), maxUploadIndexBytes)
	}
	_, err := w.w.Write(appendFooter(b))
	return err
}

func appendFooter(index []byte) []byte {
	b := binary.LittleEndian.AppendUint64(index, uint64(len(index)))
	return append(binary.LittleEndian.AppendUint64(b, xxh3.Hash(b)), uploadMagic...)
}

// Rows is the number of rows so far.
func (w *UploadWriter) Rows() int64 { return w.rows }

// Duplicates is the number of duplicates so far.
func (w *UploadWriter) Duplicates() int64 { return w.duplicates }

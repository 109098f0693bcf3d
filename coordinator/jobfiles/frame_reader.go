package jobfiles

import (
	"fmt"
	"slices"

	"probity/coordinator/csvfile"
)

// FrameReader reads frames of an upload into its own memory. It is not safe for concurrent use.
type FrameReader struct {
	Block       csvfile.Block // valid until the next read
	packed, raw []byte
}

// Small reports whether the reader's buffers are small enough to keep.
func (r *FrameReader) Small() bool {
	return max(cap(r.packed), cap(r.raw), cap(r.Block.Buf)) <= csvfile.MaxPooledBytes
}

// Read reads frame i as rows in UTF-8.
func (r *FrameReader) Read(u *Upload, d *csvfile.Dialect, i int) (err error) {
	f := u.Frames[i]
	if r.packed, r.raw, err = u.Unpack(i, r.packed, r.raw); err != nil {
		return err
	}
	r.Block.Buf, r.Block.First, r.Block.Line = r.raw, f.First, f.Line
	if d.Encoding == csvfile.Windows1252 {
		r.Block.Buf = d.AppendUTF8(nil, r.raw)
	}
	r.Block.Rows = slices.Grow(r.Block.Rows[:0], int(min(f.Rows, csvfile.MaxBlockRows))) // a short list would not reuse a larger slice
	if err := d.Parse(&r.Block); err != nil {
		return fmt.Errorf("upload frame %d: %w: %w", i, ErrDamaged, err)
	}
	if len(r.Block.Rows) != int(f.Rows) {
		return fmt.Errorf("upload frame %d has %d rows, want %d: %w", i, len(r.Block.Rows), f.Rows, ErrDamaged)
	}
	return nil
}

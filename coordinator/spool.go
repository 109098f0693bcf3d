package coordinator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"probity/coordinator/sheet"
)

// frame is one block of the sheet in the spool: whole rows, packed by themselves.
type frame struct {
	Offset int64
	Line   int64 // of the first row
	Packed uint32
	Raw    uint32
	First  uint32 // number of the first row
	Rows   uint32
}

const (
	indexMagic = "prbidx01"
	frameBytes = 32
)

// newPacker makes the compressor of spool frames and stored results. EncodeAll may be called from any goroutine. Its history has
// room for two windows: with room for little more than one, which is what lower memory means, it is moved down for each block
// of a page past the first MiB, and that was a tenth of the work. So many work at one time, each with 2 MiB.
func newPacker(workers int) *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(workers), zstd.WithWindowSize(1<<20))
	if err != nil {
		panic("BUG: zstd options: " + err.Error())
	}
	return e
}

// newUnpacker makes the decoder that all spools of a coordinator share. It keeps hold of what it unpacked last, a frame for each
// of those that work at one time: a decoder for each job was 45 of 228 MB alive beside ten of 50,000 rows.
func newUnpacker(workers int) *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(workers), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		panic("BUG: zstd options: " + err.Error())
	}
	return d
}

// spoolWriter writes a spool. It is durable, index included, once finish returned nil.
type spoolWriter struct {
	fs     vfs.FS
	dir    string
	ending string // of the files' names
	f      vfs.File
	end    int64
	frames []frame
}

func createSpool(fs vfs.FS, dir, ending string) (*spoolWriter, error) {
	f, err := fs.Create(fs.PathJoin(dir, fileSpool+ending), writeCategory)
	return &spoolWriter{fs: fs, dir: dir, ending: ending, f: f}, err
}

// add appends a packed block.
func (w *spoolWriter) add(packed []byte, b *sheet.Block) error {
	return w.put(packed, frame{Line: b.Line, Raw: uint32(len(b.Buf)), First: b.First, Rows: uint32(len(b.Rows))})
}

// put appends a packed frame.
func (w *spoolWriter) put(packed []byte, f frame) error {
	if _, err := w.f.Write(packed); err != nil {
		return err
	}
	f.Offset, f.Packed = w.end, uint32(len(packed))
	w.frames = append(w.frames, f)
	w.end += int64(len(packed))
	return nil
}

func (w *spoolWriter) finish(preamble []byte) error {
	err := w.f.Sync()
	if err := errors.Join(err, w.close()); err != nil {
		return err
	}
	le := binary.LittleEndian
	b := append([]byte(indexMagic), 0, 0, 0, 0)
	le.PutUint32(b[len(indexMagic):], uint32(len(preamble)))
	b = append(b, preamble...)
	b = le.AppendUint32(b, uint32(len(w.frames)))
	for _, f := range w.frames {
		b = le.AppendUint64(b, uint64(f.Offset))
		b = le.AppendUint64(b, uint64(f.Line))
		for _, n := range [...]uint32{f.Packed, f.Raw, f.First, f.Rows} {
			b = le.AppendUint32(b, n)
		}
	}
	b = le.AppendUint64(b, xxh3.Hash(b))
	return writeWhole(w.fs, w.fs.PathJoin(w.dir, fileIndex+w.ending), b)
}

func (w *spoolWriter) close() error {
	if w.f == nil {
		return nil
	}
	f := w.f
	w.f = nil
	return f.Close()
}

// spool is a stored sheet, read by frames from any goroutine.
type spool struct {
	f        vfs.File
	dec      *zstd.Decoder // shared
	preamble []byte
	frames   []frame
}

var errIndex = fmt.Errorf("the spool's index: %w", errDamaged)

func openSpool(fs vfs.FS, dir string, dec *zstd.Decoder) (*spool, error) {
	b, err := readWhole(fs, fs.PathJoin(dir, fileIndex))
	if err != nil {
		return nil, err
	}
	s := &spool{dec: dec}
	if err := s.readIndex(b); err != nil {
		return nil, err
	}
	if s.f, err = fs.Open(fs.PathJoin(dir, fileSpool)); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *spool) readIndex(b []byte) error {
	le := binary.LittleEndian
	n := len(b) - 8
	if n < len(indexMagic)+8 || string(b[:len(indexMagic)]) != indexMagic || le.Uint64(b[n:]) != xxh3.Hash(b[:n]) {
		return errIndex
	}
	b = b[len(indexMagic):n]
	pre := int(le.Uint32(b))
	s.preamble, b = b[4:4+pre], b[4+pre:]
	s.frames = make([]frame, le.Uint32(b))
	b = b[4:]
	for i := range s.frames {
		e := b[i*frameBytes:]
		s.frames[i] = frame{Offset: int64(le.Uint64(e)), Line: int64(le.Uint64(e[8:])), Packed: le.Uint32(e[16:]), Raw: le.Uint32(e[20:]),
			First: le.Uint32(e[24:]), Rows: le.Uint32(e[28:])}
	}
	return nil
}

func (s *spool) Close() error { return s.f.Close() }

// frameReader reads frames of a spool into memory of its own; one goroutine each.
type frameReader struct {
	block       sheet.Block // valid until the next read
	packed, raw []byte
}

// small reports that the reader has read no frame of rows of megabytes.
func (r *frameReader) small() bool {
	return max(cap(r.packed), cap(r.raw), cap(r.block.Buf)) <= keptBytes
}

// read reads frame i as rows in UTF-8.
func (r *frameReader) read(s *spool, d *sheet.Dialect, i int) error {
	f := s.frames[i]
	if cap(r.packed) < int(f.Packed) {
		r.packed = make([]byte, f.Packed)
	}
	r.packed = r.packed[:f.Packed]
	if err := readFull(s.f, r.packed, f.Offset); err != nil {
		return fmt.Errorf("spool: %w", err)
	}
	raw, err := s.dec.DecodeAll(r.packed, r.raw[:0])
	if err != nil {
		return fmt.Errorf("spool frame %d: %w: %w", i, errDamaged, err)
	}
	r.raw = raw
	r.block.Buf, r.block.First, r.block.Line = raw, f.First, f.Line
	if d.Encoding == sheet.Windows1252 {
		r.block.Buf = d.AppendUTF8(nil, raw)
	}
	r.block.Rows = slices.Grow(r.block.Rows[:0], int(min(f.Rows, sheet.MaxBlockRows))) // a short list has no time to reuse what grew
	if err := d.Parse(&r.block); err != nil {
		return fmt.Errorf("spool frame %d: %w: %w", i, errDamaged, err)
	}
	if len(r.block.Rows) != int(f.Rows) {
		return fmt.Errorf("spool frame %d has %d rows, want %d: %w", i, len(r.block.Rows), f.Rows, errDamaged)
	}
	return nil
}

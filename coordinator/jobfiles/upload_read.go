package jobfiles

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/zstd"
	"github.com/zeebo/xxh3"

	"probity/coordinator/addresses"
	"probity/coordinator/csvfile"
)

// Upload is an open upload. Any goroutine may read it.
type Upload struct {
	Preamble []byte // the bytes before the first row
	Frames   []Frame

	rows, duplicates int64
	setStart, setEnd int64 // of the set of addresses
	from             io.ReaderAt
	closer           io.Closer
	unpack           *zstd.Decoder
}

// OpenUpload opens an upload of a job and reads its index. An invalid one is ErrDamaged or ErrVersion.
func OpenUpload(from *Folder, job, name string, unpack *zstd.Decoder) (*Upload, error) {
	object, err := from.Open(job, name)
	if err != nil {
		return nil, err
	}
	u := &Upload{from: object, closer: object, unpack: unpack}
	info, err := object.Stat()
	if err != nil {
		return nil, errors.Join(err, object.Close())
	}
	if err := u.readIndex(info.Size()); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), object.Close())
	}
	return u, nil
}

// Close closes the upload's object.
func (u *Upload) Close() error { return u.closer.Close() }

// Rows is the number of rows.
func (u *Upload) Rows() int64 { return u.rows }

// Duplicates is the number of duplicates.
func (u *Upload) Duplicates() int64 { return u.duplicates }

func (u *Upload) readIndex(size int64) error {
	le := binary.LittleEndian
	footer := make([]byte, uploadFooterBytes)
	at := size - int64(len(footer))
	if at < 0 {
		return fmt.Errorf("%d bytes are no upload: %w", size, ErrDamaged)
	}
	if err := ReadFull(u.from, footer, at); err != nil {
		return err
	}
	if err := checkMagic("the upload", footer[len(footer)-len(uploadMagic):], uploadMagic); err != nil {
		return err
	}
	length := le.Uint64(footer)
	if length > maxUploadIndexBytes || length > uint64(at) {
		return fmt.Errorf("an index of %d bytes: %w", length, ErrDamaged)
	}
	b := make([]byte, length, length+8)
	if err := ReadFull(u.from, b, at-int64(length)); err != nil {
		return err
	}
	if xxh3.Hash(append(b, footer[:8]...)) != le.Uint64(footer[8:]) {
		return fmt.Errorf("index: %w", ErrDamaged)
	}
	if len(b) < 4 || int64(le.Uint32(b)) > int64(len(b)-4) {
		return fmt.Errorf("preamble: %w", ErrDamaged)
	}
	n := 4 + int(le.Uint32(b))
	u.Preamble, b = b[4:n:n], b[n:]
	if len(b)%frameEntryBytes != 0 {
		return fmt.Errorf("index of frames: %w", ErrDamaged)
	}
	u.Frames = make([]Frame, len(b)/frameEntryBytes)
	end := int64(0)
	for i := range u.Frames {
		e := b[i*frameEntryBytes:]
		f := &u.Frames[i]
		f.Line, f.sum, f.duplicatesSum = int64(le.Uint64(e)), le.Uint64(e[8:]), le.Uint64(e[16:])
		f.packed = int64(le.Uint32(e[24:]))
		f.Raw = le.Uint32(e[28:])
		f.Rows = le.Uint32(e[32:])
		f.duplicates = le.Uint32(e[36:])
		f.First, f.at = uint32(u.rows), end
		end += f.packed
		u.rows += int64(f.Rows)
		u.duplicates += int64(f.duplicates)
		if f.Rows > maxFrameRows || f.duplicates > f.Rows || u.rows > maxUploadRows {
			return fmt.Errorf("frame %d of %d rows, %d of them duplicates: %w", i, f.Rows, f.duplicates, ErrDamaged)
		}
	}
	size = at - int64(length)
	u.setStart = end
	u.setEnd = size - u.duplicates*duplicateBytes
	if u.setEnd < u.setStart {
		return fmt.Errorf("%d bytes of frames and duplicates, want %d: %w", size, end+u.duplicates*duplicateBytes,
			ErrDamaged)
	}
	end = u.setEnd
	for i := range u.Frames {
		f := &u.Frames[i]
		f.duplicatesAt = end
		end += int64(f.duplicates) * duplicateBytes
	}
	return nil
}

// Addresses opens the set of the upload's addresses.
func (u *Upload) Addresses() *addresses.Set { return addresses.OpenSet(u.from, u.setStart, u.setEnd) }

// checkMagic compares the magic of a file with ours. Its last two bytes are the version and its complement.
func checkMagic(what string, magic []byte, want string) error {
	version := len(want) - 2
	switch v := magic[version]; {
	case string(magic) == want:
		return nil
	case string(magic[:version]) == want[:version] && magic[version+1] == ^v:
		return fmt.Errorf("%w: %s has version %d and this program knows %d: use the newer program that wrote it",
			ErrVersion, what, v, want[version])
	}
	return fmt.Errorf("%s does not end as one does: %w", what, ErrDamaged)
}

// Packed reads frame i, still compressed, into the memory of dst.
func (u *Upload) Packed(i int, dst []byte) ([]byte, error) {
	f := &u.Frames[i]
	dst = slices.Grow(dst[:0], int(f.packed))[:f.packed]
	err := u.readSum(dst, f.at, f.sum)
	if err != nil {
		err = fmt.Errorf("upload: frame %d: %w", i, err)
	}
	return dst, err
}

// Unpack reads frame i and decompresses its rows, into the memory of packed and rows.
func (u *Upload) Unpack(i int, packed, rows []byte) ([]byte, []byte, error) {
	packed, err := u.Packed(i, packed)
	if err != nil {
		return packed, rows, err
	}
	rows, err = u.unpack.DecodeAll(packed, rows[:0])
	if err != nil || len(rows) != int(u.Frames[i].Raw) {
		return packed, rows, fmt.Errorf("upload: frame %d has %d bytes, want %d: %w", i, len(rows), u.Frames[i].Raw,
			errors.Join(ErrDamaged, err))
	}
	return packed, rows, nil
}

// AppendFirstRows appends for each row of frame i: one plus the number of the first row with the same address, or zero
// if it is the first.
func (u *Upload) AppendFirstRows(dst []uint32, i int) ([]uint32, error) {
	f := &u.Frames[i]
	from := len(dst)
	dst = append(dst, make([]uint32, f.Rows)...)
	return dst, u.frameDuplicates(i, func(row, first uint32) error {
		dst[from+int(row-f.First)] = first + 1
		return nil
	})
}

// EachDuplicate calls visit with each row that is a duplicate, and the first row with its address, in the order of
// rows.
func (u *Upload) EachDuplicate(visit func(row, first uint32) error) error {
	for i := range u.Frames {
		if err := u.frameDuplicates(i, visit); err != nil {
			return err
		}
	}
	return nil
}

// Check reads the whole upload and verifies its checksums, but those of the set of addresses: it is no loss.
func (u *Upload) Check() (err error) {
	var packed []byte
	for i := range u.Frames {
		if packed, err = u.Packed(i, packed); err != nil {
			return err
		}
	}
	return u.EachDuplicate(func(_, _ uint32) error { return nil })
}

func (u *Upload) frameDuplicates(i int, visit func(row, first uint32) error) error {
	f := &u.Frames[i]
	if f.duplicates == 0 {
		return nil
	}
	b := make([]byte, f.duplicates*duplicateBytes)
	if err := u.readSum(b, f.duplicatesAt, f.duplicatesSum); err != nil {
		return fmt.Errorf("upload: duplicates of frame %d: %w", i, err)
	}
	for ; len(b) > 0; b = b[duplicateBytes:] {
		row, first := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		if row-f.First >= f.Rows || first >= row {
			return fmt.Errorf("upload: row %d repeats row %d: %w", row, first, ErrDamaged)
		}
		if err := visit(row, first); err != nil {
			return err
		}
	}
	return nil
}

// readSum fills b and verifies its checksum.
func (u *Upload) readSum(b []byte, at int64, sum uint64) error {
	if err := ReadFull(u.from, b, at); err != nil {
		return err
	}
	if xxh3.Hash(b) != sum {
		return fmt.Errorf("%d bytes at %d: %w", len(b), at, ErrDamaged)
	}
	return nil
}

// ReadFull reads exactly len(b) bytes at an offset of a file. A file that ends before is ErrDamaged.
func ReadFull(f io.ReaderAt, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("it ends early: %w", ErrDamaged)
	}
	return fmt.Errorf("%d bytes at %d: %w", len(b), at, err)
}

// FrameReader reads frames of an upload into its own memory. It is not safe for concurrent use.
type FrameReader struct {
	Block       csvfile.Block // valid until the next read
	packed, raw []byte
}

// Small reports whether the reader's buffers are small enough to keep.
func (r *FrameReader) Small() bool {
	return max(cap(r.packed), cap(r.raw), cap(r.Block.Buf)) <= csvfile.MaxPooledBytes
}

// Text reads the text of frame i in UTF-8, valid until the next read.
func (r *FrameReader) Text(u *Upload, d *csvfile.Dialect, i int) (text []byte, err error) {
	if r.packed, r.raw, err = u.Unpack(i, r.packed, r.raw); err != nil {
		return nil, err
	}
	if d.IsOneByte() {
		return d.AppendUTF8(nil, r.raw), nil
	}
	return r.raw, nil
}

// Read reads frame i as rows in UTF-8.
func (r *FrameReader) Read(u *Upload, d *csvfile.Dialect, i int) (err error) {
	f := u.Frames[i]
	if r.Block.Buf, err = r.Text(u, d, i); err != nil {
		return err
	}
	r.Block.First, r.Block.Line = f.First, f.Line
	// a short list would not reuse a larger slice
	r.Block.Rows = slices.Grow(r.Block.Rows[:0], int(min(f.Rows, csvfile.MaxBlockRows)))
	if err := d.Parse(&r.Block); err != nil {
		return fmt.Errorf("upload frame %d: %w: %w", i, ErrDamaged, err)
	}
	if len(r.Block.Rows) != int(f.Rows) {
		return fmt.Errorf("upload frame %d has %d rows, want %d: %w", i, len(r.Block.Rows), f.Rows, ErrDamaged)
	}
	return nil
}

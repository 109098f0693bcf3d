package csvfile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the memory of a zstd stream; every level of the usual tools stays below it.
const maxWindow = 32 << 20

const errPackedFormat = "the %s data is damaged or ends early: %v; send the file again"

// unpack detects compression by the first bytes of src, and decompresses; free frees the decompressor.
func unpack(src *bufio.Reader) (r io.Reader, free func(), err error) {
	head, err := src.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	format := ""
	free = func() {}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		format = "gzip"
		r, err = gzip.NewReader(src)
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) == 4 && head[0]&0xf0 == 0x50 && bytes.Equal(head[1:], []byte{0x2a, 0x4d, 0x18}):
		var z *zstd.Decoder
		format = "zstd"
		z, err = zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		r, free = z, z.Close
	case bytes.Equal(head, zipLocal):
		format = "zip"
		r, err = openZip(src)
	default:
		return src, free, nil
	}
	if err != nil {
		return nil, nil, packingError(src, format, err)
	}
	return &packingReader{r, format, src}, free, nil
}

// packingReader converts a decompressor's error into a refusal of the file, unless reading the upload failed.
type packingReader struct {
	r      io.Reader
	format string
	src    *bufio.Reader
}

func (pr *packingReader) Read(p []byte) (int, error) {
	n, err := pr.r.Read(p)
	if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return n, err
	}
	return n, packingError(pr.src, pr.format, err)
}

// packingError is the error of reading the upload if that fails still, else a refusal of the compressed data.
func packingError(src *bufio.Reader, what string, err error) error {
	var refusal *Error
	if errors.As(err, &refusal) {
		return err
	}
	if _, broken := src.Peek(1); broken != nil && !errors.Is(broken, io.EOF) {
		return broken
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		return refuse(Unacceptable, 0, "the zstd data has a window over %d MiB; pack it without --long or --ultra", maxWindow>>20)
	}
	return refuse(Unacceptable, 0, errPackedFormat, what, err)
}

// limitReader refuses what unpacks to more than left bytes.
type limitReader struct {
	r    io.Reader
	left int64
	max  int64
}

func (l *limitReader) Read(p []byte) (int, error) {
	n, err := l.r.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, refuse(TooLarge, 0, "the file unpacks to more than %d bytes; send it in parts", l.max)
	}
	return n, err
}

// The signatures of a zip archive (APPNOTE.TXT 4.3).
var (
	zipLocal      = []byte("PK\x03\x04")
	zipDescriptor = []byte("PK\x07\x08")
)

const (
	zipLocalBytes = 30
	zipEncrypted  = 1 << 0
	zipStreamed   = 1 << 3 // sizes and checksum follow the data
	zipStored     = 0
	zipDeflated   = 8
)

// zipFile reads the one file of an archive by its local header, without the directory at the archive's end.
type zipFile struct {
	src      *bufio.Reader
	data     io.Reader
	streamed bool   // sizes and checksum follow the data
	want     uint32 // checksum, unless streamed
	sum      hash.Hash32
}

// openZip finds the one file; it skips directories before it.
func openZip(src *bufio.Reader) (*zipFile, error) {
	for {
		var h [zipLocalBytes]byte
		if _, err := io.ReadFull(src, h[:]); err != nil {
			return nil, err
		}
		le := binary.LittleEndian
		nameLen := int(le.Uint16(h[26:]))
		rest := make([]byte, nameLen+int(le.Uint16(h[28:])))
		if _, err := io.ReadFull(src, rest); err != nil {
			return nil, err
		}
		flags, method, size := le.Uint16(h[6:]), le.Uint16(h[8:]), uint64(le.Uint32(h[18:]))
		if size == 1<<32-1 {
			size = zip64Size(rest[nameLen:])
		}
		z := &zipFile{src: src, streamed: flags&zipStreamed != 0, want: le.Uint32(h[14:]), sum: crc32.NewIEEE()}
		if bytes.HasSuffix(rest[:nameLen], []byte("/")) && size == 0 && !z.streamed {
			if head, _ := src.Peek(4); !bytes.Equal(head, zipLocal) {
				return nil, refuse(Unacceptable, 0, "the zip archive holds no file; put one CSV file into it")
			}
			continue
		}
		switch {
		case flags&zipEncrypted != 0:
			return nil, refuse(Unacceptable, 0, "the zip archive is encrypted; send it without a password")
		case method == zipDeflated:
			z.data = flate.NewReader(src)
		case method == zipStored && !z.streamed:
			z.data = io.LimitReader(src, int64(min(size, 1<<62)))
		default:
			return nil, refuse(Unacceptable, 0, "the zip archive uses method %d, which cannot be read from a stream; use deflate, or gzip", method)
		}
		return z, nil
	}
}

// zip64Size is the compressed size in the extra field 0x0001 (APPNOTE.TXT 4.5.3), where it follows the uncompressed one.
func zip64Size(extra []byte) uint64 {
	for len(extra) >= 4 {
		id, n := binary.LittleEndian.Uint16(extra), int(binary.LittleEndian.Uint16(extra[2:]))
		if len(extra) < 4+n {
			break
		}
		if id == 1 && n >= 16 {
			return binary.LittleEndian.Uint64(extra[12:])
		}
		extra = extra[4+n:]
	}
	return 1<<32 - 1
}

func (z *zipFile) Read(p []byte) (int, error) {
	n, err := z.data.Read(p)
	z.sum.Write(p[:n])
	if err == io.EOF {
		if err := z.checkEnd(); err != nil {
			return n, err
		}
	}
	return n, err
}

// checkEnd verifies the file's checksum and that only the directory follows it.
func (z *zipFile) checkEnd() error {
	if z.streamed { // signature and sizes of 8 bytes are optional (APPNOTE.TXT 4.3.9)
		if head, _ := z.src.Peek(4); bytes.Equal(head, zipDescriptor) {
			z.src.Discard(4)
		}
		head, _ := z.src.Peek(24)
		if len(head) < 12 {
			return refuse(Unacceptable, 0, errPackedFormat, "zip", io.ErrUnexpectedEOF)
		}
		skip := 12
		if len(head) >= 24 && !bytes.HasPrefix(head[12:], []byte("PK")) && bytes.HasPrefix(head[20:], []byte("PK")) {
			skip = 20
		}
		z.want = binary.LittleEndian.Uint32(head)
		z.src.Discard(skip)
	}
	if z.want != z.sum.Sum32() {
		return refuse(Unacceptable, 0, errPackedFormat, "zip", errors.New("checksum differs"))
	}
	if head, _ := z.src.Peek(4); bytes.Equal(head, zipLocal) {
		return refuse(Unacceptable, 0, "the zip archive holds more than one file (a spreadsheet is such an archive: export it as CSV); send one")
	}
	_, err := io.Copy(io.Discard, z.src) // read the directory, so that the sender can finish
	return err
}

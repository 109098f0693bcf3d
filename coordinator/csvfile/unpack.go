package csvfile

import (
	"bufio"
	"bytes"
	"errors"
	"io"

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
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}), len(head) == 4 && head[0]&0xf0 == 0x50 &&
		bytes.Equal(head[1:], []byte{0x2a, 0x4d, 0x18}):
		var z *zstd.Decoder
		format = "zstd"
		z, err = zstd.NewReader(src, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(maxWindow))
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
		return refuse(Unacceptable, 0, "the zstd data has a window over %d MiB; pack it without --long or --ultra",
			maxWindow>>20)
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
	l.left -= int64(n)
	if l.left < 0 {
		return 0, refuse(TooLarge, 0, "the file unpacks to more than %d bytes; send it in parts", l.max)
	}
	return n, err
}

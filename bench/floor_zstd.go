package bench

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"
)

// bytesFloor is what a bare loop over the bytes of a file took.
type bytesFloor struct {
	Rows    int
	Bytes   int64
	Elapsed time.Duration
}

// ingestFloor parses a list and compresses its bytes, and does nothing with either: the least that receiving it can cost.
func ingestFloor(list string) (f bytesFloor, err error) {
	in, err := os.Open(list)
	if err != nil {
		return f, err
	}
	defer in.Close()
	began := time.Now()
	z, err := zstd.NewWriter(io.Discard, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return f, err
	}
	counted := &countingWriter{w: z}
	rows := csv.NewReader(io.TeeReader(bufio.NewReaderSize(in, 1<<20), counted))
	rows.ReuseRecord = true
	for {
		if _, err := rows.Read(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return f, errors.Join(err, z.Close())
		}
		f.Rows++
	}
	err = z.Close()
	f.Rows-- // the header
	f.Bytes, f.Elapsed = counted.n, time.Since(began)
	return f, err
}

// zstdFloor compresses what a zstd file holds once more, and does nothing with it: the least that writing it can cost.
// What reading it costs is measured by itself and taken off.
func zstdFloor(path string) (f bytesFloor, err error) {
	reading, n, err := recompress(path, io.Discard)
	if err != nil {
		return f, err
	}
	z, err := zstd.NewWriter(io.Discard, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return f, err
	}
	both, _, err := recompress(path, z)
	if err != nil {
		return f, errors.Join(err, z.Close())
	}
	began := time.Now()
	err = z.Close()
	return bytesFloor{Bytes: n, Elapsed: max(both+time.Since(began)-reading, time.Millisecond)}, err
}

// recompress reads a zstd file into w.
func recompress(path string, w io.Writer) (took time.Duration, n int64, err error) {
	in, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer in.Close()
	began := time.Now()
	d, err := zstd.NewReader(bufio.NewReaderSize(in, 1<<20))
	if err != nil {
		return 0, 0, err
	}
	defer d.Close()
	// Neither side may short-cut the copy: the compressor would otherwise read in blocks of its own.
	n, err = io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{d}, make([]byte, 1<<20))
	return time.Since(began), n, err
}

// countingWriter counts bytes.
type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

package baseline

import (
	"bufio"
	"encoding/csv"
	"errors"
	"io"
	"os"
	"time"

	"github.com/klauspost/compress/zstd"

	"probity/bench/process"
)

// Bytes is the cost of a bare loop over the bytes of a file.
type Bytes struct {
	Rows    int
	Bytes   int64
	Elapsed time.Duration
	CPU     time.Duration // of this process
}

// ParseList parses a list, compresses its bytes and drops both: the least that receiving it can cost.
func ParseList(list string) (f Bytes, err error) {
	in, err := os.Open(list)
	if err != nil {
		return f, err
	}
	defer in.Close()
	start, before := time.Now(), process.OwnCPU()
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
	f.Bytes, f.Elapsed, f.CPU = counted.n, time.Since(start), process.OwnCPU()-before
	return f, err
}

// chunkBytes is how much text of a result is in memory at one time while it is compressed again.
const chunkBytes = 16 << 20

// CompressAgain compresses the content of a zstd file again and drops it: the least that writing it can cost. Only
// compressing is timed, not reading.
func CompressAgain(path string) (f Bytes, err error) {
	in, err := os.Open(path)
	if err != nil {
		return f, err
	}
	defer in.Close()
	text, err := zstd.NewReader(bufio.NewReaderSize(in, 1<<20), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return f, err
	}
	defer text.Close()
	z, err := zstd.NewWriter(io.Discard, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return f, err
	}
	chunk := make([]byte, chunkBytes)
	for err == nil {
		var n int
		n, err = io.ReadFull(text, chunk)
		if n == 0 {
			break
		}
		start, before := time.Now(), process.OwnCPU()
		_, failed := z.Write(chunk[:n])
		failed = errors.Join(failed, z.Flush()) // otherwise it would compress while the next chunk is read
		f.Elapsed, f.CPU = f.Elapsed+time.Since(start), f.CPU+process.OwnCPU()-before
		f.Bytes += int64(n)
		if failed != nil {
			return f, failed
		}
	}
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return f, errors.Join(err, z.Close())
	}
	f.Elapsed = max(f.Elapsed, time.Millisecond)
	return f, z.Close()
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

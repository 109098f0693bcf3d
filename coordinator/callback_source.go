package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/klauspost/compress/zstd"

	"probity/coordinator/results"
	"probity/internal/wholefile"
)

// fileCallback has the rows of a callback's body, one JSON object a line, compressed. It is made at the first attempt and
// deleted after the last: a receiver that reads for hours holds an open file, not a render slot.
const fileCallback = "callback"

// WriteResults writes the results of a finished job, one JSON object a line. Calls for one job must not overlap.
func (c *Coordinator) WriteResults(ctx context.Context, job string, w io.Writer) error {
	path := c.cfg.FS.PathJoin(c.dir(job), fileCallback)
	f, err := c.cfg.FS.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = c.renderCallback(ctx, job, path); err == nil {
			f, err = c.cfg.FS.Open(path)
		}
	}
	if err != nil {
		return err
	}
	err = decompressTo(w, contextReader{ctx, f})
	if errors.Is(err, errDamaged) {
		err = errors.Join(err, c.DropResults(job)) // the next attempt makes it again
	}
	return errors.Join(err, f.Close())
}

// decompressTo writes the decompressed content of r. It returns errDamaged if r is not valid zstd.
func decompressTo(w io.Writer, r io.Reader) error {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		return err
	}
	defer z.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := z.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
	}
}

// renderCallback writes the file under a temporary name and renames it once it is whole and durable.
func (c *Coordinator) renderCallback(ctx context.Context, job, path string) error {
	unlock, err := c.lockJob(ctx, job) // no erasure meanwhile
	if err != nil {
		return err
	}
	defer unlock()
	f, err := c.cfg.FS.Create(path+wholefile.New, writeCategory)
	if err != nil {
		return err
	}
	j, err := c.Job(job)
	if err == nil {
		err = c.Results(ctx, job, results.Filter{Form: results.Form{Format: results.JSONL, Compress: results.Zstd}, NoInput: !j.CallbackInput}, f)
	}
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		return c.cfg.FS.Rename(path+wholefile.New, path)
	}
	return errors.Join(err, removeIfExists(c.cfg.FS, path+wholefile.New))
}

// DropResults deletes what WriteResults keeps between attempts; it can be made again.
func (c *Coordinator) DropResults(job string) error {
	return removeIfExists(c.cfg.FS, c.cfg.FS.PathJoin(c.dir(job), fileCallback))
}

package resultfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"

	"probity/coordinator/jobdir"
	"probity/coordinator/jobfiles"
	"probity/coordinator/results"
	"probity/internal/pipeline"
	"probity/internal/wholefile"
)

// WriteResults writes the results of a finished job, one JSON object a line. Calls for one job must not overlap. The
// rows are kept, compressed, from the first attempt until DropResults: a receiver that reads for hours holds an open
// file, not a render slot.
func (f *Files) WriteResults(ctx context.Context, job string, w io.Writer) error {
	path := f.cfg.Files.Path(job, jobdir.FileCallback)
	file, err := f.cfg.Files.FS.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = f.renderCallback(ctx, job, path); err == nil {
			file, err = f.cfg.Files.FS.Open(path)
		}
	}
	if err != nil {
		return err
	}
	err = decompressTo(w, pipeline.ContextReader{Context: ctx, Reader: file})
	if errors.Is(err, jobfiles.ErrDamaged) {
		err = errors.Join(err, f.DropResults(job)) // the next attempt makes it again
	}
	return errors.Join(err, file.Close())
}

// decompressTo writes the decompressed content of r. It returns jobfiles.ErrDamaged if r is not valid zstd.
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
			return fmt.Errorf("%w: %w", jobfiles.ErrDamaged, err)
		}
	}
}

// renderCallback writes the file under a temporary name and renames it once it is whole and durable.
func (f *Files) renderCallback(ctx context.Context, job, path string) error {
	unlock, err := f.cfg.Files.Lock(ctx, job) // no erasure meanwhile
	if err != nil {
		return err
	}
	defer unlock()
	file, err := f.cfg.Files.FS.Create(path+wholefile.New, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	j, err := f.cfg.Store.Job(job)
	if err == nil {
		err = f.Results(ctx, job, results.Filter{Form: results.Form{Format: results.JSONL, Compress: results.Zstd},
			NoInput: !j.CallbackInput}, file)
	}
	if err == nil {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		return f.cfg.Files.FS.Rename(path+wholefile.New, path)
	}
	return errors.Join(err, f.cfg.Files.Remove(job, jobdir.FileCallback+wholefile.New))
}

// DropResults deletes what WriteResults keeps between attempts; it can be made again.
func (f *Files) DropResults(job string) error {
	return f.cfg.Files.Remove(job, jobdir.FileCallback)
}

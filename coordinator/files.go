package coordinator

import (
	"errors"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator/jobfiles"
)

// The files of a job's folder that are not objects.
const (
	fileChunks     = "chunks" // scratch
	fileRows       = "rows"
	oldFileResults = "results" // result file of an older version
	fileSpill      = "spill"   // scratch while an upload is counted
)

const jobsFolder = "jobs"

const writeCategory = vfs.WriteCategoryUnspecified

// tail is a file that is appended to. A failed write is overwritten by the next: nothing refers to it.
type tail struct {
	f   vfs.File
	end int64
}

// openTail opens a file for appending after its first end bytes.
func openTail(fs vfs.FS, path string, end int64) (*tail, error) {
	f, err := fs.OpenReadWrite(path, writeCategory)
	if err != nil {
		return nil, err
	}
	return &tail{f: f, end: end}, nil
}

// add writes b at the end and returns its offset.
func (t *tail) add(b []byte) (int64, error) {
	at := t.end
	if _, err := t.f.WriteAt(b, at); err != nil {
		return 0, err
	}
	t.end += int64(len(b))
	return at, nil
}

func (t *tail) Close() error { return t.f.Close() }

// errDamaged fails the job that the file belongs to.
var errDamaged = jobfiles.ErrDamaged

// readFull reads exactly len(b) bytes at an offset of a file.
func readFull(f vfs.File, b []byte, at int64) error {
	n, err := f.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = fmt.Errorf("it ends early: %w", errDamaged)
	}
	return fmt.Errorf("%d bytes at %d: %w", len(b), at, err)
}

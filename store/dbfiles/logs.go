package dbfiles

import (
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// FS writes zeros ahead of the end of write-ahead logs. A sync that makes a file longer also needs the file system's
// journal, which takes twice as long and waits for other writes, such as those of a job. Pebble reads logs that end in
// zeros (TestPreallocatedLogIsRead in store). Only real files are preallocated.
type FS struct {
	vfs.FS
	newestLog atomic.Uint64 // its number
}

// New returns the file system of a database on disk.
func New(disk vfs.FS) *FS { return &FS{FS: disk} }

// preallocStep is the number of bytes that are preallocated at a time, room for about 20,000 single calls.
const preallocStep = 512 << 10

// Create implements vfs.FS.
func (f *FS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if n, _, ok := wal.ParseLogFilename(f.PathBase(name)); ok {
		f.newestLog.Store(max(f.newestLog.Load(), uint64(n))) // logs are made one at a time
	}
	made, err := f.FS.Create(name, c)
	return preallocate(name, made, err)
}

// ReuseForWrite makes a new log: an old one would keep its content behind that of the new one, and may have been
// removed.
func (f *FS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if err := f.Remove(old); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return f.Create(name, c)
}

// Unwrap lets Pebble find the disk below.
func (f *FS) Unwrap() vfs.FS { return f.FS }

// removeLogs removes the logs of a folder up to one. All of them must be obsolete.
func (f *FS) removeLogs(dir string, upto uint64) error {
	names, err := f.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if n, _, ok := wal.ParseLogFilename(name); ok && uint64(n) <= upto {
			if err := f.Remove(f.PathJoin(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

func preallocate(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil || !strings.HasSuffix(name, ".log") || f.Fd() == vfs.InvalidFd {
		return f, err
	}
	info, err := f.Stat()
	if err != nil {
		return f, nil // correct without preallocation
	}
	return &preallocFile{File: f, size: info.Size()}, nil
}

// preallocFile is written by one goroutine at a time, from its start.
type preallocFile struct {
	vfs.File
	end, size int64 // of the written bytes, and of the file
}

var zeros [preallocStep]byte

func (f *preallocFile) Write(p []byte) (int, error) {
	if f.end+int64(len(p)) > f.size {
		n, err := f.File.WriteAt(zeros[:], f.size)
		if err != nil {
			return 0, err
		}
		f.size += int64(n)
	}
	n, err := f.File.WriteAt(p, f.end)
	f.end += int64(n)
	f.size = max(f.size, f.end)
	return n, err
}

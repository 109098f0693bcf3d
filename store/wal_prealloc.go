package store

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// preallocFS writes zeros ahead of the end of write-ahead logs. A sync that makes a file longer also needs the file system's journal,
// which takes twice as long and waits for other writes, such as those of a job. Logs that Pebble reuses have their room already.
// Pebble reads logs that end in zeros or in older content (TestPreallocatedLogIsRead). Only real files are preallocated.
type preallocFS struct{ vfs.FS }

// preallocStep is the number of bytes that are preallocated at a time, room for about 20,000 single calls.
const preallocStep = 512 << 10

func (r preallocFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := r.FS.Create(name, c)
	return preallocate(name, f, err)
}

func (r preallocFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := r.FS.ReuseForWrite(old, name, c)
	return preallocate(name, f, err)
}

// Unwrap lets Pebble find the disk below.
func (r preallocFS) Unwrap() vfs.FS { return r.FS }

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

package store

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// preallocFS is a disk whose write-ahead logs are written with zeros ahead of their end. To sync what stands where something stood
// before needs the disk alone; to sync what makes a file longer needs the file system's journal too, which takes twice as long
// and waits for whatever else is in it, such as what a list has written. Logs that Pebble uses again have their room; so it
// reads logs that end in zeros, or in what they had before (TestPreallocatedLogIsRead). Only real files are given room.
type preallocFS struct{ vfs.FS }

// preallocStep is how much room is made at a time: the sync that comes next is one of 20,000 singles.
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
		return f, nil // it needs no room to be right
	}
	return &preallocFile{File: f, size: info.Size()}, nil
}

// preallocFile is written by one goroutine at a time, from its start.
type preallocFile struct {
	vfs.File
	end, size int64 // of what was written, and of the file
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

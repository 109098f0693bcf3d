package diskroom

import (
	"os"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// View is the file system of a Room for one use.
type View struct {
	vfs.FS
	room *Room
	use  use
	open atomic.Bool // of a cache: it is neither being opened nor closed
}

type use int

const (
	forState use = iota
	forCache
	forFiles
	uses
)

// State returns the file system of a state store, and of anything that may use the room that the ballast freed.
func (r *Room) State() *View { return &View{FS: r.disk, room: r, use: forState} }

// Cache returns the file system of a cache. Until Opened is called, and after Closing, it may use the room that the
// ballast freed.
func (r *Room) Cache() *View { return &View{FS: r.disk, room: r, use: forCache} }

// Files returns the file system of files that can be written again.
func (r *Room) Files() *View { return &View{FS: r.disk, room: r, use: forFiles} }

// Opened ends the use of the freed room by the cache of fs; Closing allows it again. Both do nothing if fs is not a
// View.
func Opened(fs vfs.FS) {
	if v, ok := fs.(*View); ok {
		v.open.Store(true)
	}
}

// Closing is the reverse of Opened.
func Closing(fs vfs.FS) {
	if v, ok := fs.(*View); ok {
		v.open.Store(false)
	}
}

// Full returns a FullError if what is about to be written in fs would have to wait. Of a state store that is when a
// write waits already. It returns nil for a file system that is not a View.
func Full(fs vfs.FS) error {
	v, ok := fs.(*View)
	if !ok {
		return nil
	}
	if e := v.room.short.Load(); e != nil && (!v.usesFreedRoom() || v.room.waiting[v.use].Load() > 0) {
		return e
	}
	return nil
}

func (v *View) usesFreedRoom() bool { return v.use == forState || v.use == forCache && !v.open.Load() }

// write does op, a write that changes nothing if it fails, as the use of the view says.
func (v *View) write(op func() error) error {
	if err := v.room.Full(); err != nil && v.use == forFiles {
		return err
	}
	waits := false
	defer func() {
		if waits {
			v.room.waiting[v.use].Add(-1)
		}
	}()
	for again := false; ; again = true {
		if v.usesFreedRoom() || v.room.short.Load() == nil {
			err := op()
			if !isFull(err) {
				return err
			}
			v.room.foundFull(err)
			if v.use == forFiles {
				return &FullError{err}
			}
			if v.usesFreedRoom() && !again {
				continue // at once, with the ballast's room
			}
		}
		if !waits {
			waits = true
			v.room.waiting[v.use].Add(1)
		}
		time.Sleep(retryEvery)
	}
}

// sync is write for a sync, which must not be repeated.
func (v *View) sync(op func() error) error {
	err := op()
	if !isFull(err) {
		return err
	}
	v.room.foundFull(err)
	if v.use == forFiles {
		return &FullError{err}
	}
	v.room.log.Error("a sync failed: nothing is written until the process is started again", "folder", v.room.dir,
		"error", err)
	v.room.waiting[v.use].Add(1)
	select {}
}

func (v *View) file(open func() (vfs.File, error)) (f vfs.File, err error) {
	err = v.write(func() error {
		f, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &file{File: f, view: v}, nil
}

// Create implements vfs.FS.
func (v *View) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return v.file(func() (vfs.File, error) { return v.FS.Create(name, c) })
}

// OpenReadWrite implements vfs.FS.
func (v *View) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (vfs.File, error) {
	return v.file(func() (vfs.File, error) { return v.FS.OpenReadWrite(name, c, o...) })
}

// ReuseForWrite implements vfs.FS.
func (v *View) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return v.file(func() (vfs.File, error) { return v.FS.ReuseForWrite(from, to, c) })
}

// OpenDir implements vfs.FS.
func (v *View) OpenDir(name string) (vfs.File, error) {
	f, err := v.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &file{File: f, view: v}, nil
}

// Link implements vfs.FS.
func (v *View) Link(from, to string) error {
	return v.write(func() error { return v.FS.Link(from, to) })
}

// Rename implements vfs.FS.
func (v *View) Rename(from, to string) error {
	return v.write(func() error { return v.FS.Rename(from, to) })
}

// MkdirAll implements vfs.FS.
func (v *View) MkdirAll(dir string, mode os.FileMode) error {
	if info, err := v.FS.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	return v.write(func() error { return v.FS.MkdirAll(dir, mode) })
}

// Unwrap lets Pebble find the disk below.
func (v *View) Unwrap() vfs.FS { return v.FS }

// file is a file of a View that is written.
type file struct {
	vfs.File
	view *View
}

// Write goes on after the bytes that were written before the disk was full.
func (f *file) Write(p []byte) (done int, err error) {
	err = f.view.write(func() error {
		n, err := f.File.Write(p[done:])
		done += n
		return err
	})
	return done, err
}

func (f *file) WriteAt(p []byte, at int64) (done int, err error) {
	err = f.view.write(func() error {
		n, err := f.File.WriteAt(p[done:], at+int64(done))
		done += n
		return err
	})
	return done, err
}

func (f *file) Preallocate(from, length int64) error {
	return f.view.write(func() error { return f.File.Preallocate(from, length) })
}

func (f *file) Sync() error { return f.view.sync(f.File.Sync) }

func (f *file) SyncData() error { return f.view.sync(f.File.SyncData) }

func (f *file) SyncTo(length int64) (whole bool, err error) {
	err = f.view.sync(func() error {
		whole, err = f.File.SyncTo(length)
		return err
	})
	return whole, err
}

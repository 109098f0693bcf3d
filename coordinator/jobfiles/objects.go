package jobfiles

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Objects stores the immutable files of jobs. An object exists whole and durable or not at all, and it never changes. The methods may
// be called from any goroutine.
type Objects interface {
	// Create starts an object of a job under a new, unique name: the kind, a dash and 16 hexadecimal digits.
	Create(job, kind string) (Pending, error)
	// Open opens an object of a job. If there is none, the error wraps fs.ErrNotExist.
	Open(job, name string) (Object, error)
	// Delete deletes objects of a job, durably. A missing object is no error.
	Delete(job string, names ...string) error
	// List names the objects of a job, in no order, and those that a crash left unfinished, which cannot be opened, only deleted.
	List(job string) ([]string, error)
}

// Pending is an object that one goroutine is writing. Call Abort in the end, also after Commit.
type Pending interface {
	io.Writer
	io.ReaderAt // of the bytes written so far
	Name() string
	// Commit makes the object durable, then visible. After an error it may exist or not.
	Commit() error
	// Abort deletes the bytes written, unless Commit has succeeded. A second call does nothing.
	Abort() error
}

// Object is an open object. It can be read until it is closed, even if it is deleted meanwhile.
type Object interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

const unfinishedSuffix = ".new" // suffix of an object's file until Commit

// Folder stores objects as files in a folder for each job, where other files may be too.
type Folder struct {
	FS  vfs.FS
	Dir string // holds the folders of jobs
}

func (o *Folder) path(job, name string) string { return o.FS.PathJoin(o.Dir, job, name) }

// Create also makes the folder of the job.
func (o *Folder) Create(job, kind string) (Pending, error) {
	var b [8]byte
	rand.Read(b[:])
	name := kind + "-" + hex.EncodeToString(b[:])
	if err := o.FS.MkdirAll(o.FS.PathJoin(o.Dir, job), 0o700); err != nil {
		return nil, err
	}
	f, err := o.FS.Create(o.path(job, name)+unfinishedSuffix, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return &pendingFile{folder: o, job: job, name: name, f: f}, nil
}

// Open opens the file of an object.
func (o *Folder) Open(job, name string) (Object, error) {
	f, err := o.FS.Open(o.path(job, name))
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &objectFile{f, info.Size()}, nil
}

// Delete removes the files and syncs the folder.
func (o *Folder) Delete(job string, names ...string) error {
	if err := o.remove(job, names...); err != nil || len(names) == 0 {
		return err
	}
	return o.sync(o.FS.PathJoin(o.Dir, job))
}

func (o *Folder) remove(job string, names ...string) (err error) {
	for _, name := range names {
		for _, path := range [...]string{o.path(job, name), o.path(job, name) + unfinishedSuffix} {
			if failed := o.FS.Remove(path); failed != nil {
				if _, exists := o.FS.Stat(path); exists == nil {
					err = errors.Join(err, failed)
				}
			}
		}
	}
	return err
}

// List lists the folder of a job, without files that are no objects.
func (o *Folder) List(job string) (names []string, err error) {
	found, err := o.FS.List(o.FS.PathJoin(o.Dir, job))
	for _, name := range found {
		if name = strings.TrimSuffix(name, unfinishedSuffix); isObject(name) {
			names = append(names, name)
		}
	}
	return names, err
}

// isObject reports whether a name has the form that Create gives.
func isObject(name string) bool {
	_, id, found := strings.Cut(name, "-")
	b, err := hex.DecodeString(id)
	return found && err == nil && len(b) == 8
}

func (o *Folder) sync(dir string) error {
	d, err := o.FS.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// pendingFile is an object of a Folder that is being written.
type pendingFile struct {
	folder    *Folder
	job, name string
	f         vfs.File // nil once it is closed
	closed    bool     // committed or aborted
}

func (p *pendingFile) Name() string                               { return p.name }
func (p *pendingFile) Write(b []byte) (int, error)                { return p.f.Write(b) }
func (p *pendingFile) ReadAt(b []byte, at int64) (n int, e error) { return p.f.ReadAt(b, at) }

func (p *pendingFile) close() error {
	f := p.f
	p.f = nil
	return f.Close()
}

// Commit also makes the job's folder durable, which may be new.
func (p *pendingFile) Commit() error {
	err := p.f.Sync()
	if err = errors.Join(err, p.close()); err != nil {
		return err
	}
	o := p.folder
	path := o.path(p.job, p.name)
	if err := o.FS.Rename(path+unfinishedSuffix, path); err != nil {
		return err
	}
	for _, dir := range [...]string{o.FS.PathJoin(o.Dir, p.job), o.Dir, o.FS.PathDir(o.Dir)} {
		if err := o.sync(dir); err != nil {
			return err
		}
	}
	p.closed = true
	return nil
}

func (p *pendingFile) Abort() (err error) {
	if p.closed {
		return nil
	}
	p.closed = true
	if p.f != nil {
		err = p.close()
	}
	return errors.Join(err, p.folder.remove(p.job, p.name))
}

type objectFile struct {
	vfs.File
	size int64
}

func (o *objectFile) Size() int64 { return o.size }

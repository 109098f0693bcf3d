package jobfiles

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/internal/wholefile"
)

// Folder has the immutable files of jobs, the objects, in a folder for each job, where other files may be too. An
// object exists whole and durable or not at all, and it never changes. The methods may be called from any goroutine.
type Folder struct {
	FS  vfs.FS
	Dir string // holds the folders of jobs
}

// Path returns the path of a file of a job, or that of its folder.
func (f *Folder) Path(job string, file ...string) string {
	return f.FS.PathJoin(append([]string{f.Dir, job}, file...)...)
}

// Create starts an object of a job under a new, unique name: the kind, a dash and 16 hexadecimal digits. It also makes
// the job's folder.
func (f *Folder) Create(job, kind string) (*Pending, error) {
	var b [8]byte
	rand.Read(b[:])
	p := &Pending{folder: f, job: job, name: kind + "-" + hex.EncodeToString(b[:])}
	if err := f.FS.MkdirAll(f.Path(job), 0o700); err != nil {
		return nil, err
	}
	var err error
	p.f, err = f.FS.Create(f.Path(job, p.name)+wholefile.New, vfs.WriteCategoryUnspecified)
	return p, err
}

// Open opens an object of a job. If there is none, the error wraps fs.ErrNotExist. It can be read until it is closed,
// even if it is deleted meanwhile.
func (f *Folder) Open(job, name string) (vfs.File, error) { return f.FS.Open(f.Path(job, name)) }

// Remove removes files of a job up to the first that cannot be removed. A missing file is no error. The folder is not
// synced.
func (f *Folder) Remove(job string, files ...string) error {
	for _, name := range files {
		path := f.Path(job, name)
		if err := f.FS.Remove(path); err != nil {
			if _, exists := f.FS.Stat(path); exists == nil {
				return err
			}
		}
	}
	return nil
}

// Delete deletes objects of a job, durably. A missing object is no error.
func (f *Folder) Delete(job string, names ...string) (err error) {
	for _, name := range names {
		err = errors.Join(err, f.Remove(job, name), f.Remove(job, name+wholefile.New))
	}
	if err != nil || len(names) == 0 {
		return err
	}
	return wholefile.SyncDir(f.FS, f.Path(job))
}

// List names the objects of a job, in no order, and those that a crash left unfinished, which cannot be opened, only
// deleted.
func (f *Folder) List(job string) (names []string, err error) {
	found, err := f.FS.List(f.Path(job))
	for _, name := range found {
		name = strings.TrimSuffix(name, wholefile.New)
		_, id, found := strings.Cut(name, "-")
		if b, err := hex.DecodeString(id); found && err == nil && len(b) == 8 { // as Create names them
			names = append(names, name)
		}
	}
	return names, err
}

// Pending is an object that one goroutine is writing. Call Abort in the end, also after Commit.
type Pending struct {
	folder    *Folder
	job, name string
	f         vfs.File // nil once it is closed
	closed    bool     // committed or aborted
}

// Name is the name of the object.
func (p *Pending) Name() string { return p.name }

func (p *Pending) Write(b []byte) (int, error) { return p.f.Write(b) }

// ReadAt reads the bytes written so far.
func (p *Pending) ReadAt(b []byte, at int64) (n int, e error) { return p.f.ReadAt(b, at) }

func (p *Pending) close() error {
	f := p.f
	p.f = nil
	return f.Close()
}

// Commit makes the object durable, then visible, and then the job's folder durable, which may be new. After an error
// the object may exist or not.
func (p *Pending) Commit() error {
	err := p.f.Sync()
	if err = errors.Join(err, p.close()); err != nil {
		return err
	}
	o := p.folder
	path := o.Path(p.job, p.name)
	if err := o.FS.Rename(path+wholefile.New, path); err != nil {
		return err
	}
	for _, dir := range [...]string{o.Path(p.job), o.Dir, o.FS.PathDir(o.Dir)} {
		if err := wholefile.SyncDir(o.FS, dir); err != nil {
			return err
		}
	}
	p.closed = true
	return nil
}

// Abort deletes the bytes written, unless Commit has succeeded. A second call does nothing.
func (p *Pending) Abort() (err error) {
	if p.closed {
		return nil
	}
	p.closed = true
	if p.f != nil {
		err = p.close()
	}
	return errors.Join(err, p.folder.Remove(p.job, p.name), p.folder.Remove(p.job, p.name+wholefile.New))
}

package jobfiles

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

func TestFolderKeepsObjects(t *testing.T) {
	testObjects(t, func(_ *testing.T) *Folder { return &Folder{vfs.NewMem(), "data/jobs"} })
}

func TestFolderOnDiskKeepsObjects(t *testing.T) {
	testObjects(t, func(t *testing.T) *Folder { return &Folder{vfs.Default, path.Join(t.TempDir(), "jobs")} })
}

// putObject makes an object.
func putObject(o *Folder, job, kind, text string) (name string, err error) {
	p, err := o.Create(job, kind)
	if err != nil {
		return "", err
	}
	_, err = p.Write([]byte(text))
	if err == nil {
		err = p.Commit()
	}
	return p.Name(), errors.Join(err, p.Abort())
}

func readObject(t testing.TB, o *Folder, job, name string) string {
	t.Helper()
	object, err := o.Open(job, name)
	require.NoError(t, err)
	b, err := io.ReadAll(object)
	require.NoError(t, errors.Join(err, object.Close()))
	return string(b)
}

func listObjects(t testing.TB, o *Folder, job string) []string {
	t.Helper()
	names, err := o.List(job)
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	slices.Sort(names)
	return names
}

// testObjects checks the contract of objects.
func testObjects(t *testing.T, open func(*testing.T) *Folder) {
	t.Run("an object is read as it was written, whole and in parts", func(t *testing.T) {
		o := open(t)
		p, err := o.Create("j", "upload")
		require.NoError(t, err)
		for _, text := range []string{"one ", "", "two ", "three"} {
			_, err = p.Write([]byte(text))
			require.NoError(t, err)
		}
		require.NoError(t, p.Commit())
		require.NoError(t, p.Abort(), "after Commit it does nothing")
		require.Equal(t, "one two three", readObject(t, o, "j", p.Name()))
		object, err := o.Open("j", p.Name())
		require.NoError(t, err)
		info, err := object.Stat()
		require.NoError(t, err)
		require.EqualValues(t, 13, info.Size())
		b := make([]byte, 8)
		_, err = object.ReadAt(b[:3], 4)
		require.NoError(t, err)
		require.Equal(t, "two", string(b[:3]))
		n, err := object.ReadAt(b, 8)
		require.ErrorIs(t, err, io.EOF)
		require.Equal(t, "three", string(b[:n]))
		require.NoError(t, object.Close())
	})
	t.Run("an object of no bytes", func(t *testing.T) {
		o := open(t)
		name, err := putObject(o, "j", "upload", "")
		require.NoError(t, err)
		require.Empty(t, readObject(t, o, "j", name))
	})
	t.Run("nothing is visible before Commit, and what was written can be read", func(t *testing.T) {
		o := open(t)
		p, err := o.Create("j", "upload")
		require.NoError(t, err)
		_, err = p.Write([]byte("text"))
		require.NoError(t, err)
		_, err = o.Open("j", p.Name())
		require.ErrorIs(t, err, fs.ErrNotExist)
		b := make([]byte, 2)
		_, err = p.ReadAt(b, 1)
		require.NoError(t, err)
		require.Equal(t, "ex", string(b))
		require.NoError(t, p.Commit())
		require.Equal(t, []string{p.Name()}, listObjects(t, o, "j"))
	})
	t.Run("nothing is left after Abort", func(t *testing.T) {
		o := open(t)
		p, err := o.Create("j", "upload")
		require.NoError(t, err)
		require.NoError(t, p.Abort())
		require.NoError(t, p.Abort())
		_, err = o.Open("j", p.Name())
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Empty(t, listObjects(t, o, "j"))
	})
	t.Run("names are of their kind, of their job, and given once", func(t *testing.T) {
		o := open(t)
		var names []string
		for range 100 {
			name, err := putObject(o, "j", "rows", "x")
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(name, "rows-"), name)
			names = append(names, name)
		}
		slices.Sort(names)
		require.Len(t, slices.Compact(names), 100)
		require.Equal(t, names, listObjects(t, o, "j"))
		require.Empty(t, listObjects(t, o, "k"))
		_, err := o.Open("k", names[0])
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
	t.Run("a deleted object is gone, but from those that have it open", func(t *testing.T) {
		o := open(t)
		gone, err := putObject(o, "j", "upload", "gone")
		require.NoError(t, err)
		kept, err := putObject(o, "j", "upload", "kept")
		require.NoError(t, err)
		object, err := o.Open("j", gone)
		require.NoError(t, err)
		require.NoError(t, o.Delete("j", gone, "upload-0000000000000000"))
		require.NoError(t, o.Delete("j", gone))
		require.NoError(t, o.Delete("j"))
		b := make([]byte, 4)
		_, err = object.ReadAt(b, 0)
		require.NoError(t, err)
		require.Equal(t, "gone", string(b))
		require.NoError(t, object.Close())
		_, err = o.Open("j", gone)
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.Equal(t, []string{kept}, listObjects(t, o, "j"))
	})
}

// TestFolderListsOnlyObjects: a job has other files there.
func TestFolderListsOnlyObjects(t *testing.T) {
	disk := vfs.NewMem()
	o := &Folder{disk, "jobs"}
	name, err := putObject(o, "j", "upload", "x")
	require.NoError(t, err)
	for _, other := range []string{"rows", "results.new", "upload-x", "upload-", "-", "upload-00112233445566778",
		"upload-0011223344556677"} {
		writeFile(t, disk, "jobs/j/"+other, []byte("x"))
	}
	require.Equal(t, slices.Sorted(slices.Values([]string{name, "upload-0011223344556677"})), listObjects(t, o, "j"))
}

// TestObjectIsWholeOrAbsent fails each step of writing an object, failed and failed but persisted, and cuts the power.
// An object that opens is whole, a committed one is there, and leftovers can be listed and deleted.
func TestObjectIsWholeOrAbsent(t *testing.T) {
	const text = "a text"
	for _, persist := range []bool{false, true} {
		steps := 0
		for n, more := 1, true; more; n++ {
			disk := crashableDisk(t)
			failing := &failingFS{FS: disk, persistFailed: persist, stepsLeft: n}
			p, err := (&Folder{failing, "data/jobs"}).Create("j", "upload")
			committed := false
			if err == nil {
				_, err = p.Write([]byte(text))
				if err == nil {
					err = p.Commit()
				}
				committed = err == nil
			}
			more = failing.stepsLeft <= 0
			after := &Folder{disk.CrashClone(vfs.CrashCloneCfg{}), "data/jobs"}
			if more {
				steps++
				require.ErrorIs(t, err, errFailing)
			} else {
				require.True(t, committed)
			}
			if p == nil {
				continue
			}
			object, err := after.Open("j", p.Name())
			if err == nil {
				require.NoError(t, object.Close())
				require.Equal(t, text, readObject(t, after, "j", p.Name()))
			} else {
				require.ErrorIs(t, err, fs.ErrNotExist)
				require.False(t, committed)
			}
			if committed {
				continue
			}
			require.NoError(t, after.Delete("j", listObjects(t, after, "j")...))
			require.Empty(t, listObjects(t, after, "j"))
			require.NoError(t, p.Abort(), "the disk is well again")
			require.Empty(t, listObjects(t, &Folder{disk, "data/jobs"}, "j"))
		}
		require.Equal(t, 7, steps, "create, write, sync, rename, three folders")
	}
}

// TestDeletedObjectStaysDeleted after a power cut.
func TestDeletedObjectStaysDeleted(t *testing.T) {
	disk := crashableDisk(t)
	o := &Folder{disk, "data/jobs"}
	name, err := putObject(o, "j", "upload", "x")
	require.NoError(t, err)
	require.NoError(t, o.Delete("j", name))
	require.Empty(t, listObjects(t, &Folder{disk.CrashClone(vfs.CrashCloneCfg{}), "data/jobs"}, "j"))
}

// crashableDisk makes a disk with a durable folder "data".
func crashableDisk(t *testing.T) *vfs.MemFS {
	disk := vfs.NewCrashableMem()
	require.NoError(t, disk.MkdirAll("data", 0o700))
	root, err := disk.OpenDir("")
	require.NoError(t, err)
	require.NoError(t, errors.Join(root.Sync(), root.Close()))
	return disk
}

var errFailing = errors.New("the disk failed")

// failingFS fails the n-th step that must be durable, before or after it took effect.
type failingFS struct {
	vfs.FS
	stepsLeft     int
	persistFailed bool
}

func (f *failingFS) step(do func() error) error {
	f.stepsLeft--
	if f.stepsLeft != 0 {
		return do()
	}
	if f.persistFailed {
		if err := do(); err != nil {
			return err
		}
	}
	return errFailing
}

func (f *failingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	var file vfs.File
	err := f.step(func() (err error) { file, err = f.FS.Create(name, c); return err })
	if err != nil {
		return nil, err
	}
	return &failingFile{file, f}, nil
}

func (f *failingFS) OpenDir(name string) (vfs.File, error) {
	file, err := f.FS.OpenDir(name)
	return &failingFile{file, f}, err
}

func (f *failingFS) Rename(from, to string) error {
	return f.step(func() error { return f.FS.Rename(from, to) })
}

type failingFile struct {
	vfs.File
	fs *failingFS
}

func (f *failingFile) Sync() error { return f.fs.step(f.File.Sync) }

func (f *failingFile) Write(b []byte) (n int, err error) {
	err = f.fs.step(func() (err error) { n, err = f.File.Write(b); return err })
	return n, err
}

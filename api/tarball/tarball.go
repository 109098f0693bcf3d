package tarball

import (
	"archive/tar"
	"fmt"
	"io"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// AddFolder packs the files of a folder, under names that begin with prefix. State is at most three levels deep.
func AddFolder(t *tar.Writer, fs vfs.FS, dir, prefix string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		switch {
		case err == nil && info.IsDir():
			err = AddFolder(t, fs, path, prefix+name+"/")
		case err == nil:
			err = addFile(t, fs, path, prefix+name)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func addFile(t *tar.Writer, fs vfs.FS, path, name string) error {
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600,
		Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.CopyN(t, f, info.Size())
	return err
}

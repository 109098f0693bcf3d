package wholefile

import (
	"errors"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// New is the suffix of a file that is not whole yet.
const New = ".new"

// Write creates a file with these bytes and makes them durable.
func Write(fs vfs.FS, path string, b []byte) error {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// SyncDir makes the names in a folder durable.
func SyncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

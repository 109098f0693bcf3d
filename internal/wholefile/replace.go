package wholefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Replace writes a file atomically and durably: to a temporary name, synced, renamed, and the name synced. After it the
// source of the content may be removed.
func Replace(path string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	err = errors.Join(write(f), f.Sync(), f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return SyncDir(vfs.Default, filepath.Dir(path))
}

// WriteFolder lets write make a folder. The folder gets its name only when everything in it is complete and durable:
// half a store would be served as a new one.
func WriteFolder(dir string, write func(part string) error) (err error) {
	part := dir + ".part"
	if _, err := os.Lstat(part); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is there, left by a copy that was broken off: remove it and try again", part)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(part))
		}
	}()
	if err := write(part); err != nil {
		return err
	}
	if err := syncTree(part); err != nil {
		return err
	}
	if err := os.Rename(part, dir); err != nil {
		return err
	}
	return SyncDir(vfs.Default, filepath.Dir(dir))
}

// syncTree makes the names in a folder and below it durable.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return SyncDir(vfs.Default, path)
	})
}

package admin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"probity/internal/pipeline"
)

// copyFolder copies a folder durably, for its owner alone, until ctx ends. Of a link, what it leads to is copied. The
// target must not exist; a missing source counts as empty.
func copyFolder(ctx context.Context, from, to string) error {
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return os.Mkdir(to, 0o700)
	}
	source := os.DirFS(from)
	return fs.WalkDir(source, ".", func(name string, d fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		target := filepath.Join(to, filepath.FromSlash(name))
		switch {
		case d.IsDir():
			return os.Mkdir(target, 0o700)
		case d.Type()&^fs.ModeSymlink != 0:
			return fmt.Errorf("%s is not a regular file", filepath.Join(from, filepath.FromSlash(name)))
		}
		f, err := source.Open(name)
		if err != nil {
			return err
		}
		return errors.Join(writeCopy(target, pipeline.ContextReader{Context: ctx, Reader: f}), f.Close())
	})
}

// writeCopy makes a file durably, for its owner alone.
func writeCopy(path string, content io.Reader) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, content); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close())
}

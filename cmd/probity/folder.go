package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

// othersBits are the rights of everyone but the owner.
const othersBits = 0o077

// closeFolder makes a data folder, or closes one that exists to all but its owner: 0700 for folders, 0600 for files. What this process
// makes from now on has no rights for others either, so that a folder that belongs to someone else, as a volume may, shows names only.
// An error that is fs.ErrPermission means that something in it stays open.
func closeFolder(dir string) error {
	syscall.Umask(othersBits)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	top, err := os.Stat(dir)
	if err != nil || top.Mode().Perm()&othersBits == 0 {
		return err // it was made by us, or closed before, with all that is in it
	}
	var open []error
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && path != dir && e.Type()&fs.ModeSymlink == 0 {
			err = closeOne(path, e)
		}
		if !errors.Is(err, fs.ErrPermission) {
			return passGone(err)
		}
		if len(open) < maxOpen {
			open = append(open, err)
		}
		return nil
	})
	// The folder itself comes last, so that an interrupted start begins anew. One of another owner is no matter: what is in it is closed.
	if top := os.Chmod(dir, top.Mode().Perm()&^othersBits); !errors.Is(top, fs.ErrPermission) {
		err = errors.Join(err, top)
	}
	return errors.Join(append(open, err)...)
}

// maxOpen bounds the paths that an error of closeFolder names.
const maxOpen = 10

func closeOne(path string, e fs.DirEntry) error {
	info, err := e.Info()
	if err != nil || info.Mode().Perm()&othersBits == 0 {
		return err
	}
	return os.Chmod(path, info.Mode().Perm()&^othersBits)
}

// passGone is nil where a file went away meanwhile.
func passGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// ownFolder closes a data folder for as far as it is ours. The command that serves from it says what stays open.
func ownFolder(dir string) error {
	if err := closeFolder(dir); !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// serveFolder closes the data folder of a service.
func serveFolder(dir string, log *slog.Logger) error {
	err := closeFolder(dir)
	if errors.Is(err, fs.ErrPermission) {
		log.Warn("other users of this machine can read some of the data folder; change its owner to the user of this process", "data", dir, "error", err)
		return nil
	}
	return err
}

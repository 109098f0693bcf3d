package datafolder

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
)

// otherUsersBits are the rights of everyone but the owner.
const otherUsersBits = 0o077

// writeAndSearch are the rights that a process needs on its data folder, as access(2) has them.
const writeAndSearch = 0x2 | 0x1

// restrict makes a data folder, or takes the rights of all other users from an existing one: 0700 for folders, 0600 for
// files. It also sets the umask, so that in a folder of another owner (a volume, for example) others see only names.
// The first errors say what stays open in the folder because another user owns it.
func restrict(dir string) (open []error, err error) {
	syscall.Umask(otherUsersBits)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := syscall.Access(dir, writeAndSearch); err != nil {
		return nil, &fs.PathError{Op: "access", Path: dir, Err: err}
	}
	top, err := os.Stat(dir)
	if err != nil || top.Mode().Perm()&otherUsersBits == 0 {
		return nil, err // made by us or restricted before, with its content
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && path != dir && e.Type()&fs.ModeSymlink == 0 {
			var info fs.FileInfo
			info, err = e.Info()
			if err == nil && info.Mode().Perm()&otherUsersBits != 0 {
				err = os.Chmod(path, info.Mode().Perm()&^otherUsersBits)
			}
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // it was removed during the walk
		case !errors.Is(err, fs.ErrPermission):
			return err
		case len(open) < maxNamedPaths:
			open = append(open, err)
		}
		return nil
	})
	// The folder itself comes last, so that an interrupted start begins again. A folder of another owner is accepted:
	// its content is restricted.
	if top := os.Chmod(dir, top.Mode().Perm()&^otherUsersBits); !errors.Is(top, fs.ErrPermission) {
		err = errors.Join(err, top)
	}
	return open, err
}

// maxNamedPaths bounds the errors about what stays open.
const maxNamedPaths = 10

// RestrictOwn restricts what we own of a data folder. The command that serves from the folder warns about the rest.
func RestrictOwn(dir string) error {
	_, err := restrict(dir)
	return err
}

// Restrict restricts the data folder of a service, and warns if some of it stays open.
func Restrict(dir string, log *slog.Logger) error {
	open, err := restrict(dir)
	if len(open) > 0 {
		log.Warn("other users of this machine can read some of the data folder; change its owner to the user of this process", "data", dir, "error", errors.Join(open...))
	}
	return err
}

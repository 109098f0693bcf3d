package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// errorText is an error as shown to the user. A system error about a file, such as "stat nofile: no such file or
// directory", is replaced by what to do; the rest of the text stays.
func errorText(err error) string {
	text := err.Error()
	var file *fs.PathError
	if !errors.As(err, &file) {
		return text
	}
	return strings.Replace(text, file.Error(), describeFileError(file), 1)
}

// describeFileError says what is wrong with a file, and what to do.
func describeFileError(e *fs.PathError) string {
	switch {
	case errors.Is(e, fs.ErrNotExist):
		return "there is no " + e.Path + ": check its name, and the folder that it should be in"
	case errors.Is(e, fs.ErrPermission):
		if _, err := os.Lstat(e.Path); errors.Is(err, fs.ErrNotExist) {
			folder, _ := filepath.Abs(filepath.Dir(e.Path))
			return e.Path + " cannot be made, as " + folder +
				" is closed to this user: change the rights of that folder, or run as another user"
		}
		return e.Path + " is closed to this user: change its rights, or run as another user"
	case errors.Is(e, syscall.EROFS):
		return e.Path + " is on a read-only file system: mount it for writing, or name another place"
	case errors.Is(e, syscall.EISDIR):
		return e.Path + " is a folder: name a file"
	case errors.Is(e, syscall.ENOTDIR):
		return e.Path + " cannot be: a part of it is a file and no folder"
	}
	return e.Error()
}

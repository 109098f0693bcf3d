package wholefile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Secret is a file that only its owner may read.
type Secret struct {
	Path string
	Data []byte
}

// WriteNewSecrets writes files that must not exist yet. If one cannot be written, those before it are removed.
func WriteNewSecrets(files []Secret) (err error) {
	var made []string
	defer func() {
		if err != nil {
			for _, path := range made {
				err = errors.Join(err, os.Remove(path))
			}
		}
	}()
	for _, f := range files {
		if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
			return err
		}
		if err := writeSync(f, os.O_CREATE|os.O_EXCL); err != nil {
			if errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("%s is there already; move it away if you mean to replace it", f.Path)
			}
			return err
		}
		made = append(made, f.Path)
	}
	return nil
}

// writeSync writes a file and makes its content durable.
func writeSync(f Secret, flags int) error {
	file, err := os.OpenFile(f.Path, os.O_WRONLY|flags, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(f.Data)
	return errors.Join(err, file.Sync(), file.Close())
}

// ReplaceSecret replaces a file atomically and durably: a reader sees the old file or the new one.
func ReplaceSecret(path string, data []byte) error {
	tempFile := Secret{path + New, data}
	if err := writeSync(tempFile, os.O_CREATE|os.O_TRUNC); err != nil {
		return err
	}
	if err := os.Rename(tempFile.Path, path); err != nil {
		return err
	}
	return SyncDir(vfs.Default, filepath.Dir(path))
}

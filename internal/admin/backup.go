package admin

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"probity/internal/console"
	"probity/internal/wholefile"
)

type backupCmd struct {
	targetFlags
	Jobs bool   `help:"Copy the files of jobs too: the copy is a whole data folder, but for the cache. Without them, it is what state is in the data folder."`
	Dir  string `arg:"" type:"path" help:"A folder that does not exist; probity restore makes a data folder of it."`
}

// Run writes the copy.
func (c *backupCmd) Run(ctx context.Context, con *console.IO) error {
	if _, err := os.Lstat(c.Dir); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s exists: a backup goes to a folder of its own", c.Dir)
	}
	return c.withClient(con, func(o client) error {
		path := "/v1/admin/backup"
		if c.Jobs {
			path += "?jobs=true"
		}
		ask := func() (io.ReadCloser, error) { return o.api.Call(ctx, http.MethodPost, path, "", nil) }
		if err := writeBackup(c.Dir, ask); err != nil {
			return err
		}
		_, err := fmt.Fprintf(con.Err, "backup written to %s\n", c.Dir)
		return err
	})
}

// Limits of a backup, and the name of its last, empty entry. The number of files is not limited, since each job has
// some. If the disk is full, the backup fails and its files are removed.
const (
	backupEndEntry = "complete"
	maxBackupDepth = 2 // jobs, the job, its file

	maxAfterEnd = 20 * 512 // bytes after the last entry: tar's two empty blocks, or as many as fill a record
)

// writeBackup makes a folder, asks for the backup, and writes its files there. The folder comes first: the server
// counts a backup as taken once it has sent all of it.
func writeBackup(dir string, ask func() (io.ReadCloser, error)) error {
	return wholefile.WriteFolder(dir, func(part string) error {
		if err := os.Mkdir(part, 0o700); err != nil {
			return fmt.Errorf("no backup was asked for: %w; name a folder that can be made", err)
		}
		sums, err := os.OpenFile(filepath.Join(part, sumsFile), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		err = takeBackup(ask, func(name string, r io.Reader) error { return unpackFile(r, part, name, sums) })
		return errors.Join(err, sums.Sync(), sums.Close())
	})
}

// takeBackup asks for a backup and reads it to the end of the answer: the server records the backup before it ends
// that.
func takeBackup(ask func() (io.ReadCloser, error), writeEntry func(name string, r io.Reader) error) error {
	body, err := ask()
	if err != nil {
		return err
	}
	err = unpack(tar.NewReader(body), writeEntry)
	if err == nil {
		_, err = io.CopyN(io.Discard, body, maxAfterEnd+1)
		switch err {
		case nil:
			err = errors.New("the server sends more after the end of the backup: name a Probity server")
		case io.EOF:
			err = nil
		}
	}
	return errors.Join(err, body.Close())
}

// unpack calls writeEntry with each file of a backup and its name in the folder.
func unpack(t *tar.Reader, writeEntry func(name string, r io.Reader) error) error {
	for {
		h, err := t.Next()
		switch {
		case errors.Is(err, io.EOF):
			return errors.New("the backup broke off: try again")
		case err != nil:
			return fmt.Errorf("backup: %w", err)
		case h.Name == backupEndEntry:
			return nil
		case h.Typeflag != tar.TypeReg || !filepath.IsLocal(h.Name) || strings.Count(h.Name, "/") > maxBackupDepth:
			return fmt.Errorf("the backup has an entry %q that is not a file of a store", h.Name)
		}
		if err := writeEntry(filepath.FromSlash(h.Name), t); err != nil {
			return err
		}
	}
}

// unpackFile writes a file of the backup, and its line of sums.
func unpackFile(r io.Reader, dir, name string, sums io.Writer) error {
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	hash := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, hash), r)
	if err == nil {
		_, err = io.WriteString(sums, sumLine(hash.Sum(nil), filepath.ToSlash(name)))
	}
	return errors.Join(err, f.Sync(), f.Close())
}

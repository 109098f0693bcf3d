package api

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/api/httpd"
	"probity/api/tarball"
)

// The prefix of a backup's scratch folder, and the name of the archive's last, empty entry: an archive without it is
// incomplete.
const (
	backupPrefix = "backup-"
	backupEnd    = "complete"
)

// sendBackup serves the state store, and the files of jobs if wanted, as a tar archive. It makes a copy first and packs
// it while it is sent. A backup is taken when the client has read the whole archive; only then it is recorded, before
// the answer ends.
func sendBackup(c *call) error {
	s := c.srv
	jobs, err := c.QueryFlag("jobs")
	if err != nil {
		return err
	}
	if !s.backupRunning.CompareAndSwap(false, true) {
		return httpd.Busy("Another backup is under way")
	}
	dir, err := s.prepareBackup(c.ID, jobs)
	if err != nil {
		s.backupRunning.Store(false)
		return err
	}
	by := actor(c)
	r, w := io.Pipe()
	s.http.Stream(func() {
		defer s.backupRunning.Store(false)
		err := errors.Join(writeBackup(w, s.deps.FS, dir), s.deps.FS.RemoveAll(dir))
		if err == nil {
			err = s.deps.Store.RecordBackup(by, s.now())
		}
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			s.log.Error("backup", "error", err)
		}
		w.CloseWithError(err)
	})
	c.Ctx.Response.SetStatusCode(httpd.StatusOK)
	c.Ctx.Response.Header.SetContentType("application/x-tar")
	c.Ctx.Response.Header.Set("Cache-Control", "no-store")
	c.Ctx.Response.SetBodyStream(r, -1)
	return nil
}

// prepareBackup removes what a crash left of other backups and makes the copy.
func (s *Server) prepareBackup(id string, jobs bool) (dir string, err error) {
	fs, scratch := s.deps.FS, s.deps.Scratch
	if err := fs.MkdirAll(scratch, 0o700); err != nil {
		return "", fmt.Errorf("scratch: %w", err)
	}
	left, err := fs.List(scratch)
	for _, name := range left {
		if strings.HasPrefix(name, backupPrefix) {
			err = errors.Join(err, fs.RemoveAll(fs.PathJoin(scratch, name)))
		}
	}
	if err != nil {
		return "", fmt.Errorf("scratch: %w", err)
	}
	dir = fs.PathJoin(scratch, backupPrefix+id)
	if jobs {
		err = s.deps.Coordinator.Backup(s.http.StopContext(), dir, s.deps.Store.Checkpoint)
	} else {
		err = s.deps.Store.Checkpoint(dir)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("backup: %w", err), fs.RemoveAll(dir))
	}
	return dir, nil
}

// writeBackup writes the files of a folder as an archive that ends with the entry backupEnd. It returns when all of it
// has been read from the pipe.
func writeBackup(w *io.PipeWriter, fs vfs.FS, dir string) error {
	buffered := bufio.NewWriterSize(w, 64<<10)
	t := tar.NewWriter(buffered)
	if err := tarball.AddFolder(t, fs, dir, ""); err != nil {
		return err
	}
	return errors.Join(t.WriteHeader(&tar.Header{Name: backupEnd, Typeflag: tar.TypeReg, Mode: 0o600}), t.Close(),
		buffered.Flush())
}

package api

import (
	"archive/tar"
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/store"
)

// The scratch folder of a backup, and the name of the last, empty entry of the archive: without it, it is not whole.
const (
	backupPrefix = "backup-"
	backupEnd    = "complete"
)

// sendBackup serves a copy of the state store as a tar archive, made while it is sent from a checkpoint that is taken now.
func (x *exchange) sendBackup() error {
	s := x.srv
	if !s.backing.CompareAndSwap(false, true) {
		return busy("Another backup is under way")
	}
	dir, err := s.checkpoint(x.id)
	if err == nil {
		err = s.rooms.Store.Audit(store.Act{At: s.now(), By: x.by(), Act: "backup", Target: "the state store"})
	}
	if err != nil {
		s.backing.Store(false)
		return err
	}
	r, w := io.Pipe()
	s.streams.Go(func() {
		defer s.backing.Store(false)
		err := errors.Join(writeBackup(w, s.rooms.FS, dir), s.rooms.FS.RemoveAll(dir))
		if err != nil && !errors.Is(err, io.ErrClosedPipe) {
			s.log.Error("backup", "error", err)
		}
		w.CloseWithError(err)
	})
	x.ctx.Response.SetStatusCode(statusOK)
	x.ctx.Response.Header.SetContentType("application/x-tar")
	x.ctx.Response.Header.Set("Cache-Control", "no-store")
	x.ctx.Response.SetBodyStream(struct {
		io.Reader
		io.Closer
	}{bufio.NewReaderSize(r, 64<<10), r}, -1)
	return nil
}

// checkpoint makes the copy, after what a crash left of others.
func (s *Server) checkpoint(id string) (dir string, err error) {
	fs, scratch := s.rooms.FS, s.rooms.Scratch
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
	if err := s.rooms.Store.Checkpoint(dir); err != nil {
		return "", errors.Join(fmt.Errorf("checkpoint: %w", err), fs.RemoveAll(dir))
	}
	return dir, nil
}

// writeBackup writes the files of a folder as an archive that ends with an entry of its own.
func writeBackup(w io.Writer, fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	for _, name := range names {
		if err := packFile(t, fs, dir, name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return errors.Join(t.WriteHeader(&tar.Header{Name: backupEnd, Typeflag: tar.TypeReg, Mode: 0o600}), t.Close())
}

func packFile(t *tar.Writer, fs vfs.FS, dir, name string) error {
	f, err := fs.Open(fs.PathJoin(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := t.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: info.Size()}); err != nil {
		return err
	}
	_, err = io.CopyN(t, f, info.Size())
	return err
}

package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/internal/console"
	"probity/internal/datafolder"
	"probity/store"
)

// createFirstAdmin creates the admin of an empty store, and its key if --first-key names a file. The password is
// written to the disk, for the folder's owner only, before the account: if the start ends between the two, the next one
// writes the file again. Neither password nor key is ever in the log. A store with accounts and no active admin is
// warned of.
func (s *Service) createFirstAdmin(ctx context.Context, w io.Writer) error {
	if users := s.node.Store.Users(); len(users) > 0 {
		if !slices.ContainsFunc(users, store.User.IsActiveAdmin) {
			s.Log.Warn("no account is an active admin: stop the server, then probity user add EMAIL --role admin, or user enable EMAIL", "data", s.flags.Data)
		}
		return nil
	}
	keyFile := s.flags.FirstKey
	if keyFile != "" {
		if err := makeKeyFile(s.Disk, keyFile); err != nil {
			return err
		}
	}
	path, password := filepath.Join(s.flags.Data, datafolder.FirstPasswordFile), store.RandomPassword()
	if err := writeSecret(s.Disk, path, password+"\n"); err != nil {
		return fmt.Errorf("password of the first admin: %w", err)
	}
	user, _, err := s.node.Store.FirstAdmin(ctx, s.flags.AdminEmail, password, s.flags.InitialCredits, time.Now())
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "This store is new. Its admin is %s, with %s; the password is in %s: read it, sign in, change it and delete the file.\n",
		user.Email, console.Counted(s.flags.InitialCredits, "credit"), path)
	if err != nil {
		return err
	}
	if keyFile == "" {
		_, err = fmt.Fprintf(w, "Make a key: probity key create --data %s --user %s --name first (with the server stopped)\n",
			s.flags.Data, user.Email)
		return err
	}
	secret, _, err := s.node.Store.CreateKey(user.ID, store.NewKey{Name: "first",
		Scopes: store.ScopeVerify | store.ScopeJobs | store.ScopeAccount | store.ScopeAdmin}, "first start", time.Now())
	if err != nil {
		return fmt.Errorf("key of the first admin: %w", err)
	}
	if err := writeSecret(s.Disk, keyFile, secret+"\n"); err != nil {
		return fmt.Errorf("--first-key: %w", err)
	}
	_, err = fmt.Fprintf(w, "An API key of this admin is in %s.\n", keyFile)
	return err
}

// makeKeyFile makes the file of the first key, still empty, so that a name that cannot be written is an error before
// there is an account. An empty file may be that of a start that was killed; anything else is kept.
func makeKeyFile(disk vfs.FS, path string) error {
	info, err := os.Stat(path)
	if err == nil && (info.Size() > 0 || !info.Mode().IsRegular()) {
		return fmt.Errorf("--first-key: %s is there already: name a new file", path)
	}
	if err := writeSecret(disk, path, ""); err != nil {
		return fmt.Errorf("--first-key: %w", err)
	}
	return nil
}

// writeSecret writes a durable file that only its owner can read. It replaces an existing file.
func writeSecret(disk vfs.FS, path, text string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	folder, err := disk.OpenDir(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

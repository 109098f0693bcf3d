package app

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/internal/datafolder"
	"probity/store"
)

var errUnsyncable = errors.New("the folder cannot be synced")

// unsyncableFolders is a disk on which no folder can be synced.
type unsyncableFolders struct{ vfs.FS }

func (unsyncableFolders) OpenDir(string) (vfs.File, error) { return nil, errUnsyncable }

func TestFirstPasswordIsInAFileOfItsOwnerAndNotInTheLog(t *testing.T) {
	data := t.TempDir()
	path := filepath.Join(data, datafolder.FirstPasswordFile)
	require.NoError(t, os.WriteFile(path, []byte("left by a start that was killed"), 0o644))
	state, err := store.Open(vfs.Default, filepath.Join(data, "state"))
	require.NoError(t, err)
	defer func() { require.NoError(t, state.Close()) }()
	s := &Service{flags: &ServeFlags{Data: data, AdminEmail: "root@example.com", InitialCredits: 5},
		node: &Node{Store: state}}
	var log bytes.Buffer
	s.Disk = unsyncableFolders{vfs.Default}
	require.ErrorIs(t, s.createFirstAdmin(t.Context(), &log), errUnsyncable)
	require.Empty(t, state.Users(), "no account before its password outlasts a power cut")
	s.Disk = vfs.Default
	require.NoError(t, s.createFirstAdmin(t.Context(), &log))

	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	password := strings.TrimSpace(string(written))
	require.Contains(t, log.String(), path)
	require.NotContains(t, log.String(), password)
	u, err := state.CheckPassword(t.Context(), store.Login{Email: "root@example.com", Password: password}, time.Now())
	require.NoError(t, err)
	require.Equal(t, store.Admin, u.Role)

	log.Reset()
	require.NoError(t, s.createFirstAdmin(t.Context(), &log))
	require.Empty(t, log.String(), "a store with accounts has its admin")
	same, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, written, same)
}

// A store whose accounts have no active admin gets none from serve, which says so.
func TestStoreWithoutAnActiveAdminIsWarnedOf(t *testing.T) {
	state, err := store.Open(vfs.NewMem(), "state")
	require.NoError(t, err)
	defer func() { require.NoError(t, state.Close()) }()
	var log bytes.Buffer
	s := &Service{Process: Process{Log: slog.New(slog.NewTextHandler(&log, nil))}, flags: &ServeFlags{Data: "data"},
		node: &Node{Store: state}}
	_, _, err = state.AddUser(t.Context(), store.NewUser{Email: "ann@example.com"}, "test", time.Now())
	require.NoError(t, err)
	require.NoError(t, s.createFirstAdmin(t.Context(), io.Discard))
	require.Contains(t, log.String(), "no account is an active admin")
	log.Reset()
	_, _, err = state.AddUser(t.Context(), store.NewUser{Email: "root@example.com", Role: store.Admin}, "test",
		time.Now())
	require.NoError(t, err)
	require.NoError(t, s.createFirstAdmin(t.Context(), io.Discard))
	require.Empty(t, log.String())
}

// TestFirstKeyIsInItsFile: the key of --first-key opens everything, is made once, and only if its file could be.
func TestFirstKeyIsInItsFile(t *testing.T) {
	dir := t.TempDir()
	state, err := store.Open(vfs.NewMem(), "state")
	require.NoError(t, err)
	defer func() { require.NoError(t, state.Close()) }()
	taken, path := filepath.Join(dir, "taken"), filepath.Join(dir, "first-key")
	require.NoError(t, os.WriteFile(taken, []byte("mine"), 0o644))
	s := &Service{Process: Process{Disk: vfs.Default}, flags: &ServeFlags{Data: dir, AdminEmail: "root@example.com"},
		node: &Node{Store: state}}
	var log bytes.Buffer
	for _, wrong := range []string{taken, dir, filepath.Join(dir, "none", "first-key")} {
		s.flags.FirstKey = wrong
		require.ErrorContains(t, s.createFirstAdmin(t.Context(), &log), "--first-key: ")
		require.Empty(t, state.Users(), "no account without its key")
	}
	kept, err := os.ReadFile(taken)
	require.NoError(t, err)
	require.Equal(t, "mine", string(kept))

	s.flags.FirstKey = path
	require.NoError(t, os.WriteFile(path, nil, 0o644), "a start that was killed")
	require.NoError(t, s.createFirstAdmin(t.Context(), &log))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	written, err := os.ReadFile(path)
	require.NoError(t, err)
	secret := strings.TrimSpace(string(written))
	require.Contains(t, log.String(), path)
	require.NotContains(t, log.String(), secret)
	id, err := state.Authenticate(secret, time.Now())
	require.NoError(t, err)
	require.False(t, id.Test)
	for _, scope := range []store.Scopes{store.ScopeVerify, store.ScopeJobs, store.ScopeAccount, store.ScopeAdmin} {
		require.True(t, id.MayUse(scope), scope.Names())
	}

	require.NoError(t, s.createFirstAdmin(t.Context(), &log))
	keys, err := state.Keys(id.User.ID)
	require.NoError(t, err)
	require.Len(t, keys, 1, "a later start makes no key")
}

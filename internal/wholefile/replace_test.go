package wholefile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

var errStopped = errors.New("stopped")

func requireEntries(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	found := []string{}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	require.Equal(t, append([]string{}, names...), found)
}

func requireContent(t *testing.T, path, text string) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, text, string(data))
}

func TestFailedWriteLeavesTheOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "result.csv")
	for _, text := range []string{"first", "second"} {
		require.NoError(t, Replace(path, func(w io.Writer) error { _, err := io.WriteString(w, text); return err }))
	}
	require.ErrorIs(t, Replace(path, func(w io.Writer) error {
		_, err := io.WriteString(w, "half")
		return errors.Join(err, errStopped)
	}), errStopped)
	requireContent(t, path, "second")
	requireEntries(t, dir, "result.csv")
}

func TestFolderIsCompleteOrAbsent(t *testing.T) {
	dir := t.TempDir()
	to := filepath.Join(dir, "to")
	writeAll := func(part string) error {
		return errors.Join(os.MkdirAll(filepath.Join(part, "deep"), 0o700),
			os.WriteFile(filepath.Join(part, "deep", "file"), []byte("text"), 0o600))
	}
	require.ErrorIs(t, WriteFolder(to, func(part string) error { return errors.Join(writeAll(part), errStopped) }),
		errStopped)
	requireEntries(t, dir)
	require.NoError(t, WriteFolder(to, writeAll))
	requireContent(t, filepath.Join(to, "deep", "file"), "text")

	require.NoError(t, os.Mkdir(to+".part", 0o700))
	require.ErrorContains(t, WriteFolder(to, writeAll), "left by a copy that was broken off")
}

func TestSecretsAreAllWrittenOrNone(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, WriteNewSecrets([]Secret{{at("b"), []byte("old")}}))
	require.ErrorContains(t, WriteNewSecrets([]Secret{{at("a"), nil}, {at("b"), []byte("new")}}), "is there already")
	requireEntries(t, dir, "b")
	requireContent(t, at("b"), "old")
	require.NoError(t, ReplaceSecret(at("b"), []byte("new")))
	requireContent(t, at("b"), "new")
	requireEntries(t, dir, "b")
	info, err := os.Stat(at("b"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

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
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	require.NoError(t, os.MkdirAll(filepath.Join(from, "deep"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, "deep", "file"), []byte("text"), 0o644))
	copyAll := func(part string) error { return CopyFolder(from, part) }
	require.ErrorIs(t, WriteFolder(to, func(part string) error { return errors.Join(copyAll(part), errStopped) }), errStopped)
	requireEntries(t, dir, "from")
	require.NoError(t, WriteFolder(to, copyAll))
	requireContent(t, filepath.Join(to, "deep", "file"), "text")
	for name, rights := range map[string]os.FileMode{"": 0o700, "deep": 0o700, "deep/file": 0o600} {
		info, err := os.Stat(filepath.Join(to, name))
		require.NoError(t, err)
		require.Equal(t, rights, info.Mode().Perm(), name)
	}

	require.NoError(t, os.Mkdir(to+".part", 0o700))
	require.ErrorContains(t, WriteFolder(to, copyAll), "left by a copy that was broken off")
	require.NoError(t, WriteFolder(filepath.Join(dir, "empty"), func(part string) error { return CopyFolder(filepath.Join(dir, "missing"), part) }))
	requireEntries(t, filepath.Join(dir, "empty"))
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

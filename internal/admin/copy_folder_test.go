package admin

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/internal/wholefile"
)

func TestCopyIsForItsOwnerAlone(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	require.NoError(t, os.MkdirAll(filepath.Join(from, "deep"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(from, "deep", "file"), []byte("text"), 0o644))
	require.NoError(t, os.Symlink(filepath.Join(from, "deep", "file"), filepath.Join(from, "link")))
	require.NoError(t, copyFolder(t.Context(), from, to))
	for name, mode := range map[string]os.FileMode{"": os.ModeDir | 0o700, "deep": os.ModeDir | 0o700,
		"deep/file": 0o600, "link": 0o600} {
		info, err := os.Lstat(filepath.Join(to, name))
		require.NoError(t, err)
		require.Equal(t, mode, info.Mode(), name)
		if !info.IsDir() {
			text, err := os.ReadFile(filepath.Join(to, name))
			require.NoError(t, err)
			require.Equal(t, "text", string(text))
		}
	}
	require.NoError(t, copyFolder(t.Context(), filepath.Join(dir, "missing"), filepath.Join(dir, "empty")))
	entries, err := os.ReadDir(filepath.Join(dir, "empty"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

// TestInterruptedCopyLeavesNothing: the copy ends wherever it is interrupted, before a file or within one.
func TestInterruptedCopyLeavesNothing(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	for _, name := range []string{"a", "b"} {
		require.NoError(t, os.WriteFile(filepath.Join(from, name), []byte("text"), 0o600))
	}
	interrupted := 0
	for ; ; interrupted++ {
		ctx := &endingContext{Context: t.Context(), left: interrupted}
		err := wholefile.WriteFolder(to, func(part string) error { return copyFolder(ctx, from, part) })
		if err == nil {
			break
		}
		require.ErrorIs(t, err, context.Canceled)
		entries, err := os.ReadDir(filepath.Dir(to))
		require.NoError(t, err)
		require.Empty(t, entries)
	}
	require.GreaterOrEqual(t, interrupted, 4, "before each of two files, and within each")
}

// endingContext has ended once it was asked a number of times.
type endingContext struct {
	context.Context
	left int
}

func (c *endingContext) Err() error {
	if c.left == 0 {
		return context.Canceled
	}
	c.left--
	return nil
}

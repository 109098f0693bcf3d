package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/internal/console"
	"probity/internal/datafolder"
)

// TestFirstPasswordIsPrinted as the service wrote it, until its file is deleted.
func TestFirstPasswordIsPrinted(t *testing.T) {
	data := t.TempDir()
	path := filepath.Join(data, datafolder.FirstPasswordFile)
	require.NoError(t, os.WriteFile(path, []byte("a password\n"), 0o600))
	var out, log bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"user", "first-password", "--data", data},
		&console.IO{Out: &out, Err: &log}))
	require.Equal(t, "a password\n", out.String())
	require.NoError(t, os.Remove(path))
	require.Equal(t, 1, run(t.Context(), []string{"user", "first-password", "--data", data},
		&console.IO{Out: &out, Err: &log}))
	require.Contains(t, log.String(), datafolder.FirstPasswordFile)
}

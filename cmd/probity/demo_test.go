package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/internal/console"
)

// TestDemo runs the smallest demo: it is the first command that users run.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a simulated internet and a server; run without -short")
	}
	dir := filepath.Join(t.TempDir(), "demo")
	var out, words bytes.Buffer
	status := run(t.Context(), []string{"demo", "--rows", "100", "--exit", "--listen", "127.0.0.1:0", "--dir", dir},
		&console.IO{Out: &out, Err: &words})
	require.Zero(t, status, words.String())
	results, err := filepath.Glob(filepath.Join(dir, "*result*"))
	require.NoError(t, err)
	require.Len(t, results, 1, "%s", out.String())
	info, err := os.Stat(results[0])
	require.NoError(t, err)
	require.Positive(t, info.Size())
	require.NotContains(t, words.String(), "password", "its server is gone")
	require.Regexp(t, `with its dashboard:\n  .+ demo --rows 100\n$`, words.String())
}

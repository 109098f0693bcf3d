package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/tests/harness"
)

// TestHangupDuringTheStartIsARereading: a server gets SIGHUP while it reads its provider table for the first time, from a pipe. It
// starts, and then reads the table again.
func TestHangupDuringTheStartIsARereading(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a process; run without -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	table := filepath.Join(t.TempDir(), "providers.toml")
	require.NoError(t, syscall.Mkfifo(table, 0o600))
	server := harness.Command(ctx, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--dns", "127.0.0.1:1", "--providers", table)
	lines, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	pipe, err := os.OpenFile(table, os.O_WRONLY, 0) // waits until the server opens it
	require.NoError(t, err)
	require.NoError(t, server.Process.Signal(syscall.SIGHUP))
	require.NoError(t, os.Remove(table))
	require.NoError(t, os.WriteFile(table, nil, 0o600)) // for the second time; an empty table changes nothing
	require.NoError(t, pipe.Close())
	in, reloaded := bufio.NewScanner(lines), false
	for !reloaded && in.Scan() {
		reloaded = strings.Contains(in.Text(), "msg=reloaded")
	}
	require.True(t, reloaded)
	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, lines)
	require.NoError(t, server.Wait())
}

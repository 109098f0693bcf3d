package service_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/tests/harness"
)

// TestHangupEndsADemoInOrder: the demo's server is closed, as at SIGTERM.
func TestHangupEndsADemoInOrder(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a process; run without -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	demo := harness.Command(ctx, "demo", "--rows", "10", "--listen", "127.0.0.1:0", "--dir",
		filepath.Join(t.TempDir(), "demo"))
	lines, err := demo.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, demo.Start())
	requireLine(t, lines, "Everything stays up")
	require.NoError(t, demo.Process.Signal(syscall.SIGHUP))
	_, _ = io.Copy(io.Discard, lines)
	require.NoError(t, demo.Wait())
}

// TestTestsOfHangupsWorkUnderNohup: processes that tests start do not inherit that it is ignored.
func TestTestsOfHangupsWorkUnderNohup(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a process; run without -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	harness.DependOnSources(t)
	tests, err := os.Executable()
	require.NoError(t, err)
	words, err := exec.CommandContext(ctx, "sh", "-c", `trap "" HUP; exec "$0" -test.v -test.run "$1"`, tests,
		"^TestHangupEndsADemoInOrder$").CombinedOutput()
	require.NoError(t, err, "%s", words)
	require.Contains(t, string(words), "--- PASS: TestHangupEndsADemoInOrder")
}

// TestIgnoredHangupStaysIgnored: nohup keeps a command running, whose children would inherit this.
func TestIgnoredHangupStaysIgnored(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a process; run without -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	verify := harness.Command(ctx, "verify", "--dns", "127.0.0.1:1", "-")
	verify.Args = append([]string{"sh", "-c", `trap "" HUP; exec "$0" "$@"`, verify.Path}, verify.Args[1:]...)
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	verify.Path = shell
	in, err := verify.StdinPipe()
	require.NoError(t, err)
	lines, err := verify.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, verify.Start())
	requireLine(t, lines, "warning: addresses that need an SMTP check stay UNKNOWN")
	require.NoError(t, verify.Process.Signal(syscall.SIGHUP))
	_, err = io.WriteString(in, "email\nnot an address\n")
	require.NoError(t, errors.Join(err, in.Close()))
	words, err := io.ReadAll(lines)
	require.NoError(t, err)
	require.NoError(t, verify.Wait(), "%s", words)
}

// requireLine reads lines until one has the words.
func requireLine(t *testing.T, lines io.Reader, words string) {
	t.Helper()
	in, found := bufio.NewScanner(lines), false
	for !found && in.Scan() {
		found = strings.Contains(in.Text(), words)
	}
	require.True(t, found, words)
}

// TestHangupDuringTheStartIsARereading: a server gets SIGHUP while it reads its provider table for the first time, from
// a pipe. It starts, and then reads the table again.
func TestHangupDuringTheStartIsARereading(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a process; run without -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	table := filepath.Join(t.TempDir(), "providers.toml")
	require.NoError(t, syscall.Mkfifo(table, 0o600))
	server := harness.Command(ctx, "serve", "--data", filepath.Join(t.TempDir(), "data"), "--listen", "127.0.0.1:0",
		"--admin-listen", "127.0.0.1:0",
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
	requireLine(t, lines, "msg=reloaded")
	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, lines)
	require.NoError(t, server.Wait())
}

package service_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator"
	"probity/coordinator/ingest"
	"probity/engine"
	"probity/engine/lists"
	"probity/internal/admin"
	"probity/store"
	"probity/store/cache"
	"probity/tests/harness"
)

// adminProcess is a store, stopped or behind a server, and the command line that works on it.
type adminProcess struct {
	t          *testing.T
	data       string
	targetArgs []string // the flags that name the store or the server
	key        string   // of an admin, for a server
}

// run runs a command, requires its exit status, and returns its output.
func (w *adminProcess) run(status int, args ...string) (out, words string) {
	w.t.Helper()
	var stdout, stderr bytes.Buffer
	c := harness.Command(w.t.Context(), append(args, w.targetArgs...)...)
	c.Stdout, c.Stderr = &stdout, &stderr
	if w.key != "" {
		c.Env = append(c.Env, admin.KeyEnv+"="+w.key)
	}
	err := c.Run()
	require.Equal(w.t, status, c.ProcessState.ExitCode(), "%v: %v: %s", args, err, &stderr)
	return stdout.String(), stderr.String()
}

// rows runs a command with --json and reads what it prints.
func (w *adminProcess) rows(args ...string) (rows []map[string]any) {
	w.t.Helper()
	out, _ := w.run(0, append(args, "--json")...)
	for line := range strings.Lines(out) {
		var row map[string]any
		require.NoError(w.t, json.Unmarshal([]byte(line), &row))
		rows = append(rows, row)
	}
	return rows
}

// adminList is a list that names the address that is erased.
const adminList = "email\ngone@shop.example\nkept@shop.example\n"

// newAdminProcess makes a store with an admin, a waiting job, and a cached verdict.
func newAdminProcess(t *testing.T) (w *adminProcess, key string) {
	w = &adminProcess{t: t, data: t.TempDir()}
	w.targetArgs = []string{"--data", w.data}
	_, words := w.run(0, "user", "add", "root@example.com", "--role", "admin")
	require.Contains(t, words, "shown this once")
	key, _ = w.run(0, "key", "create", "--user", "root@example.com", "--name", "admin", "--scope", "admin")
	c, s, k := openDataFolder(t, w.data)
	_, err := c.Accept(t.Context(), ingest.Upload{Body: strings.NewReader(adminList)})
	require.NoError(t, err)
	a, err := engine.Parse("gone@shop.example")
	require.NoError(t, err)
	v := engine.VerdictFor(engine.ReasonMailboxNotFound, "test", 0, time.Now())
	require.NoError(t, k.Put([]cache.Entry{{Key: k.Keyer().Key(a), Verdict: &v}}))
	require.NoError(t, k.Close())
	require.NoError(t, s.Close())
	return w, strings.TrimSpace(key)
}

// openDataFolder opens the stores of a data folder, without a prober.
func openDataFolder(t *testing.T, data string) (*coordinator.Coordinator, *store.Store, *cache.Cache) {
	s, err := store.Open(vfs.Default, filepath.Join(data, "state"))
	require.NoError(t, err)
	k, err := cache.Open(cache.Config{FS: vfs.Default, Dir: filepath.Join(data, "cache")})
	require.NoError(t, err)
	known, err := lists.Default()
	require.NoError(t, err)
	return coordinator.New(coordinator.Config{Store: s, FS: vfs.Default, Dir: data, Table: engine.DefaultTable(),
		Lists: known}), s, k
}

// TestLockedStoreIsRefusedWithAdvice: a store in use is not touched, and the error says what to do.
func TestLockedStoreIsRefusedWithAdvice(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a process; run without -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	data := t.TempDir()
	server := harness.Command(ctx, "serve", "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0",
		"--dns", "127.0.0.1:1")
	lines, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	in := bufio.NewScanner(lines)
	for in.Scan() && !strings.Contains(in.Text(), "msg=serving") {
	}
	for _, args := range [][]string{{"user", "list"}, {"erase", "a@example.com"},
		{"backup", filepath.Join(t.TempDir(), "b")}} {
		_, words := (&adminProcess{t: t, targetArgs: []string{"--data", data}}).run(1, args...)
		require.Contains(t, words, "a running server holds")
		require.Contains(t, words, "--server URL")
	}
	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	_, _ = io.Copy(io.Discard, lines)
	require.NoError(t, server.Wait())
	require.Len(t, (&adminProcess{t: t, targetArgs: []string{"--data", data}}).rows("user", "list"), 1)
}

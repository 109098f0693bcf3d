package service_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator"
	"probity/engine"
	"probity/engine/lists"
	"probity/internal/admin"
	"probity/store"
	"probity/tests/harness"
)

// killedErasureProgram erases an address in a data folder, and is killed after the jobs and before the caches.
const killedErasureProgram = "probity-killed-erasing"

// killingCache kills its process when Forget is called.
type killingCache struct{}

func (killingCache) Forget(context.Context, string, func(string) bool) (map[string]int, []string, error) {
	return nil, nil, syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

func (killingCache) Reachable(string) bool { return true }

// killedErasureMain is the program: its arguments are the folder and the address.
func killedErasureMain() {
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
	}
	s, err := store.Open(vfs.Default, filepath.Join(os.Args[1], "state"))
	fail(err)
	known, err := lists.Default()
	fail(err)
	a, err := engine.Parse(os.Args[2])
	fail(err)
	c := coordinator.New(coordinator.Config{Store: s, FS: vfs.Default, Dir: os.Args[1], Table: engine.DefaultTable(),
		Lists: known})
	r := admin.NewEraser(s, c, nil, nil, killingCache{}, nil)
	_, err = r.Erase(context.Background(), a, "test", time.Now())
	fail(err)
	os.Exit(3) // it must have been killed
}

// requireNowhere requires that no file below a folder contains a text.
func requireNowhere(t *testing.T, dir, text string) {
	t.Helper()
	files := 0
	require.NoError(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		require.False(t, bytes.Contains(b, []byte(text)), path)
		files++
		return err
	}))
	require.NotZero(t, files)
}

// TestServeFinishesAKilledErasure kills an erasure with SIGKILL between the jobs and the cache. The next serve finishes
// it: the verdict is no longer in the cache, the receipt is that of a complete erasure, and no file has the address,
// nor one of a backup.
func TestServeFinishesAKilledErasure(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes processes; run without -short")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	w, key := newAdminProcess(t)
	words, err := harness.CommandNamed(ctx, killedErasureProgram, w.data, "gone@shop.example").CombinedOutput()
	require.ErrorContains(t, err, "killed", "%s", words)
	open := w.rows("erase", "--list")
	require.Len(t, open, 1)
	require.Equal(t, "open", open[0]["status"])
	require.Equal(t, 1.0, open[0]["jobs"])

	server := harness.Command(ctx, "serve", "--data", w.data, "--listen", "127.0.0.1:0", "--admin-listen",
		"127.0.0.1:0", "--dns", "127.0.0.1:1")
	lines, err := server.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	in, public := bufio.NewScanner(lines), ""
	for public == "" && in.Scan() {
		if _, after, ok := strings.Cut(in.Text(), "msg=serving public="); ok {
			public, _, _ = strings.Cut(after, " ")
		}
	}
	require.NotEmpty(t, public)
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	remote := &adminProcess{t: t, targetArgs: []string{"--server", "http://" + public}, key: key}
	var receipt map[string]any
	require.Eventually(t, func() bool {
		receipt = remote.rows("erase", "--receipt", open[0]["erasure_id"].(string))[0]
		return receipt["status"] == "done"
	}, 2*time.Minute, 10*time.Millisecond)
	for name, want := range map[string]any{"jobs": 1.0, "rows": 1.0, "cached": 1.0,
		"address_sha256": open[0]["address_sha256"], "problem": nil} {
		require.Equal(t, want, receipt[name], name)
	}
	requireNowhere(t, w.data, "gone@shop.example")
	copied := filepath.Join(t.TempDir(), "backup")
	backup := harness.Command(ctx, "backup", "--jobs", copied, "--server", "http://"+public)
	backup.Env = append(backup.Env, admin.KeyEnv+"="+key)
	said, err := backup.CombinedOutput()
	require.NoError(t, err, "%s", said)
	requireNowhere(t, copied, "gone@shop.example")
	require.NoError(t, server.Process.Signal(syscall.SIGTERM))
	require.NoError(t, server.Wait())

	_, s, k := openDataFolder(t, w.data)
	a, err := engine.Parse("gone@shop.example")
	require.NoError(t, err)
	_, cached := k.Get(k.Key(a), time.Now())
	require.False(t, cached)
	require.NoError(t, k.Close())
	require.NoError(t, s.Close())
}

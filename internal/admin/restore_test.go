package admin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// restore makes data folders of backups with files of jobs and without.
func (w *adminTest) restore() {
	t := w.t
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	w.run(0, "backup", "--jobs", at("whole"))
	w.run(0, "backup", at("state-only [1]"))
	here := &adminTest{t: t}
	for _, from := range []string{"whole", "state-only [1]"} {
		_, words := here.run(0, "restore", at(from), "--data", at("of-"+from))
		require.Contains(t, words, "3 accounts with balances that are the sums of their ledgers, 1 job, 1 unfinished")
		restored := &adminTest{t: t, targetArgs: []string{"--data", at("of-" + from)}}
		require.Equal(t, w.rows("user", "list"), restored.rows("user", "list"))
		_, words = here.run(1, "restore", at(from), "--data", at("of-"+from))
		require.Contains(t, words, "move the old data folder away first")
	}
	uploads, err := filepath.Glob(at("of-whole/jobs/*/upload-*"))
	require.NoError(t, err)
	require.Len(t, uploads, 1)
	info, err := os.Stat(uploads[0])
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left, err := filepath.Glob(filepath.Join(w.data, "scratch", "backup-*"))
	require.NoError(t, err)
	require.Empty(t, left)
	_, words := here.run(1, "restore", dir, "--data", at("of-nothing"))
	require.Contains(t, words, "is no backup")
	restoreBroken(t, at("whole"))
}

// restoreBroken leaves half of a restore, as a kill does, and half of a backup: neither is used as a store.
func restoreBroken(t *testing.T, backup string) {
	here := &adminTest{t: t}
	data := t.TempDir()
	part := filepath.Join(data, "state.part")
	require.NoError(t, os.Mkdir(part, 0o700))
	_, words := here.run(1, "restore", backup, "--data", data)
	require.Contains(t, words, "state.part is there, left by a copy that was broken off")
	require.NoDirExists(t, filepath.Join(data, "state"))

	marker, err := filepath.Glob(filepath.Join(backup, "state", "marker.manifest.*"))
	require.NoError(t, err)
	require.Len(t, marker, 1)
	require.NoError(t, os.Remove(marker[0]))
	_, words = here.run(1, "restore", backup, "--data", filepath.Join(data, "other"))
	require.Contains(t, words, "is no backup")
}

// audit checks the audit log of these commands.
func (w *adminTest) audit() {
	t := w.t
	events := w.rows("audit", "--limit", "500")
	require.Greater(t, len(events), 10)
	require.Equal(t, "backup", events[0]["act"])
	require.NotEmpty(t, events[0]["from"])
	require.Contains(t, []any{"command line", "root@example.com"}, events[0]["by"])
	for _, a := range events {
		require.NotContains(t, a["note"], "gone@shop.example", "it may not outlast its erasure")
	}
	require.Len(t, w.rows("audit", "--limit", "3"), 3)
	about := 0
	for _, a := range w.rows("audit", "--limit", "500", "--act", "user add") {
		require.Equal(t, "user add", a["act"])
		if a["about"] != "" {
			require.Contains(t, a["about"], "@")
			about++
		}
	}
	require.Positive(t, about)
	for _, a := range w.rows("audit", "--limit", "2", "--by", strings.ToUpper(events[len(events)-1]["by"].(string))) {
		require.Equal(t, events[len(events)-1]["by"], a["by"])
	}
	require.Len(t, w.rows("audit", "--limit", "1", "--act", events[len(events)-1]["act"].(string)), 1)
	require.Empty(t, w.rows("audit", "--by", "nobody-at-all"))
}

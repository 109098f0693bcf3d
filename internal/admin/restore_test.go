package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/stretchr/testify/require"

	"probity/internal/console"
	"probity/store/opendb"
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
	require.Contains(t, words, "is not a backup")
	restoreDamagedJob(t, at("whole"))
	restoreBroken(t, at("whole"))
}

// damaged makes a copy of a backup, changes it, and names a data folder for it.
func damaged(t *testing.T, backup string, change func(dir string)) (dir, data string) {
	dir = filepath.Join(t.TempDir(), "damaged")
	require.NoError(t, os.CopyFS(dir, os.DirFS(backup)))
	change(dir)
	return dir, filepath.Join(t.TempDir(), "new")
}

// onlyFile is the one file that a pattern matches.
func onlyFile(t *testing.T, pattern ...string) string {
	found, err := filepath.Glob(filepath.Join(pattern...))
	require.NoError(t, err)
	require.Len(t, found, 1)
	return found[0]
}

// restoreDamagedJob restores backups that lack a file of a job, or have a part of it: they are refused, and nothing is
// left, unless the damage is accepted.
func restoreDamagedJob(t *testing.T, backup string) {
	here := &adminTest{t: t}
	job := filepath.Base(onlyFile(t, backup, "jobs", "*"))
	// as older programs make it
	require.NoError(t, os.Rename(filepath.Join(backup, sumsFile), filepath.Join(t.TempDir(), sumsFile)))
	for what, change := range map[string]func(dir string){
		"no folder": func(dir string) { require.NoError(t, os.RemoveAll(filepath.Join(dir, "jobs", job))) },
		"no upload": func(dir string) { require.NoError(t, os.Remove(onlyFile(t, dir, "jobs", job, "upload-*"))) },
		"cut": func(dir string) {
			require.NoError(t,
				os.Truncate(onlyFile(t, dir, "jobs", job, "upload-*"), 10))
		},
	} {
		dir, data := damaged(t, backup, change)
		_, words := here.run(1, "restore", dir, "--data", data)
		require.Contains(t, words, "1 job of the backup with a file that is missing or damaged: "+job, what)
		require.Contains(t, words, "--accept-damage", what)
		require.NoDirExists(t, data, what)
		if what != "no folder" {
			continue
		}
		_, words = here.run(0, "restore", dir, "--data", data, "--accept-damage")
		require.Contains(t, words, "this backup has no file SHA256SUMS")
		require.Contains(t, words, "warning: 1 job of the backup with a file that is missing or damaged: "+job)
		require.DirExists(t, filepath.Join(data, "state"))
	}
}

// TestDamagedStoreIsNotRestored: the tables of a backup's state store have a flipped byte or are cut. It is refused
// with the name of a table, and nothing is left of the copy. A command on such a store says what to do.
func TestDamagedStoreIsNotRestored(t *testing.T) {
	here := &adminTest{t: t}
	backup := filepath.Join(t.TempDir(), "data")
	here.run(0, "user", "add", "root@example.com", "--role", "admin", "--data", backup)
	here.run(0, "user", "list", "--data", backup) // it writes the log into a table
	for what, damage := range map[string]func(table string, content []byte) error{
		"flipped": func(table string, content []byte) error {
			content[10] ^= 0x5a
			return os.WriteFile(table, content, 0o600)
		},
		"cut": func(table string, content []byte) error { return os.Truncate(table, int64(len(content)/2)) },
	} {
		dir, data := damaged(t, backup, func(dir string) {
			tables, err := filepath.Glob(filepath.Join(dir, "state", "*.sst"))
			require.NoError(t, err)
			require.NotEmpty(t, tables)
			for _, table := range tables {
				content, err := os.ReadFile(table)
				require.NoError(t, err)
				require.NoError(t, damage(table, content))
			}
		})
		_, words := here.run(1, "restore", dir, "--data", data)
		require.Regexp(t, "^this backup is damaged, restore another: [0-9]+.sst: .+\n$", words, what)
		require.NoDirExists(t, data, what)
		require.NoError(t, os.Mkdir(data, 0o700))
		here.run(1, "restore", dir, "--data", data)
		left, err := os.ReadDir(data)
		require.NoError(t, err)
		require.Empty(t, left, "the folder was there before, and what was copied into it is gone")

		_, words = here.run(1, "user", "list", "--data", dir)
		require.Regexp(t, "^the state store in "+filepath.Join(dir, "state")+" is damaged .+: restore a backup.+\n$",
			words, what)
	}
}

// smallBackup makes a backup of a data folder with two accounts and a file of a job of each kind.
func smallBackup(t *testing.T) (dir string) {
	here := &adminTest{t: t}
	data := filepath.Join(t.TempDir(), "data")
	here.run(0, "user", "add", "root@example.com", "--role", "admin", "--data", data)
	here.run(0, "user", "add", "ann@example.com", "--data", data)
	require.NoError(t, os.MkdirAll(filepath.Join(data, "jobs", "one"), 0o700))
	for _, name := range []string{"upload-1", "answers-1", "result-1"} {
		require.NoError(t, os.WriteFile(filepath.Join(data, "jobs", "one", name), []byte(name), 0o600))
	}
	dir = filepath.Join(t.TempDir(), "backup")
	here.run(0, "backup", "--jobs", dir, "--data", data)
	return dir
}

// TestBackupWithAWrongFileIsNotRestored: each file of a backup has a flipped byte, is cut or removed, or one is added.
// The backup is refused before a folder is made, and the file is named; a result file is made again from the answers.
// Damage that is accepted is told.
func TestBackupWithAWrongFileIsNotRestored(t *testing.T) {
	here := &adminTest{t: t}
	backup := smallBackup(t)
	var names []string
	require.NoError(t, fs.WalkDir(os.DirFS(backup), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, name)
		}
		return err
	}))
	changes := map[string]func(file string) error{
		"flipped": func(file string) error {
			content, err := os.ReadFile(file)
			at := len(content) / 3
			if name := bytes.Index(content, []byte("  state/")); name > 0 {
				at = name - 1 // of the checksums, in that of a file that matters
			}
			content[at] ^= 1
			return errors.Join(err, os.WriteFile(file, content, 0o600))
		},
		"cut": func(path string) error {
			info, err := os.Stat(path)
			return errors.Join(err, os.Truncate(path, info.Size()/2))
		},
		"removed": os.Remove,
		"added":   func(path string) error { return os.WriteFile(path+"0", nil, 0o600) },
	}
	logs := 0
	for _, name := range names {
		info, err := os.Stat(filepath.Join(backup, name))
		require.NoError(t, err)
		for what, change := range changes {
			if info.Size() == 0 && (what == "flipped" || what == "cut") {
				continue
			}
			dir, data := damaged(t, backup, func(dir string) { require.NoError(t, change(filepath.Join(dir, name))) })
			if path.Base(name) == "result-1" || name == sumsFile && what == "removed" {
				_, words := here.run(0, "restore", dir, "--data", data)
				require.NotContains(t, words, "warning")
				require.NoFileExists(t, filepath.Join(data, "state", sumsFile))
				continue
			}
			_, words := here.run(1, "restore", dir, "--data", data)
			require.NoDirExists(t, data, "%s %s", name, what)
			if strings.HasPrefix(path.Base(name), "marker.manifest.") && what == "removed" {
				require.Contains(t, words, "is not a backup")
				continue
			}
			require.Regexp(t, "^this backup is damaged, restore another.+--accept-damage: .+\n$", words)
			if name != sumsFile {
				require.Contains(t, words, `"`+name, what)
			}
			if strings.HasSuffix(name, ".log") && what == "cut" {
				logs++
				_, words := here.run(0, "restore", dir, "--data", data, "--accept-damage")
				require.Contains(t, words, "warning: this backup is damaged, and accounts, credits or jobs may be lost: ")
			}
		}
	}
	require.Positive(t, logs)
}

// TestOnlyDamageIsCalledDamage: a backup of a newer program, or one that cannot be read, is not called damaged.
func TestOnlyDamageIsCalledDamage(t *testing.T) {
	here := &adminTest{t: t}
	newer, data := damaged(t, smallBackup(t), func(dir string) {
		state := filepath.Join(dir, "state")
		marker, _, err := atomicfs.LocateMarker(vfs.Default, state, "format-version")
		require.NoError(t, err)
		require.NoError(t, errors.Join(marker.Move("999"), marker.Close(), os.Remove(filepath.Join(dir, sumsFile))))
	})
	_, words := here.run(1, "restore", newer, "--data", data)
	require.Contains(t, words, "use the newer program that wrote it")
	require.NotContains(t, words, "damaged")
	require.NoDirExists(t, data)
	for _, err := range []error{syscall.EACCES, syscall.ENOSPC, fmt.Errorf("%w: make room", opendb.ErrDisk),
		opendb.ErrNewer} {
		require.NotContains(t, refusal(fmt.Errorf("state store: %w", err)).Error(), "damaged")
	}
	require.ErrorContains(t, refusal(errors.New("ledger of ann: wrong sum")), "this backup is damaged")
}

// TestRefusedRestoreMakesNoFolder: a folder whose parent is missing is not made in part.
func TestRefusedRestoreMakesNoFolder(t *testing.T) {
	here := &adminTest{t: t}
	top := filepath.Join(t.TempDir(), "a")
	_, words := here.run(1, "restore", smallBackup(t), "--data", filepath.Join(top, "b", "c"))
	require.Contains(t, words, "nothing was restored: mkdir ")
	require.Contains(t, words, "name a folder that can be made")
	require.NoDirExists(t, top)
}

// TestInterruptedRestoreLeavesNothing: a signal ends it while it compares checksums, before it calls the backup
// damaged.
func TestInterruptedRestoreLeavesNothing(t *testing.T) {
	backup, top := smallBackup(t), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(backup, "jobs", "one", "upload-1"), []byte("changed"), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := restoreCmd{Backup: backup, Data: filepath.Join(top, "data")}
	require.ErrorIs(t, c.Run(ctx, &console.IO{Err: io.Discard}), context.Canceled)
	entries, err := os.ReadDir(top)
	require.NoError(t, err)
	require.Empty(t, entries)
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
	require.Contains(t, words, "is not a backup")
}

// audit checks the audit log of these commands.
func (w *adminTest) audit() {
	t := w.t
	events := w.rows("audit", "--limit", "500")
	require.Greater(t, len(events), 10)
	require.Equal(t, "backup", events[0]["action"])
	require.NotEmpty(t, events[0]["from"])
	require.Contains(t, []any{"command line", "root@example.com"}, events[0]["by"])
	for _, a := range events {
		require.NotContains(t, a["note"], "gone@shop.example", "it may not outlast its erasure")
	}
	require.Len(t, w.rows("audit", "--limit", "3"), 3)
	about := 0
	for _, a := range w.rows("audit", "--limit", "500", "--action", "user add") {
		require.Equal(t, "user add", a["action"])
		if a["about"] != "" {
			require.Contains(t, a["about"], "@")
			about++
		}
	}
	require.Positive(t, about)
	for _, a := range w.rows("audit", "--limit", "2", "--by", strings.ToUpper(events[len(events)-1]["by"].(string))) {
		require.Equal(t, events[len(events)-1]["by"], a["by"])
	}
	require.Len(t, w.rows("audit", "--limit", "1", "--action", events[len(events)-1]["action"].(string)), 1)
	require.Empty(t, w.rows("audit", "--by", "nobody-at-all"))
}

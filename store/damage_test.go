package store_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/store"
	"probity/store/opendb"
)

// tableOf makes a store with accounts, and returns the path of its table and its bytes.
func tableOf(t *testing.T, fs vfs.FS) (path string, content []byte) {
	s := openMem(t, fs)
	for i := range 200 {
		newCustomer(t, s, fmt.Sprintf("ann%d@example.com", i), 10)
	}
	require.NoError(t, s.Checkpoint("copy"))
	opened, err := store.Open(fs, "copy") // it writes what the log has into a table
	require.NoError(t, err)
	require.NoError(t, opened.Close())
	names, err := fs.List("copy")
	require.NoError(t, err)
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			path, content = "copy/"+name, readFile(t, fs, "copy/"+name)
		}
	}
	require.NotEmpty(t, content)
	return path, content
}

func readFile(t *testing.T, fs vfs.FS, path string) []byte {
	f, err := fs.Open(path)
	require.NoError(t, err)
	defer f.Close()
	info, err := f.Stat()
	require.NoError(t, err)
	b := make([]byte, info.Size())
	_, err = f.ReadAt(b, 0)
	require.NoError(t, err)
	return b
}

func writeFile(t *testing.T, fs vfs.FS, path string, b []byte) {
	f, err := fs.Create(path, vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	_, err = f.Write(b)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// TestDamagedStoreSaysWhatToDo: bytes of a table are overwritten, or it is cut. To open the store is an error of one line that names
// the file, and no panic; a check of the tables finds the damage wherever it is.
func TestDamagedStoreSaysWhatToDo(t *testing.T) {
	fs := vfs.NewMem()
	path, whole := tableOf(t, fs)
	require.NoError(t, opendb.CheckTables(fs, "copy"))
	requireFound := func() {
		t.Helper()
		err := opendb.CheckTables(fs, "copy")
		require.ErrorContains(t, err, filepath.Base(path))
		require.True(t, opendb.IsDamage(err))
		require.NotContains(t, err.Error(), "\n")
	}
	requireDamage := func(err error) {
		t.Helper()
		require.ErrorIs(t, err, store.ErrBroken)
		require.ErrorContains(t, err, "the state store in copy is damaged")
		require.ErrorContains(t, err, strings.TrimSuffix(filepath.Base(path), ".sst"))
		require.ErrorContains(t, err, "restore a backup")
		require.NotContains(t, err.Error(), "\n")
	}
	refused := 0
	for at := 0; at < len(whole); at += len(whole)/40 + 1 {
		b := append([]byte(nil), whole...)
		for i := at; i < min(at+8, len(b)); i++ {
			b[i] ^= 0x5a
		}
		writeFile(t, fs, path, b)
		requireFound()
		s, err := store.OpenAtRest(fs, "copy")
		if err == nil { // it has not read that part
			require.NoError(t, s.Close())
			continue
		}
		refused++
		requireDamage(err)
		_, err = store.Open(fs, "copy")
		requireDamage(err)
	}
	require.Positive(t, refused)
	writeFile(t, fs, path, whole[:len(whole)/2])
	requireFound()
	_, err := store.Open(fs, "copy")
	requireDamage(err)
}

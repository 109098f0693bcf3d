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

// tablesOf makes a store with accounts in the folder "copy", and returns the paths of its table files and their bytes.
func tablesOf(t *testing.T, fs vfs.FS) map[string][]byte {
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
	tables := map[string][]byte{}
	for _, name := range names {
		if strings.HasSuffix(name, ".sst") {
			tables["copy/"+name] = readFile(t, fs, "copy/"+name)
		}
	}
	require.NotEmpty(t, tables)
	return tables
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
	_, err = f.Write(append([]byte(nil), b...)) // with the race detector it spoils what it is given
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// TestDamagedStoreSaysWhatToDo: bytes of a table file are overwritten, or it is cut. To open the store is an error of
// one line that names the file, and no panic; a check of the tables finds the damage wherever it is.
func TestDamagedStoreSaysWhatToDo(t *testing.T) {
	fs := vfs.NewMem()
	tables := tablesOf(t, fs)
	require.NoError(t, opendb.CheckTables(fs, "copy"))
	refused := 0
	for path, whole := range tables {
		refused += damageTable(t, fs, path, whole)
	}
	require.Positive(t, refused)
}

// damageTable returns how often a store with a changed table was refused. It leaves the table as it was.
func damageTable(t *testing.T, fs vfs.FS, path string, whole []byte) (refused int) {
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
	for at := 0; at < len(whole); at += len(whole)/20 + 1 {
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
	writeFile(t, fs, path, whole[:len(whole)/2])
	requireFound()
	_, err := store.Open(fs, "copy")
	requireDamage(err)
	writeFile(t, fs, path, whole)
	return refused
}

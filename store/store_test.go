package store

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/stretchr/testify/require"

	"probity/store/opendb"
)

func TestCommitSurvivesReopening(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	set := func(b *pebble.Batch) error { return b.Set(key(tableMeta, "x"), []byte("1"), nil) }
	require.NoError(t, s.Commit("a", set))
	require.NoError(t, s.Close())
	s = open(t, fs)
	v, err := get(s.db, key(tableMeta, "x"))
	require.NoError(t, err)
	require.Equal(t, "1", string(v))
	require.NoError(t, s.Close())
}

func TestCommitIsAllOrNothing(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	refused := errors.New("refused")
	err := s.Commit("a",
		func(b *pebble.Batch) error { return b.Set(key(tableMeta, "x"), nil, nil) },
		func(b *pebble.Batch) error {
			_, err := get(b, key(tableMeta, "x"))
			require.NoError(t, err, "a part sees what the part before wrote")
			return refused
		})
	require.ErrorIs(t, err, refused)
	_, err = get(s.db, key(tableMeta, "x"))
	require.ErrorIs(t, err, ErrNotFound)
}

// TestOtherFormatsAreRefused: formats are kept from the first release on, which begins with format 1.
func TestOtherFormatsAreRefused(t *testing.T) {
	require.EqualValues(t, 1, Format)
	for format, want := range map[uint32]string{Format + 1: "newer program", 0: "not a store of ours"} {
		fs := vfs.NewMem()
		s := open(t, fs)
		require.NoError(t, s.db.Set(key(tableMeta, "format"), binary.BigEndian.AppendUint32(nil, format), pebble.Sync))
		require.NoError(t, s.Close())
		_, err := Open(fs, "state")
		require.ErrorContains(t, err, want)
	}
}

// TestNewerDatabaseIsNoDamage: the tables of a newer database may have a format that this program cannot tell from
// damage.
func TestNewerDatabaseIsNoDamage(t *testing.T) {
	fs := vfs.NewMem()
	require.NoError(t, open(t, fs).Close())
	marker, _, err := atomicfs.LocateMarker(fs, "state", "format-version")
	require.NoError(t, err)
	require.NoError(t, marker.Move("999"))
	require.NoError(t, marker.Close())
	table, err := fs.Create("state/000900.sst", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	require.NoError(t, table.Close())
	_, opened := Open(fs, "state")
	for _, err := range []error{opened, opendb.CheckTables(fs, "state")} {
		require.ErrorContains(t, err, "its database has format 999 and this program knows up to ")
		require.ErrorIs(t, err, opendb.ErrNewer)
		_, damaged := errors.AsType[*DamagedError](err)
		require.False(t, damaged)
	}
}

func TestPrefixEnd(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"a", "b"}, {"a\xff", "b"}, {"ab", "ac"}, {"\xff\xff", ""},
	} {
		require.Equal(t, c.want, string(prefixEnd([]byte(c.in))))
	}
}

func open(t *testing.T, fs vfs.FS) *Store {
	t.Helper()
	s, err := Open(fs, "state")
	require.NoError(t, err)
	return s
}

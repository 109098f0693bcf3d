package erase

import (
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/internal/wholefile"
	"probity/store"
)

// TestPendingErasuresFileIsImported: the file's entries become pending erasures in the store, and the file is gone.
func TestPendingErasuresFileIsImported(t *testing.T) {
	disk := vfs.NewMem()
	s, err := store.Open(disk, "data/state")
	require.NoError(t, err)
	now := time.Unix(1_800_000_000, 0)
	require.NoError(t, Adopt(s, disk, "data", now), "nothing to adopt")
	text := "1799999000 p1 a@x.example\n1799999000 p2 a@x.example\n1799999000 p2 \"b c\"@x.example\n1 p1 old@x.example\nnonsense\n"
	require.NoError(t, disk.MkdirAll("data", 0o700))
	require.NoError(t, wholefile.Write(disk, "data/"+pendingErasuresFile, []byte(text)))
	for range 2 {
		require.NoError(t, Adopt(s, disk, "data", now))
		list, err := s.Erasures("", 10)
		require.NoError(t, err)
		require.Len(t, list, 2)
		nodes := map[string]int{}
		for _, e := range list {
			require.True(t, e.Open())
			nodes[e.Address] = len(e.Caches)
		}
		require.Equal(t, map[string]int{"a@x.example": 2, "\"b c\"@x.example": 1}, nodes)
	}
	left, err := disk.List("data")
	require.NoError(t, err)
	require.NotContains(t, left, pendingErasuresFile)
	require.NoError(t, s.Close())
}

// FuzzPendingErasures reads any file, and reads its own output unchanged.
func FuzzPendingErasures(f *testing.F) {
	f.Add("1800000000 p1 a@x.example\n")
	f.Add("1 p1\nx y z\n\n1800000000  q\n")
	now := time.Unix(1_800_000_000, 0)
	f.Fuzz(func(t *testing.T, text string) {
		list, again := readPendingErasures(text, now), ""
		for _, d := range list {
			again += fmt.Sprintf("%d %s %s\n", d.at.Unix(), d.node, d.folded)
		}
		require.Equal(t, list, readPendingErasures(again, now))
	})
}

package store

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestReceiptKeysStayAfterARotation: a new key signs, the former ones stay readable, also after a restart.
func TestReceiptKeysStayAfterARotation(t *testing.T) {
	fs, now := vfs.NewMem(), time.Unix(1_800_000_000, 0).UTC()
	s, err := Open(fs, "state")
	require.NoError(t, err)
	first, err := s.ReceiptKeys(now)
	require.NoError(t, err)
	require.Len(t, first, 1)
	again, err := s.ReceiptKeys(now.Add(time.Hour))
	require.NoError(t, err)
	require.Equal(t, first, again)
	both, err := s.NewReceiptKey("admin", now.Add(2*time.Hour))
	require.NoError(t, err)
	require.Equal(t, first[0], both[0])
	require.NotEqual(t, both[0].Seed, both[1].Seed)
	require.NoError(t, s.Close())
	s, err = Open(fs, "state")
	require.NoError(t, err)
	kept, err := s.ReceiptKeys(now)
	require.NoError(t, err)
	require.Equal(t, both, kept)
	require.NoError(t, s.Close())
}

package store_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/store"
)

// TestCheckpointOpensAsStore: an opened checkpoint is the store of that moment, and independent of it from there on.
func TestCheckpointOpensAsStore(t *testing.T) {
	fs := vfs.NewMem()
	s := openMem(t, fs)
	ann := newCustomer(t, s, "ann@example.com", 10)
	secret, _, err := s.CreateKey(ann, store.NewKey{Name: "shop"}, "test", noon)
	require.NoError(t, err)
	require.NoError(t, s.ReserveSingle(ann, "r1", 1))
	require.NoError(t, s.ReserveJob(ann, "j1", 4, noon))
	require.NoError(t, s.Checkpoint("backup"))
	require.Error(t, s.Checkpoint("backup"), "nothing is overwritten")
	require.NoError(t, s.Settle(ann, "r1", 1, noon))
	require.NoError(t, s.SettleJob(ann, "j1", 4, noon))
	requireCredits(t, s, ann, 5, 0)

	restored, err := store.Open(fs, "backup")
	require.NoError(t, err)
	b := &storeAdapter{restored, fs}
	defer func() { require.NoError(t, b.Close()) }()
	requireCredits(t, b, ann, 6, 4) // the single call was under way: released; the job goes on
	_, err = b.Authenticate(secret, noon)
	require.NoError(t, err)
	require.NoError(t, b.SettleJob(ann, "j1", 2, noon))
	requireCredits(t, b, ann, 8, 0)
	requireCredits(t, s, ann, 5, 0)
}

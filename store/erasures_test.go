package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// TestErasuresAreBoundedAndDropTheAddress: at most MaxErasures requests are open, one for each address. A receipt that is done has no
// address and is deleted after 400 days; open ones stay. The audit log does not have the address.
func TestErasuresAreBoundedAndDropTheAddress(t *testing.T) {
	disk := vfs.NewMem()
	s, err := Open(disk, "state")
	require.NoError(t, err)
	now := time.Now()
	first, err := s.RequestErasure("ann@x.example", "root", now)
	require.NoError(t, err)
	require.NoError(t, s.Commit("", func(b *pebble.Batch) (err error) { // as many of others
		for i := range MaxErasures - 1 {
			err = errors.Join(err, b.Set(key(tableOpenErasure, fmt.Sprintf("hash %d", i)), []byte("id"), nil))
		}
		return err
	}))
	again, err := s.RequestErasure("ann@x.example", "root", now)
	require.NoError(t, err, "it waits already")
	require.Equal(t, first.ID, again.ID)
	_, err = s.RequestErasure("one@more.example", "root", now)
	require.ErrorIs(t, err, ErrErasuresFull)
	require.NoError(t, s.Close())

	s, err = Open(disk, "state")
	require.NoError(t, err)
	open, err := s.OpenErasures()
	require.NoError(t, err)
	require.Len(t, open, MaxErasures)
	e, err := s.Erasure(first.ID)
	require.NoError(t, err)
	require.Equal(t, "ann@x.example", e.Address)
	e.Jobs, e.Done = map[string]int64{"j": 1}, now
	require.NoError(t, s.SaveErasure(&e))
	b, err := json.Marshal(e)
	require.NoError(t, err)
	require.NotContains(t, string(b), "x.example")
	_, err = s.RequestErasure("one@more.example", "root", now.Add(time.Minute))
	require.NoError(t, err)

	n, err := s.SweepErasures(now.Add(receiptTTL - time.Second))
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = s.SweepErasures(now.Add(2 * receiptTTL))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	_, err = s.Erasure(first.ID)
	require.ErrorIs(t, err, ErrNotFound)
	newest, err := s.Erasures("", 1)
	require.NoError(t, err)
	require.Equal(t, "one@more.example", newest[0].Address)
	events, err := s.AuditEvents("", 1)
	require.NoError(t, err)
	require.Equal(t, "an address", events[0].Target)
	require.NoError(t, s.Close())
}

package store

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// FuzzCursor: no cursor shows a job of another account, and a listing fails at most with ErrBadCursor.
func FuzzCursor(f *testing.F) {
	s, err := Open(vfs.NewMem(), "state")
	require.NoError(f, err)
	f.Cleanup(func() { _ = s.Close() })
	now := time.Unix(1_700_000_000, 0)
	for _, account := range []string{"a", "b"} {
		for _, id := range []string{"1", "2", "3"} {
			require.NoError(f, s.AcceptJob(&Job{ID: account + id, Account: account, State: JobQueued, CreatedAt: now}))
		}
	}
	_, next, err := s.JobsOf("a", "", 1, "")
	require.NoError(f, err)
	f.Add(next)
	f.Add("")
	f.Add("\xff\xff\xff\xff\xff\xff\xff\xff\xff")
	f.Add("b\x00\x00")
	f.Fuzz(func(t *testing.T, cursor string) {
		jobs, _, err := s.JobsOf("a", "", 10, cursor)
		require.NoError(t, err)
		for _, j := range jobs {
			require.Equal(t, "a", j.Account)
		}
		if _, err := s.AuditEvents(cursor, 10); err != nil {
			require.ErrorIs(t, err, ErrBadCursor)
		}
	})
}

// FuzzRecords: no damaged record makes its reader panic, and one that is read is written as it was.
func FuzzRecords(f *testing.F) {
	f.Add([]byte(`{"id":"j","account":"a","state":"queued"}`))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 9})
	f.Fuzz(func(t *testing.T, v []byte) {
		var j Job
		if decodeJSON([]byte{tableJob}, v, &j) == nil {
			_, err := json.Marshal(j)
			require.NoError(t, err)
		}
		_, err := decodeUint64(v, "a reservation")
		require.Equal(t, len(v) == 8, err == nil)
		if _, err := readRecord(append([]byte{pairForm}, v...)); err != nil {
			require.False(t, errors.Is(err, ErrNotFound))
		}
	})
}

package store

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/store/joborder"
)

// FuzzCursor: no cursor shows a job of another account, in whatever order, and a listing fails at most with
// ErrBadCursor or ErrCursorSort.
func FuzzCursor(f *testing.F) {
	s, err := Open(vfs.NewMem(), "state")
	require.NoError(f, err)
	f.Cleanup(func() { _ = s.Close() })
	now := time.Unix(1_700_000_000, 0)
	for _, account := range []string{"a", "b"} {
		for _, id := range []string{"1", "2", "3"} {
			require.NoError(f, s.AcceptJob(&Job{ID: account + id, Account: account, State: JobQueued, CreatedAt: now,
				Name: "list " + id}))
		}
	}
	for order := range joborder.Orders {
		page, err := s.ListJobs(JobQuery{Account: "a", Order: order, Limit: 1})
		require.NoError(f, err)
		f.Add(byte(order), page.Next)
	}
	f.Add(byte(0), "")
	f.Add(byte(0), "\xff\xff\xff\xff\xff\xff\xff\xff\xff")
	f.Add(byte(1), "\x01\xff\xff\xff\xff\xff\xff\xff\xff\x00b1")
	f.Add(byte(2), "b\x00\x00")
	f.Fuzz(func(t *testing.T, order byte, cursor string) {
		q := JobQuery{Account: "a", Order: joborder.Order(order) % joborder.Orders, Limit: 10, Cursor: cursor}
		page, err := s.ListJobs(q)
		if err != nil {
			require.True(t, errors.Is(err, ErrBadCursor) || errors.Is(err, ErrCursorSort), err)
		}
		for _, j := range page.Jobs {
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

package record

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/store"
)

// TestExpiresAtFollowsRetention: expires_at follows the operator's setting, and is the actual time once results are
// deleted.
func TestExpiresAtFollowsRetention(t *testing.T) {
	db, err := store.Open(vfs.NewMem(), "state")
	require.NoError(t, err)
	defer db.Close()
	end := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	j := &store.Job{ID: "j", State: store.JobCompleted, Dialect: json.RawMessage(`{}`), FinishedAt: end}
	expires := func() any {
		b, err := ForCallback(db.DB, "http://probity.test", 48*time.Hour, j, store.Callback{})
		require.NoError(t, err)
		var r map[string]any
		require.NoError(t, json.Unmarshal(b, &r))
		return r["expires_at"]
	}
	require.Equal(t, "2026-03-06T05:06:07Z", expires())
	j.State, j.ExpiredAt = store.JobExpired, end.Add(time.Hour)
	require.Equal(t, "2026-03-04T06:06:07Z", expires())
}

package coordinator

import (
	"encoding/binary"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/results"
	"probity/store"
)

const day = 24 * time.Hour

// TestRetentionFollowsTheConfiguration: results are kept exactly as long as configured, then the record with its
// callback log. Other jobs stay.
func TestRetentionFollowsTheConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem(), func(_ *testEnv, c *Config) { c.RetainResults, c.RetainHistory = day, 2*day })
		w.run()
		require.Equal(t, day, w.c.ResultRetention())
		j := w.finish(t, w.accept(t, testCSV(50, 1)).ID)
		require.NoError(t, w.store.Commit("", store.ScheduleCallback("", j.ID, time.Now())))
		require.NoError(t, w.store.Audit(store.AuditEvent{At: time.Now(), By: "ann", Action: store.ActionDownload,
			Target: j.ID}))
		require.NoError(t, w.store.Audit(store.AuditEvent{At: time.Now(), By: "root", Action: "grant", Target: "ann"}))
		time.Sleep(day - time.Minute)
		require.Equal(t, store.JobCompleted, stateOf(t, w, j.ID).State)
		w.results(t, j.ID, results.Filter{})
		time.Sleep(time.Hour + 2*time.Minute)
		s := stateOf(t, w, j.ID)
		require.Equal(t, store.JobExpired, s.State)
		require.WithinDuration(t, time.Now(), s.ExpiredAt, time.Hour+2*time.Minute)
		_, err := w.store.Callback(j.ID)
		require.NoError(t, err, "the record is history")
		acts, err := w.store.AuditEvents("", 10)
		require.NoError(t, err)
		require.Len(t, acts, 2)

		time.Sleep(day - 2*time.Hour)
		require.Equal(t, store.JobExpired, stateOf(t, w, j.ID).State)
		other := w.finish(t, w.accept(t, testCSV(50, 1)).ID)
		time.Sleep(3 * time.Hour)
		_, err = w.c.Job(j.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		_, err = w.store.Callback(j.ID)
		require.ErrorIs(t, err, store.ErrNoCallback)
		acts, err = w.store.AuditEvents("", 10)
		require.NoError(t, err)
		require.Len(t, acts, 1, "what admins did stays")
		require.Equal(t, "grant", acts[0].Action)
		require.Equal(t, store.JobCompleted, stateOf(t, w, other.ID).State)
		require.NoError(t, w.close(t))
	})
}

// TestRetentionContinuesPastFailures: a job whose folder cannot be removed, and an unreadable record of the audit log,
// stay and are logged; others are removed. An hour after the disk works again the job is removed too.
func TestRetentionContinuesPastFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem()
		disk := &brokenFS{FS: mem, err: syscall.EIO}
		w := newTestEnv(t, mem, func(_ *testEnv, c *Config) {
			c.FS, c.RetainResults, c.RetainHistory = disk, day,
				2*day
		})
		w.run()
		stuck, good := w.finish(t, w.accept(t, testCSV(50, 1)).ID), w.finish(t, w.accept(t, testCSV(50, 1)).ID)
		unread := append(binary.BigEndian.AppendUint64([]byte{'z'}, uint64(time.Now().UnixNano())), "cccccccc"...)
		require.NoError(t, w.store.Commit("", func(b *pebble.Batch) error {
			return b.Set(unread, []byte("no JSON"),
				nil)
		}))
		require.NoError(t, w.store.Audit(store.AuditEvent{At: time.Now().Add(time.Second), By: "ann",
			Action: store.ActionDownload, Target: good.ID}))
		disk.breakPath(stuck.ID)
		time.Sleep(2*day + 2*time.Hour)
		_, err := w.c.Job(good.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		require.Equal(t, store.JobExpired, stateOf(t, w, stuck.ID).State)
		require.NotZero(t, w.c.metrics.retentionErrors.Load())
		require.NoError(t, w.store.Commit("", func(b *pebble.Batch) error { return b.Delete(unread, nil) }))
		acts, err := w.store.AuditEvents("", 10)
		require.NoError(t, err)
		require.Empty(t, acts, "the download's record went")
		disk.repair()
		time.Sleep(time.Hour + time.Minute)
		_, err = w.c.Job(stuck.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		require.NoError(t, w.close(t), "the service went on")
	})
}

func TestHistoryIsKeptForeverByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem(), func(_ *testEnv, c *Config) { c.RetainResults = day })
		w.run()
		j := w.finish(t, w.accept(t, testCSV(50, 1)).ID)
		time.Sleep(3 * day)
		require.Equal(t, store.JobExpired, stateOf(t, w, j.ID).State)
		require.NoError(t, w.close(t))
	})
}

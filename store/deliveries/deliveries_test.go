package deliveries

import (
	"errors"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/store"
)

const testURL = "s3://bucket/out/j1.csv.zst"

func open(t *testing.T, fs vfs.FS) *store.Store {
	s, err := store.Open(fs, "state")
	require.NoError(t, err)
	return s
}

func accept(t *testing.T, s *store.Store, id string) *store.Job {
	j := &store.Job{ID: id, Account: "a", State: store.JobQueued, CreatedAt: time.Unix(1, 0)}
	require.NoError(t, s.AcceptJob(j, Accept(j, testURL)))
	return j
}

func due(t *testing.T, s *store.Store, at time.Time) []string {
	jobs, _, err := Due(s.DB, at, Cursor{}, 10)
	require.NoError(t, err)
	return jobs
}

// TestDeliveryIsDueFromTheEndOfItsJob: not before, and once, whether the end is committed again or not.
func TestDeliveryIsDueFromTheEndOfItsJob(t *testing.T) {
	fs := vfs.NewMem()
	s := open(t, fs)
	j := accept(t, s, "j1")
	now := time.Now()
	require.Empty(t, due(t, s, now.Add(time.Hour)))
	no := errors.New("no")
	require.ErrorIs(t, s.Commit("a", JobEnded(j), func(*pebble.Batch) error { return no }), no)
	require.Empty(t, due(t, s, now.Add(time.Hour)), "the end was not committed")
	j.State, j.FinishedAt = store.JobCompleted, now
	require.NoError(t, s.Commit("a", JobEnded(j)))
	require.Equal(t, []string{"j1"}, due(t, s, now))
	require.Empty(t, due(t, s, now.Add(-time.Second)))
	d, err := Update(s.DB, "j1", func(d *Delivery) { d.Complete(now) })
	require.NoError(t, err)
	require.Equal(t, Delivered, d.State)
	require.NoError(t, s.Commit("a", JobEnded(j)))
	require.Empty(t, due(t, s, now.Add(time.Hour)))
	require.NoError(t, s.Close())
	s = open(t, fs)
	again, err := Of(s.DB, "j1")
	require.NoError(t, err)
	require.Equal(t, d, again)
	require.NoError(t, s.Close())
}

func TestFailedJobHasNothingToDeliver(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	j := accept(t, s, "j1")
	j.State = store.JobFailed
	require.NoError(t, s.Commit("a", JobEnded(j)))
	d, err := Of(s.DB, "j1")
	require.NoError(t, err)
	require.Equal(t, Failed, d.State)
	require.Contains(t, d.Error, "no results")
	require.Empty(t, due(t, s, time.Now().Add(time.Hour)))
	other := &store.Job{ID: "j2", Account: "a", State: store.JobCompleted}
	require.NoError(t, s.AcceptJob(other))
	require.NoError(t, s.Commit("a", JobEnded(other)), "a job without a delivery")
	_, err = Of(s.DB, "j2")
	require.ErrorIs(t, err, ErrNone)
}

// TestTriesAreBounded: the schedule is used up after nine attempts in a row without a new part, and begins again after
// one.
func TestTriesAreBounded(t *testing.T) {
	now := time.Unix(1_800_000_000, 0).UTC()
	d := Delivery{State: Pending}
	d.Begin(now)
	for i, delay := range delays {
		d.Fail("no", 1, now)
		require.Equal(t, Pending, d.State)
		require.Equal(t, now.Add(delay+delay/5), d.Next, "%d", i)
	}
	fresh := d
	fresh.BeginUpload("u1", "f", 1)
	fresh.AddPart("p1")
	fresh.Fail("later", 0, now)
	require.Equal(t, Pending, fresh.State)
	require.Equal(t, now.Add(delays[0]), fresh.Next)
	d.Fail("at last", 0, now)
	require.Equal(t, Failed, d.State)
	require.Equal(t, "at last", d.Error)
	require.Equal(t, now, d.EndedAt)
	require.Equal(t, len(delays)+1, d.Attempts)
	require.True(t, d.Next.IsZero())
}

// TestOnlyNewPartsBeginTheScheduleAgain: parts that an earlier upload of the file had do not, those of another file do.
func TestOnlyNewPartsBeginTheScheduleAgain(t *testing.T) {
	d := Delivery{State: Pending}
	send := func(id, file string, parts int) int {
		d.BeginUpload(id, file, 1)
		for range parts {
			d.AddPart("p")
		}
		d.Fail("no", 0, time.Now())
		return d.Tries
	}
	require.Equal(t, 1, send("u1", "f", 3))
	d.LoseUpload()
	require.Empty(t, d.Upload.ID)
	require.Empty(t, d.Upload.Parts)
	require.Equal(t, 2, send("u2", "f", 2))
	require.Equal(t, 3, send("u3", "f", 3))
	require.Equal(t, 1, send("u4", "f", 4))
	require.Equal(t, 2, send("u5", "f", 0))
	require.Equal(t, 1, send("u6", "another", 1))
}

// TestEndedDeliveriesStay as they ended, whatever ends late.
func TestEndedDeliveriesStay(t *testing.T) {
	now := time.Now()
	for _, end := range []func(*Delivery){func(d *Delivery) { d.Complete(now) },
		func(d *Delivery) { d.Abandon("no", now) }} {
		d := Delivery{State: Pending}
		end(&d)
		was := d
		d.Complete(now.Add(time.Hour))
		d.Abandon("other", now.Add(time.Hour))
		d.Fail("other", 0, now)
		require.Equal(t, was, d)
	}
}

// TestDueOnesAreRead in pages, those first that wait longest, and only where they are at last.
func TestDueOnesAreRead(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	now := time.Now()
	for i, id := range []string{"j3", "j1", "j2"} {
		j := accept(t, s, id)
		j.State, j.FinishedAt = store.JobCompleted, now.Add(time.Duration(i)*time.Second)
		require.NoError(t, s.Commit("a", JobEnded(j)))
	}
	later := now.Add(time.Minute)
	first, next, err := Due(s.DB, later, Cursor{}, 2)
	require.NoError(t, err)
	require.Equal(t, []string{"j3", "j1"}, first)
	rest, next, err := Due(s.DB, later, next, 2)
	require.NoError(t, err)
	require.Equal(t, []string{"j2"}, rest)
	require.Zero(t, next)
	_, err = Update(s.DB, "j3", func(d *Delivery) { d.Fail("no", 0, later) })
	require.NoError(t, err)
	require.Equal(t, []string{"j1", "j2"}, due(t, s, later))
	require.Equal(t, []string{"j1", "j2", "j3"}, due(t, s, later.Add(time.Minute)))
}

// TestDeletedJobHasNoDelivery from the commit on that deletes it.
func TestDeletedJobHasNoDelivery(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	for _, id := range []string{"j1", "j2"} {
		require.NoError(t, s.Commit("a", JobEnded(accept(t, s, id))))
	}
	no := errors.New("no")
	require.ErrorIs(t, s.DeleteJob("j1", JobDeleted("j1"), func(*pebble.Batch) error { return no }), no)
	require.Equal(t, []string{"j1", "j2"}, due(t, s, time.Now()))
	require.NoError(t, s.DeleteJob("j1", JobDeleted("j1")))
	require.Equal(t, []string{"j2"}, due(t, s, time.Now()))
	_, err := Of(s.DB, "j1")
	require.ErrorIs(t, err, ErrNone)
	require.NoError(t, s.Commit("a", JobDeleted("j1")), "there is none")
}

// TestUnstartedJobHasNothingToDeliver: its delivery ends as it expires, and no other does.
func TestUnstartedJobHasNothingToDeliver(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	accept(t, s, "j1")
	require.NoError(t, s.Commit("a", JobEnded(accept(t, s, "j2"))))
	for range 2 {
		require.NoError(t, s.Commit("a", JobExpired("j1"), JobExpired("j2"), JobExpired("j3")))
	}
	d, err := Of(s.DB, "j1")
	require.NoError(t, err)
	require.Equal(t, Failed, d.State)
	require.Equal(t, "the job was not started", d.Error)
	d, err = Of(s.DB, "j2")
	require.NoError(t, err)
	require.Equal(t, Pending, d.State)
	require.Equal(t, []string{"j2"}, due(t, s, time.Now()))
}

// TestSweepDropsThoseOfDeletedJobs, and no others.
func TestSweepDropsThoseOfDeletedJobs(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	for _, id := range []string{"j1", "j2"} {
		j := accept(t, s, id)
		require.NoError(t, s.Commit("a", JobEnded(j)))
	}
	require.NoError(t, s.DeleteJob("j1"))
	n, err := Sweep(s)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Equal(t, []string{"j2"}, due(t, s, time.Now().Add(time.Hour)))
	_, err = Update(s.DB, "j1", func(*Delivery) {})
	require.ErrorIs(t, err, ErrNone)
	require.NoError(t, Drop(s.DB, "j1"))
}

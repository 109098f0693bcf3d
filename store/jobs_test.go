package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

func TestAcceptJobWithItsReservation(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	j := &Job{ID: "j1", Account: "a", State: JobQueued, CreatedAt: time.Unix(1, 0)}
	poor := errors.New("not enough credits")
	require.ErrorIs(t, s.AcceptJob(j, func(*pebble.Batch) error { return poor }), poor)
	_, err := s.Job("j1")
	require.ErrorIs(t, err, ErrNotFound, "a refused job leaves nothing")
	require.NoError(t, s.AcceptJob(j))
	require.ErrorIs(t, s.AcceptJob(j), ErrJobExists)
}

func TestUpdateJob(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	require.NoError(t, s.AcceptJob(&Job{ID: "j1", State: JobQueued}))
	j, err := s.UpdateJob("j1", func(j *Job) error { j.State = JobRunning; return nil })
	require.NoError(t, err)
	require.Equal(t, JobRunning, j.State)
	no := errors.New("no")
	_, err = s.UpdateJob("j1", func(j *Job) error { j.State = JobFailed; return no })
	require.ErrorIs(t, err, no)
	j, err = s.Job("j1")
	require.NoError(t, err)
	require.Equal(t, JobRunning, j.State)
}

func TestJobsOfPagesNewestFirst(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	for i := range 5 {
		state := JobQueued
		if i%2 == 0 {
			state = JobCompleted
		}
		require.NoError(t, s.AcceptJob(&Job{ID: fmt.Sprint("j", i), Account: "a", State: state,
			CreatedAt: time.Unix(int64(i), 0)}))
	}
	require.NoError(t, s.AcceptJob(&Job{ID: "other", Account: "ab", CreatedAt: time.Unix(9, 0)}))
	var ids []string
	for cursor, more := "", true; more; more = cursor != "" {
		jobs, next, err := s.JobsOf("a", "", 2, cursor)
		require.NoError(t, err)
		for _, j := range jobs {
			ids = append(ids, j.ID)
		}
		cursor = next
	}
	require.Equal(t, []string{"j4", "j3", "j2", "j1", "j0"}, ids)
	jobs, next, err := s.JobsOf("a", JobCompleted, 10, "")
	require.NoError(t, err)
	require.Len(t, jobs, 3)
	require.Empty(t, next)
	require.NoError(t, s.DeleteJob("j4"))
	jobs, _, err = s.JobsOf("a", "", 10, "")
	require.NoError(t, err)
	require.Len(t, jobs, 4)
}

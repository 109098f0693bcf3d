package store

import (
	"errors"
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

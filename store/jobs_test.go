package store

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
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
		require.NoError(t, s.AcceptJob(&Job{ID: fmt.Sprint("j", i), Account: "a", State: state, CreatedAt: time.Unix(int64(i), 0)}))
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

func TestChunksFinishInOneCommit(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	made := []Chunk{{Number: 1, Class: "google", Rows: 3}, {Number: 2, Class: "tail"}}
	require.NoError(t, s.FinishChunks("j", nil, made))
	require.NoError(t, s.FinishChunks("jj", nil, made[:1]))
	again := Chunk{Number: 3, Class: "google", Egress: "e1", Attempt: 1, NotBefore: time.UnixMilli(5).UTC()}
	require.NoError(t, s.FinishChunks("j", []uint64{1}, []Chunk{again}))
	var got []Chunk
	require.NoError(t, s.Chunks("j", func(c Chunk) error { got = append(got, c); return nil }))
	require.Equal(t, []Chunk{made[1], again}, got)
}

func TestChunkRecord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Chunk{
			Offset: rapid.Int64Range(0, 1<<50).Draw(t, "offset"), Length: rapid.Uint32().Draw(t, "length"),
			Rows: rapid.Uint32().Draw(t, "rows"), Attempt: rapid.Uint8().Draw(t, "attempt"),
			Class: rapid.StringN(0, 300, 400).Draw(t, "class"), Egress: rapid.String().Draw(t, "egress"),
		}
		if ms := rapid.Int64Range(0, 1<<42).Draw(t, "due"); ms > 0 {
			c.NotBefore = time.UnixMilli(ms).UTC()
		}
		got, err := readChunk(appendChunk(nil, &c))
		if err != nil || got != c {
			t.Fatalf("got %+v, %v, want %+v", got, err, c)
		}
	})
}

func FuzzReadChunk(f *testing.F) {
	f.Add(appendChunk(nil, &Chunk{Class: "tail", Egress: "x"}))
	f.Fuzz(func(t *testing.T, b []byte) { readChunk(b) })
}

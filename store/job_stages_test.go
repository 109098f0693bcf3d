package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestEachJobIsInOneStage takes jobs through any states and deletes some: each is in the index once, in its stage, and
// those that are longest there come first.
func TestEachJobIsInOneStage(t *testing.T) {
	states := []JobState{JobReady, JobQueued, JobRunning, JobPaused, JobCancelling, JobFinalizing, JobCompleted,
		JobCancelled, JobFailed, JobExpired}
	rapid.Check(t, func(t *rapid.T) {
		s, err := Open(vfs.NewMem(), "state")
		require.NoError(t, err)
		defer s.Close()
		for step := range rapid.IntRange(1, 40).Draw(t, "steps") {
			id := fmt.Sprint("j", rapid.IntRange(0, 5).Draw(t, "job"))
			at := time.Unix(int64(rapid.IntRange(-10, 1000).Draw(t, "time")), 0)
			switch rapid.IntRange(0, 3).Draw(t, "act") {
			case 0:
				err = s.AcceptJob(&Job{ID: id, Account: "a", State: JobQueued, CreatedAt: at})
			case 1:
				err = s.DeleteJob(id)
			default:
				_, err = s.UpdateJob(id, func(j *Job) error {
					j.State, j.FinishedAt = rapid.SampledFrom(states).Draw(t, "state"), at
					return nil
				})
			}
			if err != nil {
				require.True(t, errors.Is(err, ErrJobExists) || errors.Is(err, ErrNotFound), "step %d: %v", step, err)
			}
		}
		want := map[JobStage][]*Job{}
		require.NoError(t, s.AllJobs(func(j *Job) error {
			stage, _ := j.stage()
			want[stage] = append(want[stage], j)
			return nil
		}))
		since := time.Unix(500, 0)
		for _, stage := range []JobStage{StageReady, StageUnfinished, StageKept, StageExpired} {
			slices.SortFunc(want[stage], func(a, b *Job) int {
				return strings.Compare(string(stageKey(a)), string(stageKey(b)))
			})
			var all, old, got, gotOld []string
			for _, j := range want[stage] {
				all = append(all, j.ID)
				if _, at := j.stage(); !at.After(since) {
					old = append(old, j.ID)
				}
			}
			require.NoError(t, s.JobsIn(stage, func(id string) error { got = append(got, id); return nil }))
			require.NoError(t, s.JobsInSince(stage, since,
				func(id string) error { gotOld = append(gotOld, id); return nil }))
			require.Equal(t, all, got)
			require.Equal(t, old, gotOld)
		}
	})
}

// TestOpenReadsAccountsAsTheyWere: accounts, keys and their last uses are the same in memory after the store was opened
// again.
func TestOpenReadsAccountsAsTheyWere(t *testing.T) {
	disk := vfs.NewMem()
	s := open(t, disk)
	now := time.Now()
	var secrets []string
	for i := range 5 {
		u, _, err := s.AddUser(t.Context(), NewUser{Email: fmt.Sprintf("u%d@x.example", i),
			Limits: Limits{BulkPerHour: i}}, "test", now)
		require.NoError(t, err)
		for range i {
			secret, _, err := s.CreateKey(u.ID, NewKey{Name: "k"}, "test", now)
			require.NoError(t, err)
			secrets = append(secrets, secret)
		}
		if i == 3 {
			require.NoError(t, s.DisableUser(u.ID, "test", now))
		}
	}
	_, err := s.Authenticate(secrets[0], now)
	require.NoError(t, err)
	require.NoError(t, s.WriteLastUsed())
	state := func(s *Store) string {
		keys, err := s.Keys("")
		require.NoError(t, err)
		text, err := json.Marshal(map[string]any{"users": s.Users(), "keys": keys})
		require.NoError(t, err)
		return string(text)
	}
	before := state(s)
	require.NoError(t, s.Close())
	s = open(t, disk)
	require.Equal(t, before, state(s))
	for i, secret := range secrets {
		_, err := s.Authenticate(secret, now)
		if i >= 3 && i < 6 {
			require.ErrorIs(t, err, ErrBadKey)
			continue
		}
		require.NoError(t, err)
	}
	require.NoError(t, s.Close())
}

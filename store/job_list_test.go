package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/store/joborder"
)

// acceptNamed accepts a job of account a, created at a second.
func acceptNamed(t *testing.T, s *Store, id, name string, second int64) {
	t.Helper()
	require.NoError(t, s.AcceptJob(&Job{ID: id, Account: "a", State: JobQueued, Name: name,
		CreatedAt: time.Unix(second, 0)}))
}

// idsOf pages through a list, and calls between after each page but the last.
func idsOf(t *testing.T, s *Store, q JobQuery, between func()) (ids []string) {
	t.Helper()
	for {
		page, err := s.ListJobs(q)
		require.NoError(t, err)
		require.LessOrEqual(t, len(page.Jobs), q.Limit)
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		if page.Next == "" {
			return ids
		}
		q.Cursor = page.Next
		between()
	}
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
	ids := idsOf(t, s, JobQuery{Account: "a", Limit: 2}, func() {})
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

// Names are compared without case; a job without one is sorted by the name of its file. Of equal names the newest job
// is first, and of equal times the least id.
func TestJobsAreSorted(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	acceptNamed(t, s, "j1", "beta", 1)
	acceptNamed(t, s, "j2", "Alpha", 2)
	acceptNamed(t, s, "j3", "alpha", 3)
	acceptNamed(t, s, "j5", "ALPHA", 3)
	acceptNamed(t, s, "j4", "", 4)
	require.NoError(t, s.AcceptJob(&Job{ID: "j6", Account: "b", State: JobPaused, Filename: "Bah.csv",
		CreatedAt: time.Unix(2, 1)}))
	for order, want := range map[joborder.Order]string{
		joborder.Newest:         "j4 j3 j5 j6 j2 j1",
		joborder.Oldest:         "j1 j2 j6 j5 j3 j4",
		joborder.ByName:         "j4 j3 j5 j2 j6 j1",
		joborder.ByNameReversed: "j1 j6 j2 j5 j3 j4",
	} {
		for limit := 1; limit <= 7; limit++ {
			q := JobQuery{AllAccounts: true, Count: true, Order: order, Limit: limit}
			require.Equal(t, want, strings.Join(idsOf(t, s, q, func() {}), " "), "%d, pages of %d", order, limit)
			page, err := s.ListJobs(q)
			require.NoError(t, err)
			require.Equal(t, 6, page.Total)
			q = JobQuery{Account: "a", Order: order, Limit: limit}
			require.Equal(t, strings.Replace(want, "j6 ", "", 1), strings.Join(idsOf(t, s, q, func() {}), " "))
			q.State = JobPaused
			require.Empty(t, idsOf(t, s, q, func() {}))
		}
	}
}

// Between two pages the last job that was shown is deleted, and jobs are added before and behind it: each job that was
// there all the time is shown once, and so is each that was added behind.
func TestPagesAreExactWhileJobsComeAndGo(t *testing.T) {
	for order := range joborder.Orders {
		for _, all := range []bool{false, true} {
			s := open(t, vfs.NewMem())
			for i := range 6 {
				acceptNamed(t, s, fmt.Sprint("j", i), "list 1", int64(10+i%2))
			}
			q := JobQuery{Account: "a", AllAccounts: all, Order: order, Limit: 2}
			first, err := s.ListJobs(q)
			require.NoError(t, err)
			rest := idsOf(t, s, JobQuery{Account: "a", Order: order, Limit: 9, Cursor: first.Next}, func() {})
			behind := joborder.Oldest == order || joborder.ByName == order
			n := 0
			ids := idsOf(t, s, q, func() {
				n++
				if n > 1 {
					return
				}
				for _, j := range first.Jobs {
					require.NoError(t, s.DeleteJob(j.ID))
				}
				if behind {
					acceptNamed(t, s, "first", "list 0", 1)
					acceptNamed(t, s, "last", "list 2", 99)
				} else {
					acceptNamed(t, s, "first", "list 2", 99)
					acceptNamed(t, s, "last", "list 0", 1)
				}
			})
			want := slices.Concat([]string{first.Jobs[0].ID, first.Jobs[1].ID}, rest, []string{"last"})
			require.Equal(t, want, ids, "order %d", order)
			require.NoError(t, s.Close())
		}
	}
}

// A job is found by the state and in the place that it has now.
func TestListFollowsChanges(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	acceptNamed(t, s, "j1", "a", 1)
	acceptNamed(t, s, "j2", "b", 2)
	_, err := s.UpdateJob("j1", func(j *Job) error { j.State, j.Name = JobRunning, "c"; return nil })
	require.NoError(t, err)
	byName := JobQuery{Account: "a", Order: joborder.ByName, Limit: 1}
	require.Equal(t, []string{"j2", "j1"}, idsOf(t, s, byName, func() {}))
	require.Equal(t, []string{"j1"}, idsOf(t, s, JobQuery{Account: "a", State: JobRunning, Limit: 1}, func() {}))
	require.Equal(t, []string{"j2"}, idsOf(t, s, JobQuery{Account: "a", State: JobQueued, Limit: 1}, func() {}))
	require.NoError(t, s.DeleteJob("j1"))
	require.Equal(t, []string{"j2"}, idsOf(t, s, byName, func() {}))
}

// Records are long: a list reads those of its page, and the index of the others.
func TestListReadsRecordsOfThePageOnly(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	for i := range 20 {
		acceptNamed(t, s, fmt.Sprint("j", 10+i), fmt.Sprint("n", 99-i), int64(i))
	}
	damaged := func(b *pebble.Batch) error { return b.Set(key(tableJob, "j15"), []byte("{"), nil) }
	require.NoError(t, s.Commit("a", damaged))
	for order := range joborder.Orders {
		for _, all := range []bool{false, true} {
			page, err := s.ListJobs(JobQuery{Account: "a", AllAccounts: all, Order: order, Limit: 2, Count: all})
			require.NoError(t, err)
			require.Len(t, page.Jobs, 2)
		}
	}
}

// The beginning of a name decides, so that a cursor stays short and a name with a line of characters is no key.
func TestLongNamesAreSortedByTheirBeginning(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	long := strings.Repeat("ä", 100)
	acceptNamed(t, s, "j1", long+"b", 2)
	acceptNamed(t, s, "j2", long+"a", 1)
	acceptNamed(t, s, "j3", long+"\x00", 3)
	page, err := s.ListJobs(JobQuery{Account: "a", Order: joborder.ByName, Limit: 1})
	require.NoError(t, err)
	require.LessOrEqual(t, len(page.Next), 1+8+joborder.MaxName+1+2)
	require.Equal(t, []string{"j3", "j1", "j2"},
		idsOf(t, s, JobQuery{Account: "a", Order: joborder.ByName, Limit: 1}, func() {}))
}

func TestCursorsOfJobsAreChecked(t *testing.T) {
	s := open(t, vfs.NewMem())
	defer s.Close()
	acceptNamed(t, s, "j1", "a", 1)
	acceptNamed(t, s, "j2", "b", 2)
	for order := range joborder.Orders {
		page, err := s.ListJobs(JobQuery{Account: "a", Order: order, Limit: 1})
		require.NoError(t, err)
		for other := range joborder.Orders {
			_, err := s.ListJobs(JobQuery{Account: "a", Order: other, Limit: 1, Cursor: page.Next})
			if other == order {
				require.NoError(t, err)
			} else {
				require.ErrorIs(t, err, ErrCursorSort)
			}
		}
		for _, bad := range []string{page.Next[:len(page.Next)-2], page.Next[:4], "\x04" + page.Next[1:], "x"} {
			_, err := s.ListJobs(JobQuery{Account: "a", Order: order, Limit: 1, Cursor: bad})
			require.ErrorIs(t, err, ErrBadCursor, "%q", bad)
		}
	}
	page, err := s.ListJobs(JobQuery{Account: "a", Order: joborder.ByName, Limit: 1})
	require.NoError(t, err)
	_, err = s.ListJobs(JobQuery{Account: "a", Limit: 1, Cursor: "\x00" + page.Next[1:]})
	require.ErrorIs(t, err, ErrBadCursor, "a time without a name")
}

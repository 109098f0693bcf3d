package store

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/store/joborder"
)

// BenchmarkListJobs reads a page in the middle of an account's 100,000 jobs, in each order.
func BenchmarkListJobs(b *testing.B) {
	s, err := Open(vfs.NewMem(), "state")
	require.NoError(b, err)
	defer s.Close()
	for i := range 100_000 {
		j := &Job{ID: fmt.Sprintf("%032x", i*7919%100_003), Account: "account-of-the-jobs", State: JobExpired,
			Name: fmt.Sprintf("Newsletter of customer %d", i*6007%100_003), Filename: "subscribers.csv",
			Dialect:   json.RawMessage(`{"delimiter":",","encoding":"utf-8","column":2,"header":true}`),
			CreatedAt: time.Unix(1_700_000_000+int64(i), 0), Counts: map[string]int64{"VALID": 800, "INVALID": 100}}
		if i%1000 == 0 {
			j.State = JobPaused
		}
		require.NoError(b, s.AcceptJob(j))
	}
	require.NoError(b, s.db.Flush())
	for name, q := range map[string]JobQuery{
		"newest":       {Account: "account-of-the-jobs"},
		"newest, rare": {Account: "account-of-the-jobs", State: JobPaused},
		"oldest":       {Account: "account-of-the-jobs", Order: joborder.Oldest},
		"name":         {Account: "account-of-the-jobs", Order: joborder.ByName},
		"name, rare":   {Account: "account-of-the-jobs", Order: joborder.ByName, State: JobPaused},
		"-name":        {Account: "account-of-the-jobs", Order: joborder.ByNameReversed},
		"all, newest":  {AllAccounts: true, Count: true},
		"all, oldest":  {AllAccounts: true, Count: true, Order: joborder.Oldest},
		"all, name":    {AllAccounts: true, Count: true, Order: joborder.ByName},
	} {
		b.Run(name, func(b *testing.B) {
			q.Limit = 100
			first, err := s.ListJobs(q)
			require.NoError(b, err)
			q.Cursor = first.Next
			for b.Loop() {
				_, err := s.ListJobs(q)
				require.NoError(b, err)
			}
		})
	}
}

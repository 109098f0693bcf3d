package usage

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/store"
)

// account is an account with these entries and jobs, the newest first. Its ledger goes on for ever if endless is set.
type account struct {
	entries []store.Entry
	keys    []store.APIKey
	jobs    []*store.Job
	endless bool
}

func (a account) Ledger(_ string, before uint64, limit int) ([]store.Entry, error) {
	if a.endless {
		page := make([]store.Entry, limit)
		for i := range page {
			page[i] = a.entries[0]
		}
		return page, nil
	}
	var page []store.Entry
	for _, e := range a.entries {
		if (before == 0 || e.Number < before) && len(page) < limit {
			page = append(page, e)
		}
	}
	return page, nil
}

func (a account) Keys(string) ([]store.APIKey, error) { return a.keys, nil }

func (a account) Jobs(string, store.JobState, int, string) ([]*store.Job, string, error) {
	return a.jobs, "", nil
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func TestReportCountsByDayAndKey(t *testing.T) {
	yesterday := noon.AddDate(0, 0, -1)
	a := account{keys: []store.APIKey{{ID: "k1", Name: "=shop", Last4: "wxyz"}},
		entries: []store.Entry{
			{Number: 6, At: noon, Kind: store.Charge, Credits: 1, Cause: store.WithKey("single s1", "k1")},
			{Number: 5, At: noon, Kind: store.Charge, Credits: 30, Cause: "job j1"},
			{Number: 4, At: yesterday, Kind: store.Charge, Credits: 7, Cause: "job gone"},
			{Number: 3, At: yesterday, Kind: store.Grant, Credits: 100, Cause: "order"},
			{Number: 2, At: yesterday.AddDate(0, 0, -1), Kind: store.Charge, Credits: 500, Cause: "job old"},
		},
		jobs: []*store.Job{{ID: "j1", Key: "k1", State: store.JobCompleted, FinishedAt: noon,
			Counts: map[string]int64{"VALID": 30}},
			{ID: "t1", Key: "k1", State: store.JobCompleted, FinishedAt: noon, Test: true,
				Counts: map[string]int64{"VALID": 9}}}}
	r, err := Read(a, a, nil, "a", 2, noon)
	require.NoError(t, err)
	require.True(t, r.Complete)
	require.Equal(t, []string{"2026-03-03", "2026-03-04"}, []string{r.Days[0].Date, r.Days[1].Date})
	require.Equal(t, []int64{7, 100, 31, 1, 30}, []int64{r.Days[0].Used, r.Days[0].Granted, r.Days[1].Used,
		r.Days[1].Singles, r.Days[1].Counts["VALID"]})
	var keys []string
	for _, k := range r.ByKey {
		keys = append(keys, fmt.Sprintf("%s %s %d", k.Date, k.Key, k.Used))
	}
	require.Equal(t, []string{"2026-03-04 k1 31", "2026-03-03 deleted 7"}, keys)
	var file strings.Builder
	require.NoError(t, r.WriteKeys(&file))
	require.Contains(t, file.String(), "2026-03-04,k1,'=shop,1,31,0,30,0,0\n")
	b, err := json.Marshal(r)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(b), `{"by_key":[{"key_id":"k1","name":"=shop","last4":"wxyz","date":"2026-03-04",`), "%s", b)
}

// TestReportCountsUnfinishedJobs: a job that runs counts today with the verdicts that it has, and nothing twice.
func TestReportCountsUnfinishedJobs(t *testing.T) {
	a := account{jobs: []*store.Job{
		{ID: "running", State: store.JobRunning, CreatedAt: noon.AddDate(0, 0, -1)},
		{ID: "test", State: store.JobRunning, Test: true},
		{ID: "done", State: store.JobCompleted, FinishedAt: noon, Counts: map[string]int64{"VALID": 5}},
	}}
	progress := func(id string) (map[engine.Status]int64, error) {
		require.Equal(t, "running", id)
		return map[engine.Status]int64{engine.Valid: 30, engine.Unknown: 2}, nil
	}
	r, err := Read(a, a, progress, "a", 2, noon)
	require.NoError(t, err)
	require.Equal(t, map[string]int64{"VALID": 35, "RISKY": 0, "INVALID": 0, "UNKNOWN": 2}, r.Days[1].Counts)
	require.Zero(t, r.Days[0].Counts["VALID"])
	require.Equal(t, int64(35), r.ByKey[0].Counts["VALID"])
	failed := errors.New("disk")
	_, err = Read(a, a, func(string) (map[engine.Status]int64, error) { return nil, failed }, "a", 2, noon)
	require.ErrorIs(t, err, failed)
}

// TestReportIsBounded: a ledger without an end gives a report that says that it is not complete.
func TestReportIsBounded(t *testing.T) {
	a := account{endless: true, entries: []store.Entry{{Number: 1, At: noon, Kind: store.Grant, Credits: 1}}}
	r, err := Read(a, a, nil, "a", 1, noon)
	require.NoError(t, err)
	require.False(t, r.Complete)
	require.EqualValues(t, maxEntries, r.Days[0].Granted)
}

func TestLedgerFileHasNoFormulas(t *testing.T) {
	a := account{entries: []store.Entry{{Number: 9, At: noon, Kind: store.Grant, Credits: 5, Amount: 5, Cause: "=1+1",
		Balance: 5}}}
	var file strings.Builder
	require.NoError(t, WriteLedger(t.Context(), &file, a, "a"))
	require.Equal(t, "number,at,kind,credits,amount,cause,balance,reserved,key_id\n9,2026-03-04T12:00:00Z,grant,5,5,'=1+1,5,0,\n", file.String())
}

package service_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/score"
	"probity/store"
	"probity/tests/harness"
)

const (
	retryPause     = 100 * time.Millisecond // between two tries
	retryTimeout   = 20 * time.Second       // of one request
	tortureCredits = 100_000_000
)

// retryingCustomer is a customer that wants every list and every address verified once, whatever happens to the server:
// it repeats a request under the same Idempotency-Key until it gets an answer.
type retryingCustomer struct {
	*customer
	web             *http.Client
	jobCredits      int64        // spent by jobs
	singleCredits   atomic.Int64 // spent by single verifications
	singlesAnswered atomic.Int64 // single verifications answered
	jobs            int
	damagedJobs     int                          // lists that had to be uploaded again
	resultHashes    map[string][sha256.Size]byte // downloaded results, by path
}

func newRetryingCustomer(c *customer, base string) *retryingCustomer {
	c.base = base
	return &retryingCustomer{customer: c, resultHashes: map[string][sha256.Size]byte{},
		web: &http.Client{Timeout: retryTimeout, Transport: &http.Transport{}}}
}

// tryOnce sends one request.
func (s *retryingCustomer) tryOnce(ctx context.Context, method, path, contentType string, body io.Reader,
	header ...string) (reply, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.base+path, body)
	if err != nil {
		return reply{}, err
	}
	r.Header.Set("Authorization", "Bearer "+s.key)
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := s.web.Do(r)
	if err != nil {
		return reply{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, b}, err
}

// retryUntil tries until there is a sufficient answer; an error means that the time is up.
func (s *retryingCustomer) retryUntil(ctx context.Context, what string, do func() (reply, error),
	enough func(reply) bool) (reply, error) {
	var last string
	for {
		r, err := do()
		if err == nil && enough(r) {
			return r, nil
		}
		last = fmt.Sprintf("%d %.200s %v", r.status, r.body, err)
		select {
		case <-ctx.Done():
			return r, fmt.Errorf("%s, in vain: %s", what, last)
		case <-time.After(retryPause):
		}
	}
}

func isStatus(wanted ...int) func(reply) bool {
	return func(r reply) bool {
		for _, w := range wanted {
			if r.status == w {
				return true
			}
		}
		return false
	}
}

// verify verifies one list, and returns its job and its result. It gives up only a job that reports damage, and uploads
// the list again.
func (s *retryingCustomer) verify(ctx context.Context, t *testing.T, list []byte,
	look func(bulkJob)) (bulkJob, []byte) {
	t.Helper()
	for {
		j := s.follow(ctx, t, s.upload(ctx, t, list), look)
		if j.Status == string(store.JobFailed) {
			require.Equal(t, damagedJobMessage, j.Error)
			require.Equal(t, [3]int64{0, 0, j.Unique}, [3]int64{j.Reserved, j.Used, j.Refunded})
		} else if result, given := s.results(ctx, t, j.ID); given {
			return j, result
		} else {
			s.jobCredits += j.Used
		}
		s.damagedJobs++
		t.Logf("job %s is damaged: %s %s", j.ID, j.Status, j.Error)
	}
}

// upload uploads a list until it is accepted.
func (s *retryingCustomer) upload(ctx context.Context, t *testing.T, list []byte) bulkJob {
	t.Helper()
	s.jobs++
	key := fmt.Sprintf("job-%d", s.jobs)
	r, err := s.retryUntil(ctx, "upload", func() (reply, error) {
		contentType, body := multipartOf("b", field("max_age", "0"), fileOf(list))
		return s.tryOnce(ctx, http.MethodPost, "/v1/verify/bulk", contentType, body, "Idempotency-Key", key)
	}, isStatus(http.StatusAccepted))
	require.NoError(t, err)
	return jobOf(t, r.body)
}

// follow polls a job until it is finished.
func (s *retryingCustomer) follow(ctx context.Context, t *testing.T, j bulkJob, look func(bulkJob)) bulkJob {
	t.Helper()
	for !j.finished() {
		j = s.jobRecord(ctx, t, j.ID, "?wait=1")
		if j.Status == string(store.JobPaused) {
			// the next poll shows the effect
			_, _ = s.tryOnce(ctx, http.MethodPost, "/v1/verify/bulk/"+j.ID+"/resume", "", nil)
		}
		look(j)
	}
	return j
}

func (s *retryingCustomer) jobRecord(ctx context.Context, t *testing.T, id, query string) bulkJob {
	t.Helper()
	r, err := s.retryUntil(ctx, "job "+id, func() (reply, error) {
		return s.tryOnce(ctx, http.MethodGet, "/v1/verify/bulk/"+id+query, "", nil)
	}, isStatus(http.StatusOK))
	require.NoError(t, err)
	return jobOf(t, r.body)
}

// requireCorrectJob compares a job with its truth: no row lost, doubled, moved or changed, no false verdict, and the
// charge of the result. It logs rows that are UNKNOWN but could have been decided.
func (s *retryingCustomer) requireCorrectJob(t *testing.T, j bulkJob, truth, result []byte, rows int) {
	t.Helper()
	require.Equal(t, "completed", j.Status, j.Error)
	require.EqualValues(t, rows, j.TotalRows)
	found, err := score.Compare(bytes.NewReader(truth), bytes.NewReader(result))
	require.NoError(t, err)
	t.Logf("job %d: rows %d, unknown without need %d, wrong reason %d: %v", s.jobs, found.Rows, found.UnexpectedUnknown,
		found.WrongReason, j.Reasons)
	require.Equal(t, rows, found.Rows)
	require.Zero(t, found.MissingRows+found.ExtraRows+found.OrderErrors+found.ChangedCells,
		"lost, doubled, moved or changed: %+v", found)
	require.Zero(t, found.FalseValid+found.FalseInvalid, "lies: %+v", found)
	charge := billable(t, bytes.NewReader(result))
	require.Equal(t, charge, j.Used)
	require.Equal(t, j.Unique-charge, j.Refunded)
	s.jobCredits += charge
}

// sampleAddresses are the addresses of single calls.
func (p *testbed) sampleAddresses() (all []string) {
	column := -1
	harness.EachRow(p.t, p.world, 3000, func(cells []string) bool {
		if column < 0 {
			column = slices.Index(cells, "email")
		} else if said := p.world.Truth(cells[column]); len(said) == 1 && said[0].Status != "UNKNOWN" {
			all = append(all, cells[column])
		}
		return len(all) < 200
	})
	return all
}

// verifySingles verifies one address after another until ctx ends; each is charged once, or not at all.
func (s *retryingCustomer) verifySingles(ctx, patience context.Context, addresses []string) error {
	for n := 0; ctx.Err() == nil; n++ {
		body, err := json.Marshal(map[string]any{"email": addresses[n%len(addresses)], "timeout": 5})
		if err != nil {
			return err
		}
		r, err := s.retryUntil(patience, "single", func() (reply, error) {
			return s.tryOnce(patience, http.MethodPost, "/v1/verify/single", "application/json", bytes.NewReader(body),
				"Idempotency-Key", fmt.Sprintf("single-%d", n))
		}, isStatus(http.StatusOK))
		if err != nil {
			return err
		}
		var v struct {
			Used int64 `json:"credits_used"`
		}
		if err := json.Unmarshal(r.body, &v); err != nil {
			return fmt.Errorf("single: %w: %s", err, r.body)
		}
		s.singleCredits.Add(v.Used)
		s.singlesAnswered.Add(1)
		select {
		case <-ctx.Done():
		case <-time.After(retryPause):
		}
	}
	return nil
}

// requireExactLedger reads the account in the stopped server's store: one reservation and one settlement for each
// cause, and the sum of all answers.
func (s *retryingCustomer) requireExactLedger(t *testing.T, data string) {
	t.Helper()
	withStoppedStore(t, data, func(db *store.Store) {
		require.NoError(t, db.CheckLedger(s.account))
		now, err := db.Credits(s.account)
		require.NoError(t, err)
		require.Equal(t, store.Credits{Balance: tortureCredits - s.jobCredits - s.singleCredits.Load()}, now,
			"jobs %d, singles %d", s.jobCredits, s.singleCredits.Load())
		seen, sum := map[string]bool{}, map[store.Kind]int64{}
		for before, more := uint64(0), true; more; {
			entries, err := db.Ledger(s.account, before, store.MaxPage)
			require.NoError(t, err)
			for _, e := range entries {
				cause := string(e.Kind) + " " + e.Cause
				require.False(t, seen[cause], "twice: %s", cause)
				seen[cause] = true
				sum[e.Kind] += e.Credits
				before = e.Number
			}
			more = len(entries) == store.MaxPage
		}
		require.Equal(t, sum[store.Reserve], sum[store.Charge]+sum[store.Release])
		jobs, _, err := db.JobsOf(s.account, "", store.MaxPage, "")
		require.NoError(t, err)
		require.Len(t, jobs, s.jobs, "one job for each list")
	})
}

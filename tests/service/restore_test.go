package service_test

import (
	"bytes"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/score"
	"probity/internal/admin"
	"probity/store"
	"probity/tests/harness"
)

// testRestore makes a backup of a server under load, lets the server run a little longer, and kills it. The restored
// backup is the service at the moment of the backup: accounts and ledgers are exact, and each unfinished job ends with
// the rows and the charge that it would have had.
func testRestore(t *testing.T, p *serviceEnv) {
	testRestoreAfter(t, p.withoutRefusalBudget(t), 1500, 0)
}

// testRestoreAfter lets the jobs run for a while before the backup.
func testRestoreAfter(t *testing.T, p *serviceEnv, rows int, delay time.Duration) {
	const lists, granted = 3, 1_000_000
	data, restored := t.TempDir(), filepath.Join(t.TempDir(), "restored")
	var root, bulk, one *customer
	withStoppedStore(t, data, func(s *store.Store) {
		root = p.addCustomerAs(t, s, store.NewUser{Email: "root@customer.example", Role: store.Admin,
			Limits: unlimited})
		bulk = p.addCustomer(t, s, "bulk@customer.example", granted, unlimited)
		one = p.addCustomer(t, s, "one@customer.example", granted, unlimited)
	})
	s := startServer(t, p, data, "127.0.1.7")
	root.base, bulk.base, one.base = s.base, s.base, s.base
	address := p.validAddress(t)
	first, _ := p.drawList(t, rows, 41)

	stop := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() { // single calls until the server is killed
		for {
			select {
			case <-stop:
				return
			default:
				_, _ = one.verifySingle(address)
			}
		}
	})
	done, running, paused := bulk.upload(t, fileOf(first)).ID, "", ""
	bulk.follow(t, done)
	list, truth := p.drawList(t, 2*rows, 42) // with fresh addresses
	running, paused = bulk.upload(t, fileOf(list)).ID, bulk.upload(t, fileOf(list)).ID
	r, err := bulk.request(http.MethodPost, "/v1/verify/bulk/"+paused+"/pause", "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, r.status, "%s", r.body)
	sleepCtx(p.ctx, delay)
	copied := filepath.Join(t.TempDir(), "backup")
	require.Error(t, harness.Command(p.ctx, "backup", "--jobs", copied, "--server", s.base).Run(), "without a key")
	ask := harness.Command(p.ctx, "backup", "--jobs", copied, "--server", s.base)
	ask.Env = append(ask.Env, admin.KeyEnv+"="+root.key)
	out, err := ask.CombinedOutput()
	require.NoError(t, err, "%s", out)
	late := bulk.upload(t, fileOf(list)) // after the backup: lost with the server
	s.kill()
	close(stop)
	load.Wait()

	out, err = harness.Command(p.ctx, "restore", copied, "--data", restored).CombinedOutput()
	require.NoError(t, err, "%s", out)
	open := 0
	withStoppedStore(t, restored, func(s *store.Store) {
		require.NoError(t, s.AllJobs(func(j *store.Job) error {
			require.Contains(t, []string{done, running, paused}, j.ID)
			if !j.State.Finished() {
				open++
			}
			return nil
		}))
		_, err := s.Job(late.ID)
		require.ErrorIs(t, err, store.ErrNotFound)
		for _, c := range []*customer{bulk, one, root} {
			require.NoError(t, s.CheckLedger(c.account))
		}
	})
	t.Logf("%d of %d jobs were open when the backup was taken", open, lists)
	require.Positive(t, open)
	s = startServer(t, p, restored, "127.0.1.8")
	bulk.base = s.base
	spent := int64(0)
	_, err = bulk.request(http.MethodPost, "/v1/verify/bulk/"+paused+"/resume", "", nil)
	require.NoError(t, err)
	for _, id := range []string{done, running, paused} {
		j := bulk.follow(t, id)
		require.Equal(t, "completed", j.Status, j.Error)
		result := bulk.results(t, id, "")
		require.Equal(t, billable(t, bytes.NewReader(result)), j.Used)
		spent += j.Used
		if id != done {
			found, err := score.Compare(bytes.NewReader(truth), bytes.NewReader(result))
			require.NoError(t, err)
			harness.RequireScore(t, found)
		}
	}
	s.stop(t)
	withStoppedStore(t, restored, func(s *store.Store) {
		requireLedger(t, s, bulk, granted, spent, lists)
		require.NoError(t, s.CheckLedger(one.account))
	})
}

package service_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/persona"
	"probity/bench/sim/score"
	"probity/store"
	"probity/tests/harness"
)

// testLedger spends credits in every way, and checks the ledger.
func testLedger(t *testing.T, p *serviceEnv) {
	const rows, granted = 2000, 10_000
	data := t.TempDir()
	var fresh, cached, bulk *customer
	withStoppedStore(t, data, func(s *store.Store) {
		fresh = p.addCustomer(t, s, "fresh@customer.example", 1, store.Limits{})
		cached = p.addCustomer(t, s, "cached@customer.example", 1, store.Limits{})
		bulk = p.addCustomer(t, s, "bulk@customer.example", granted, store.Limits{})
	})
	s := startServer(t, p, data, "127.0.1.1")
	fresh.base, cached.base, bulk.base = s.base, s.base, s.base

	address := p.validAddress(t)
	require.False(t, fresh.spendLastCredit(t, address), "from_cache of the first probe")
	require.True(t, cached.spendLastCredit(t, address), "from_cache of the same address")

	list, truth := p.drawList(t, rows, 21)
	spent := int64(0)
	for range 2 { // the second time from the cache, which costs the same
		spent += bulk.requireCharged(t, list, truth)
	}
	s.stop(t)
	withStoppedStore(t, data, func(s *store.Store) {
		requireLedger(t, s, fresh, 1, 1, 1)
		requireLedger(t, s, cached, 1, 1, 1)
		requireLedger(t, s, bulk, granted, spent, 2)
	})
}

// validAddress is an address whose mailbox exists, at a provider that reveals it.
func (p *serviceEnv) validAddress(t *testing.T) (address string) {
	column := -1
	harness.EachRow(t, p.world, 1000, func(cells []string) bool {
		if column < 0 {
			column = slices.Index(cells, "email")
			return true
		}
		if harness.PersonaOf(p.world, cells[column]) == "google" &&
			slices.Equal(p.world.Truth(cells[column]), []persona.Outcome{{Status: "VALID"}}) {
			address = cells[column]
		}
		return address == ""
	})
	require.NotEmpty(t, address)
	return address
}

// spendLastCredit verifies one address 30 times at once, on a balance of 1.
func (c *customer) spendLastCredit(t *testing.T, address string) (fromCache bool) {
	t.Helper()
	const calls = 30 // as many as the default limit allows in a minute
	replies, errs := make([]reply, calls), make([]error, calls)
	var all sync.WaitGroup
	for i := range calls {
		all.Go(func() { replies[i], errs[i] = c.verifySingle(address) })
	}
	all.Wait()
	counts := map[int]int{}
	for i, r := range replies {
		require.NoError(t, errs[i])
		counts[r.status]++
		if r.status != http.StatusOK {
			require.JSONEq(t, fmt.Sprintf(`{"detail":%q}`, detailOf(t, r)), string(r.body))
			continue
		}
		var v struct {
			Status string
			Cached bool `json:"from_cache"`
			Used   int  `json:"credits_used"`
		}
		require.NoError(t, json.Unmarshal(r.body, &v))
		require.Equal(t, "VALID", v.Status, "%s", r.body)
		require.Equal(t, 1, v.Used)
		fromCache = v.Cached
	}
	require.Equal(t, map[int]int{http.StatusOK: 1, http.StatusPaymentRequired: calls - 1}, counts)
	c.requireCredits(t, 0, 0)
	return fromCache
}

func detailOf(t *testing.T, r reply) string {
	t.Helper()
	var v struct{ Detail string }
	require.NoError(t, json.Unmarshal(r.body, &v), "%s", r.body)
	require.NotEmpty(t, v.Detail)
	return v.Detail
}

func (c *customer) requireCredits(t *testing.T, balance, reserved int64) {
	t.Helper()
	b, r := c.credits(t)
	require.Equal(t, [2]int64{balance, reserved}, [2]int64{b, r}, "balance and reserved")
}

// requireCharged verifies a list, and compares the charge with the result file.
func (c *customer) requireCharged(t *testing.T, list, truth []byte) (charged int64) {
	t.Helper()
	before, _ := c.credits(t)
	j := c.upload(t, fileOf(list))
	require.Equal(t, j.Unique, j.Reserved)
	j = c.follow(t, j.ID)
	require.Equal(t, "completed", j.Status, j.Error)
	result := c.results(t, j.ID, "")
	found, err := score.Compare(bytes.NewReader(truth), bytes.NewReader(result))
	require.NoError(t, err)
	harness.RequireScore(t, found)
	charged = billable(t, bytes.NewReader(result))
	require.Equal(t, charged, j.Used)
	require.Equal(t, j.Unique-charged, j.Refunded)
	require.Zero(t, j.Reserved)
	require.EqualValues(t, found.Rows, j.TotalRows)
	require.Equal(t, j.TotalRows, j.Unique+j.Duplicates+j.Blank)
	c.requireCredits(t, before-charged, 0)
	return charged
}

// requireLedger reads an account's ledger in the stopped server's store: its sum, and one reservation and one charge
// for each cause.
func requireLedger(t *testing.T, s *store.Store, c *customer, granted, spent int64, reservations int) {
	t.Helper()
	require.NoError(t, s.CheckLedger(c.account))
	now, err := s.Credits(c.account)
	require.NoError(t, err)
	require.Equal(t, store.Credits{Balance: granted - spent}, now)
	entries, err := s.Ledger(c.account, 0, 0)
	require.NoError(t, err)
	count, sum, seen := map[store.Kind]int{}, map[store.Kind]int64{}, map[string]bool{}
	for _, e := range entries {
		count[e.Kind]++
		sum[e.Kind] += e.Credits
		cause := string(e.Kind) + " " + e.Cause
		require.False(t, seen[cause], "twice: %s", cause)
		seen[cause] = true
	}
	require.Equal(t, reservations, count[store.Reserve], "%+v", entries)
	require.Equal(t, spent, sum[store.Charge])
	require.Equal(t, granted, sum[store.Grant])
	require.Equal(t, sum[store.Reserve], sum[store.Charge]+sum[store.Release])
}

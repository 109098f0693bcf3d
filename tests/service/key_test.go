package service_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// testIdempotencyKey sends one file again and again under one Idempotency-Key, in forms that differ only in how they
// are written.
func testIdempotencyKey(t *testing.T, p *serviceEnv) {
	const granted = 10_000
	data := t.TempDir()
	var c *customer
	withStoppedStore(t, data, func(s *store.Store) {
		c = p.addCustomer(t, s, "once@customer.example", granted,
			unlimited)
	})
	s := startServer(t, p, data, "127.0.1.2")
	c.base = s.base
	list, _ := p.drawList(t, 500, 22)
	send := func(key, boundary string, parts ...formPart) reply {
		contentType, body := multipartOf(boundary, parts...)
		r, err := c.request(http.MethodPost, "/v1/verify/bulk", contentType, body, "Idempotency-Key", key)
		require.NoError(t, err)
		return r
	}
	first := send("k1", "one-boundary", field("name", "spring"), fileOf(list))
	require.Equal(t, http.StatusAccepted, first.status, "%s", first.body)
	require.NotEmpty(t, first.header.Get("Location"))
	same := func(r reply) {
		t.Helper()
		require.Equal(t, http.StatusAccepted, r.status, "%s", r.body)
		require.JSONEq(t, string(first.body), string(r.body))
		require.Equal(t, first.header.Get("Location"), r.header.Get("Location"))
	}
	same(send("k1", "another-boundary", field("name", "spring"), fileOf(list)))
	same(send("k1", "parts-in-another-order", fileOf(list), field("name", "spring")))
	j := c.follow(t, jobOf(t, first.body).ID)
	same(send("k1", "after-it-has-finished", fileOf(list), field("name", "spring")))

	other := send("k1", "one-boundary", field("name", "autumn"), fileOf(list))
	require.Equal(t, http.StatusUnprocessableEntity, other.status, "%s", other.body)
	other = send("k1", "one-boundary", field("name", "spring"), fileOf([]byte(strings.ToUpper(string(list)))))
	require.Equal(t, http.StatusUnprocessableEntity, other.status, "%s", other.body)
	detailOf(t, other)

	c.requireCredits(t, granted-j.Used, 0)
	require.Len(t, jobsIn(data), 1, "folders of jobs")
	s.stop(t)
	withStoppedStore(t, data, func(s *store.Store) { requireLedger(t, s, c, granted, j.Used, 1) })
}

// testRevokedKey revokes a customer's key while its job runs.
func testRevokedKey(t *testing.T, p *serviceEnv) {
	const granted = 10_000
	data := t.TempDir()
	var c, admin *customer
	withStoppedStore(t, data, func(s *store.Store) {
		c = p.addCustomer(t, s, "gone@customer.example", granted, unlimited)
		admin = p.addCustomerAs(t, s, store.NewUser{Email: "root@customer.example", Role: store.Admin})
	})
	// Greylisted rows keep the job running until it is cancelled.
	s := startServer(t, p, data, "127.0.1.3", "--retry-schedule", "2s")
	c.base, admin.base = s.base, s.base
	receiver := newCallbackReceiver(t, "127.0.2.1", answerWith(http.StatusOK))
	list, _ := p.drawList(t, 2000, 23)
	j := c.upload(t, fileOf(list), field("callback_url", receiver.url))
	p.eventually(t, "the job runs", func() bool { return c.getJob(t, j.ID, "").Status == "running" })

	r, err := admin.request(http.MethodDelete, "/v1/admin/keys/"+c.keyID, "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusNoContent, r.status, "%s", r.body)
	for _, path := range []string{"/v1/credits", "/v1/verify/bulk/" + j.ID, "/v1/verify/bulk/" + j.ID + "/results"} {
		r, err = c.request(http.MethodGet, path, "", nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusUnauthorized, r.status, path)
		require.Equal(t, "Bearer", r.header.Get("WWW-Authenticate"))
		detailOf(t, r)
	}
	r, err = c.verifySingle(p.validAddress(t))
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, r.status)
	require.Zero(t, receiver.count(), "the job ended before its key was revoked")

	e := receiver.next(t, p)
	require.Equal(t, "completed", e.Job.Status)
	require.Equal(t, j.ID, e.ID)
	require.EqualValues(t, j.TotalRows, e.rows)
	s.stop(t)
	withStoppedStore(t, data, func(s *store.Store) { requireLedger(t, s, c, granted, e.Job.Used, 1) })
}

package api

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// The hour's uploads are the accepted jobs: a refused list and a repeat under an Idempotency-Key leave the hour as it
// is, and the repeat is answered when the hour is full.
func TestOnlyAcceptedUploadsCount(t *testing.T) {
	w := newTestServer(t, nil)
	require.NoError(t, w.store.SetLimits(w.user.ID, store.Limits{BulkPerHour: 2}, "test", w.server.now()))
	list := part{"file", "l.csv", "email\na@shop.test\n"}
	left := func(r reply, status int, remaining string) reply {
		t.Helper()
		require.Equal(t, status, r.status, "%s", r.body)
		require.Equal(t, remaining, r.header.Get("RateLimit-Remaining"))
		return r
	}
	for range 5 {
		left(w.upload(w.key, nil, part{"file", "l.csv", "nothing\n"}), 422, "2")
		left(w.upload(w.key, nil, part{"name", "", "x"}), 422, "2")
	}
	_, poor := w.addCustomer("poor@probity.test", 0)
	for range 2 {
		left(w.upload(poor, nil, list), 402, "100000")
	}
	once := map[string]string{"Idempotency-Key": "k"}
	first := left(w.upload(w.key, once, list), 202, "1")
	require.Equal(t, first.body, left(w.upload(w.key, once, list), 202, "1").body)
	left(w.upload(w.key, map[string]string{"Idempotency-Key": "other"}, list), 202, "0")
	require.Equal(t, first.body, left(w.upload(w.key, once, list), 202, "0").body, "also when the hour is full")
	left(w.upload(w.key, once, part{"file", "l.csv", "email\nb@shop.test\n"}), 422, "0")
	over := left(w.upload(w.key, map[string]string{"Idempotency-Key": "new"}, list), 429, "0")
	require.NotEmpty(t, over.header.Get("Retry-After"))
}

// Uploads that are received at one time do not get past the limit together, and those that are refused leave nothing.
func TestUploadsTogetherKeepTheLimit(t *testing.T) {
	w := newTestServer(t, nil)
	require.NoError(t, w.store.SetLimits(w.user.ID, store.Limits{BulkPerHour: 2}, "test", w.server.now()))
	statuses := make([]int, 8)
	var uploads sync.WaitGroup
	for i := range statuses {
		uploads.Go(func() {
			statuses[i] = w.upload(w.key, nil, part{"file", "l.csv", "email\na@shop.test\n"}).status
		})
	}
	uploads.Wait()
	accepted := 0
	for _, status := range statuses {
		require.Contains(t, []int{202, 429}, status)
		if status == 202 {
			accepted++
		}
	}
	require.Equal(t, 2, accepted)
	require.Equal(t, 2, w.jobFolderCount())
	require.Len(t, w.get("/v1/verify/bulk", w.key).json(t)["jobs"], 2)
}

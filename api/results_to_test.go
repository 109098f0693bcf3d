package api

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestResultsToABucket: the record of a job says where its results go and what became of it. What is wrong with
// results_to is said, and costs nothing.
func TestResultsToABucket(t *testing.T) {
	w := newTestServer(t, nil)
	file := part{"file", "l.csv", smallList}
	to := func(s string) part { return part{"results_to", "", s} }
	other, otherKey := w.addCustomer("bob@probity.test", initialCredits)
	require.NotEmpty(t, other.ID)
	for _, c := range []struct{ key, to, want string }{
		{w.key, " ", "results_to is empty"},
		{w.key, "https://results/out", "results_to: it must begin with s3://"},
		{w.key, "s3://r/out", "results_to: its bucket must have 3 to 63"},
		{w.key, "s3://10.0.0.1/out", "results_to: its bucket must have"},
		{w.key, "s3://results/out/../else", "results_to: its prefix must not have"},
		{w.key, "s3://results/outside", "s3://results/outside is not among the buckets of this account"},
		{w.key, "s3://results", "not among the buckets"},
		{w.key, "s3://others/out", "not among the buckets"},
		{otherKey, "s3://results/out", "not among the buckets"},
	} {
		for _, parts := range [][]part{{to(c.to), file}, {file, to(c.to)}} {
			r := w.upload(c.key, nil, parts...)
			require.Equal(t, 422, r.status, c.to)
			require.Contains(t, r.detail(t), c.want)
		}
	}
	require.EqualValues(t, initialCredits, w.credits().Balance)
	require.Zero(t, w.jobFolderCount())
	w.requireNoScratch()

	key := map[string]string{"Idempotency-Key": "k1"}
	var id string
	for range 2 {
		r := w.upload(w.key, key, file, to("s3://results/out/daily/"))
		require.Equal(t, 202, r.status, "%s", r.body)
		id = r.json(t)["job_id"].(string)
		require.Equal(t, map[string]any{"url": "s3://results/out/daily/" + id + ".csv.zst", "status": "pending",
			"attempts": 0.0, "next_attempt_at": nil, "error": nil}, r.json(t)["results_to"])
	}
	require.Equal(t, 422, w.upload(w.key, key, file, to("s3://results/out")).status, "another under the same key")
	require.Equal(t, "completed", w.waitForJob(w.key, id)["status"])
	var record map[string]any
	require.Eventually(t, func() bool {
		record = w.get("/v1/verify/bulk/"+id, w.key).json(t)["results_to"].(map[string]any)
		return record["attempts"].(float64) > 0
	}, 20*time.Second, 20*time.Millisecond)
	require.Equal(t, "pending", record["status"])
	require.Equal(t, "the bucket's server: no connection", record["error"])
	require.NotNil(t, record["next_attempt_at"])
	require.Equal(t, 200, w.get("/v1/verify/bulk/"+id+"/results", w.key).status, "the results stay")
	listed := w.get("/v1/verify/bulk", w.key).json(t)["jobs"].([]any)
	require.Equal(t, record["url"], listed[0].(map[string]any)["results_to"].(map[string]any)["url"])

	plain := w.upload(w.key, nil, file)
	require.Equal(t, 202, plain.status)
	require.False(t, strings.Contains(string(plain.body), "results_to"), "%s", plain.body)
}

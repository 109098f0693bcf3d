package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/api/reasons"
	"probity/store"
)

// specScores is section 2: score is a whole number from 0 to 100, and status one of four words, for every reason.
func specScores(t *testing.T, w *testServer) {
	for _, r := range reasons.All() {
		name := r.String()
		if name == "" {
			name = "valid"
		}
		got := w.post("/v1/verify/single", w.testKey, fmt.Sprintf(`{"email":"%s@example.com"}`, name)).json(t)
		require.Contains(t, []any{"VALID", "RISKY", "INVALID", "UNKNOWN"}, got["status"])
		score := got["score"].(float64)
		require.True(t, score >= 0 && score <= 100 && score == float64(int(score)), "%v", score)
		require.Equal(t, got["status"] == "VALID", got["reason"] == nil, name)
	}
}

// specSingle is section 4, POST /v1/verify/single.
func specSingle(t *testing.T, w *testServer) {
	r := w.single(`{"email":"ann@shop.test","check_smtp":true}`)
	require.Equal(t, 200, r.status)
	require.Equal(t, "application/json", r.header.Get("Content-Type"))
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH"} {
		refused := w.do(request{method: method, path: "/v1/verify/single", key: w.key})
		require.Equal(t, 405, refused.status)
		require.Equal(t, "POST", refused.header.Get("Allow"))
	}
	require.Equal(t, 404, w.post("/verify/single", w.key, `{"email":"ann@shop.test"}`).status,
		"section 9: the version is a path prefix")
	require.Equal(t, 415, w.do(request{method: "POST", path: "/v1/verify/single", key: w.key,
		body:   strings.NewReader("email=ann@shop.test"),
		header: map[string]string{"Content-Type": "application/x-www-form-urlencoded"}}).status)
	require.Equal(t, 401, w.post("/v1/verify/single", "", `{"email":"ann@shop.test"}`).status)
}

// specBulk is section 4, POST /v1/verify/bulk.
func specBulk(t *testing.T, w *testServer) {
	file := part{"file", "l.csv", "email\nann@shop.test\n"}
	for name, parts := range map[string][]part{"file alone": {file},
		"callback_url first": {{"callback_url", "", "http://127.0.0.1:9/"}, file},
		"callback_url last":  {file, {"callback_url", "", "http://127.0.0.1:9/"}}} {
		r := w.upload(w.key, nil, parts...)
		require.Equal(t, 202, r.status, name)
		require.Equal(t, "application/json", r.header.Get("Content-Type"))
		id := r.json(t)["job_id"].(string)
		require.Equal(t, "/v1/verify/bulk/"+id, r.header.Get("Location"))
		require.Equal(t, 200, w.get(r.header.Get("Location"), w.key).status)
		if len(parts) > 1 {
			require.Equal(t, "pending", r.json(t)["callback_status"])
		}
	}
	require.Equal(t, 422, w.upload(w.key, nil, part{"name", "", "x"}).status, "file is required")
	require.Equal(t, 422, w.upload(w.key, nil, file, part{"callback_url", "", "not a URL"}).status,
		"callback_url is a URL")
	require.Equal(t, 415, w.post("/v1/verify/bulk", w.key, `{"file":"email"}`).status, "multipart form data")
	require.Equal(t, 401, w.upload("", nil, file).status)
}

// specDashboard is sections 1, 4 and 8: results of a job are available for seven days, with a session as well as with a
// key.
func specDashboard(t *testing.T, w *testServer) {
	b := w.signIn("lists@probity.test", store.Customer)
	body, kind := encodeForm(part{"file", "l.csv", "email\nann@shop.test\n"})
	r := b.w.do(request{method: "POST", path: "/v1/verify/bulk", body: strings.NewReader(body),
		header: map[string]string{"Cookie": b.cookie, "X-CSRF-Token": b.csrf, "Sec-Fetch-Site": "same-origin",
			"Content-Type": kind}})
	require.Equal(t, 202, r.status, "%s", r.body)
	id := r.json(t)["job_id"].(string)
	var job map[string]any
	require.Eventually(t, func() bool {
		job = b.get("/v1/verify/bulk/" + id + "?wait=10").json(t)
		return job["status"] == "completed"
	}, 20*time.Second, time.Millisecond)
	finished, err := time.Parse(time.RFC3339, job["finished_at"].(string))
	require.NoError(t, err)
	expires, err := time.Parse(time.RFC3339, job["expires_at"].(string))
	require.NoError(t, err)
	require.Equal(t, 7*24*time.Hour, expires.Sub(finished))
	results := b.get("/v1/verify/bulk/" + id + "/results")
	require.Equal(t, 200, results.status)
	require.Contains(t, string(results.body), "ann@shop.test,VALID,")
	require.Equal(t, 404, w.get("/v1/verify/bulk/"+id+"/results", w.key).status, "another account's")
	_, err = w.store.UpdateJob(id, func(j *store.Job) error { j.State = store.JobExpired; return nil })
	require.NoError(t, err)
	require.Equal(t, 410, b.get("/v1/verify/bulk/"+id+"/results").status)
	require.Equal(t, "expired", b.get("/v1/verify/bulk/" + id).json(t)["status"], "the record stays")
}

package api

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// rowsOf are the rows of a page of the history.
func (w *testServer) rowsOf(key, path, name string) (rows []map[string]any) {
	w.t.Helper()
	r := w.get(path, key)
	require.Equal(w.t, 200, r.status, "%s", r.body)
	for _, row := range r.json(w.t)[name].([]any) {
		rows = append(rows, row.(map[string]any))
	}
	return rows
}

// column is one member of each row.
func column(rows []map[string]any, name string) (values []any) {
	for _, r := range rows {
		values = append(values, r[name])
	}
	return values
}

func TestHistoryShowsWhatAnAccountDid(t *testing.T) {
	w := newTestServer(t, nil)
	key := w.newKey(w.user.ID, store.NewKey{Scopes: store.ScopeVerify | store.ScopeAccount})
	one := w.post("/v1/verify/single", key, `{"email":"ann@shop.test"}`)
	require.Equal(t, 200, one.status)
	require.Equal(t, 200, w.post("/v1/verify/batch", key,
		`{"emails":["bo@shop.test","not an address","bo@shop.test"]}`).status)
	refused := w.post("/v1/verify/single", key, `{"email":7}`)
	require.Equal(t, 422, refused.status)
	require.Equal(t, 200, w.post("/v1/verify/single", w.testKey, `{"email":"greylisted@example.com"}`).status)

	rows := w.rowsOf(key, "/v1/verifications", "verifications")
	require.Equal(t, []any{"greylisted@example.com", "bo@shop.test", "not an address", "bo@shop.test", "ann@shop.test"},
		column(rows, "email"))
	require.Equal(t, []any{true, false, false, false, false}, column(rows, "test"))
	require.Equal(t, []any{0.0, 0.0, 1.0, 1.0, 1.0}, column(rows, "credits_used"))
	require.Equal(t, []any{false, false, false, false, true}, column(rows, "receipt"))
	ann, answer := rows[4], one.json(t)
	require.Equal(t, one.header.Get("X-Request-Id"), ann["request_id"])
	require.Equal(t, "narrow", ann["key_name"])
	for _, name := range []string{"email", "status", "score", "reason", "from_cache", "credits_used"} {
		require.Equal(t, answer[name], ann[name], name)
	}

	requests := w.rowsOf(key, "/v1/requests", "requests")
	require.Equal(t, []any{"/v1/verifications", "/v1/verify/single", "/v1/verify/single", "/v1/verify/batch",
		"/v1/verify/single"}, column(requests, "route"))
	require.Equal(t, []any{200.0, 200.0, 422.0, 200.0, 200.0}, column(requests, "status_code"))
	require.Equal(t, refused.detail(t), requests[2]["detail"])
	require.Nil(t, requests[3]["detail"])
	failed := w.rowsOf(key, "/v1/requests?errors=true", "requests")
	require.Len(t, failed, 1)
	require.Equal(t, refused.header.Get("X-Request-Id"), failed[0]["request_id"])
	require.Len(t, w.rowsOf(key, "/v1/requests?route=/v1/verify/batch", "requests"), 1)

	days := w.rowsOf(key, "/v1/usage?days=1", "days")
	require.Equal(t, map[string]any{"requests": 8.0,
		"verifications": map[string]any{"VALID": 3.0, "RISKY": 0.0, "INVALID": 1.0, "UNKNOWN": 0.0}},
		days[0]["calls"])

	_, other := w.addCustomer("other@probity.test", 10)
	require.Equal(t, 403, w.get("/v1/verifications", other).status, "a key for verifying cannot read what was verified")
	stranger := w.signIn("cleo@probity.test", store.Customer)
	require.Empty(t, stranger.get("/v1/verifications").json(t)["verifications"])
	require.Empty(t, stranger.get("/v1/requests").json(t)["requests"])
	require.Equal(t, 200, stranger.do("POST", "/v1/verify/single", `{"email":"cleo@shop.test"}`).status)
	seen := stranger.get("/v1/requests").json(t)["requests"].([]any)
	require.Len(t, seen, 1, "a call from the dashboard counts; its other requests do not")
	require.Nil(t, seen[0].(map[string]any)["key_id"])
}

func TestHistoryIsFilteredAndPaged(t *testing.T) {
	w := newTestServer(t, nil)
	key := w.newKey(w.user.ID, store.NewKey{Scopes: store.ScopeVerify | store.ScopeAccount})
	began := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
	for i := range 7 {
		require.Equal(t, 200, w.post("/v1/verify/single", key, fmt.Sprintf(`{"email":"u%d@shop.test"}`, i)).status)
	}
	require.Equal(t, 200, w.post("/v1/verify/single", key, `{"email":"Not an address"}`).status)
	found := func(query string) []any {
		return column(w.rowsOf(key, "/v1/verifications?"+query, "verifications"), "email")
	}
	require.Equal(t, []any{"Not an address"}, found("status=INVALID"))
	require.Equal(t, []any{"Not an address"}, found("reason=invalid_syntax,greylisted"))
	require.Equal(t, []any{"Not an address"}, found("q=NOT"))
	require.Len(t, found("status=VALID,INVALID&from="+began), 8)
	require.Empty(t, found("to="+began))
	var all []any
	for path := "/v1/verifications?limit=3"; path != ""; {
		page := w.get(path, key).json(t)
		for _, row := range page["verifications"].([]any) {
			all = append(all, row.(map[string]any)["email"])
		}
		path = ""
		if next, ok := page["next_cursor"].(string); ok {
			path = "/v1/verifications?limit=3&cursor=" + url.QueryEscape(next)
		}
	}
	require.Equal(t, found("limit=100"), all)
	for query, detail := range map[string]string{
		"status=GOOD": "VALID, RISKY, INVALID and UNKNOWN", "reason=bad": "GET /v1/reasons",
		"from=yesterday": "from must be a time",
		"to=1":           "to must be a time", "cursor=x": "cursor must be", "cursor=0": "cursor must be",
		"limit=0": "limit must be",
	} {
		r := w.get("/v1/verifications?"+query, key)
		require.Equal(t, 422, r.status, query)
		require.Contains(t, r.detail(t), detail)
	}
	require.Equal(t, 422, w.get("/v1/requests?errors=maybe", key).status)
}

// TestHistoryForgetsErasedAddresses: an erasure reaches each spelling of the address, in single calls and batches.
func TestHistoryForgetsErasedAddresses(t *testing.T) {
	w := newTestServer(t, nil)
	key := w.newKey(w.user.ID, store.NewKey{Scopes: store.ScopeVerify | store.ScopeAccount})
	w.post("/v1/verify/single", key, `{"email":"Gone@shop.test"}`)
	w.post("/v1/verify/batch", key, `{"emails":["gone@shop.test","stays@shop.test"]}`)
	require.Equal(t, 200, w.post("/v1/admin/erase", w.adminKey, `{"address":"gone@shop.test"}`).status)
	require.Equal(t, []any{"stays@shop.test"}, column(w.rowsOf(key, "/v1/verifications", "verifications"), "email"))
}

// TestFailedCallbacksAreFoundAndReplayed: the list has the callbacks of all jobs; the failing one is found by its
// filter, with the receiver's answer, and is delivered after a replay.
func TestFailedCallbacksAreFoundAndReplayed(t *testing.T) {
	w := newTestServer(t, nil)
	var broken atomic.Bool
	broken.Store(true)
	receiver := httptest.NewServer(http.HandlerFunc(func(res http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if broken.Load() && r.URL.Path == "/broken" {
			res.WriteHeader(500)
			_, _ = res.Write([]byte("no table for ann@shop.test"))
		}
	}))
	defer receiver.Close()
	list := part{"file", "l.csv", "email\nann@shop.test\n"}
	bad := w.uploadAndWait(w.key, part{"name", "", "spring"}, part{"callback_url", "", receiver.URL + "/broken"},
		list)["job_id"].(string)
	good := w.uploadAndWait(w.key, part{"callback_url", "", receiver.URL + "/works"}, list)["job_id"].(string)
	w.uploadAndWait(w.key, list)
	rows := func(query string) []map[string]any { return w.rowsOf(w.key, "/v1/callbacks?"+query, "callbacks") }
	require.Eventually(t, func() bool { return len(rows("failing=true")) == 1 && len(rows("status=delivered")) == 1 },
		time.Minute, 20*time.Millisecond)
	require.Equal(t, []any{good, bad}, column(rows(""), "callback_id"))
	failing := rows("failing=true")[0]
	require.Equal(t, []any{bad, "spring", receiver.URL + "/broken", "pending"},
		[]any{failing["job_id"], failing["job_name"], failing["callback_url"], failing["status"]})
	require.NotNil(t, failing["next_attempt_at"])
	last := failing["last_attempt"].(map[string]any)
	require.Equal(t, []any{500.0, "answered 500", "no table for <address>"},
		[]any{last["status"], last["error"], last["answer"]})

	page := w.get("/v1/callbacks?limit=1", w.key).json(t)
	require.Equal(t, []any{bad}, column(rows("limit=1&cursor="+page["next_cursor"].(string)), "callback_id"))
	_, other := w.addCustomer("other@probity.test", 10)
	require.Empty(t, w.rowsOf(other, "/v1/callbacks", "callbacks"))
	replay := request{method: "POST", path: "/v1/callbacks/" + bad + "/replay", key: other}
	require.Equal(t, 404, w.do(replay).status)
	require.Equal(t, 422, w.get("/v1/callbacks?status=lost", w.key).status)
	require.Equal(t, 422, w.get("/v1/callbacks?cursor=!", w.key).status)

	broken.Store(false)
	replay.key = w.key
	require.Equal(t, 202, w.do(replay).status)
	require.Eventually(t, func() bool { return len(rows("status=delivered")) == 2 }, time.Minute, 20*time.Millisecond)
	require.Empty(t, rows("failing=true"))
	require.Equal(t, 204, w.do(request{method: "DELETE", path: "/v1/verify/bulk/" + good, key: w.key}).status)
	require.Equal(t, []any{bad}, column(rows(""), "callback_id"), "a deleted job leaves the list")
}

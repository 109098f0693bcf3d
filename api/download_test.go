package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// TestEachDownloadIsAudited fetches results with a key, from the dashboard and by a signed link, in several forms: each
// has exactly one entry in the audit log within an hour. An answer without rows has none.
func TestEachDownloadIsAudited(t *testing.T) {
	w := newTestServer(t, nil)
	links := make(chan string, 8)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var event struct {
			URL string `json:"results_url"`
		}
		if err := json.NewDecoder(r.Body).Decode(&event); err == nil {
			links <- event.URL
		}
	}))
	defer receiver.Close()
	b := w.signIn("dash@probity.test", store.Customer)
	account := b.get("/v1/dash/session").json(t)["user"].(map[string]any)["id"].(string)
	body, kind := encodeForm(part{"file", "l.csv", "email\nann@shop.test\n"}, part{"callback_url", "", receiver.URL})
	up := w.do(request{method: "POST", path: "/v1/verify/bulk", body: strings.NewReader(body),
		header: map[string]string{"Cookie": b.cookie, "X-CSRF-Token": b.csrf, "Sec-Fetch-Site": "same-origin",
			"Content-Type": kind}})
	require.Equal(t, 202, up.status, "%s", up.body)
	id := up.json(t)["job_id"].(string)
	link := strings.TrimPrefix(<-links, "http://probity.test")
	path := "/v1/verify/bulk/" + id + "/results"
	key := w.newKey(account, store.NewKey{Name: "n", Scopes: store.ScopeJobs})

	require.Equal(t, 200, w.get(path+"?compress=gzip&status=VALID,RISKY", key).status)
	require.Equal(t, 200, b.get(path+"?format=jsonl").status)
	signed := w.get(link, "")
	require.Equal(t, 200, signed.status, "%s", signed.body)
	stored := w.get(path+"?compress=zstd", key)
	require.Equal(t, 200, stored.status)
	ranged := w.do(request{method: "GET", path: path + "?compress=zstd", key: key,
		header: map[string]string{"Range": "bytes=2-5"}})
	require.Equal(t, 206, ranged.status)
	for range 20 {
		again := w.do(request{method: "GET", path: path + "?compress=zstd", key: key,
			header: map[string]string{"Range": "bytes=0-0"}})
		require.Equal(t, 206, again.status)
		require.Equal(t, 200, w.get(path+"?compress=gzip&status=RISKY,VALID", key).status)
		require.Equal(t, 200, w.get(link, "").status)
	}
	require.Equal(t, 200, w.do(request{method: "HEAD", path: path, key: key}).status)
	require.Equal(t, 304, w.do(request{method: "GET", path: path + "?compress=zstd", key: key,
		header: map[string]string{"If-None-Match": stored.header.Get("ETag")}}).status)
	require.Equal(t, 416, w.do(request{method: "GET", path: path + "?compress=zstd", key: key,
		header: map[string]string{"Range": "bytes=99999-"}}).status)
	require.Equal(t, 404, w.get(path, w.key).status)
	require.Equal(t, 403, w.get(link[:len(link)-4]+"AAAA", "").status)

	events := w.get("/v1/admin/audit?action=download", w.adminKey).json(t)["acts"].([]any)
	notes, by := []string{}, []string{}
	for _, a := range events {
		action := a.(map[string]any)
		require.Equal(t, id, action["target"])
		require.Equal(t, "127.0.0.1", action["from"])
		require.Equal(t, "dash@probity.test", action["about"])
		note, ok := strings.CutPrefix(action["note"].(string), account+" ")
		require.True(t, ok, action["note"])
		notes, by = append(notes, note), append(by, action["by"].(string))
	}
	keyID := strings.Fields(notes[0])[1]
	session := b.get("/v1/dash/session").json(t)["session_id"].(string)
	require.Equal(t, []string{"key " + keyID + " csv zstd range", "key " + keyID + " csv zstd", "signed link csv",
		"session " + session + " jsonl",
		"key " + keyID + " csv gzip VALID RISKY"}, notes)
	require.Equal(t, []string{"dash@probity.test", "dash@probity.test", "signed link", "dash@probity.test",
		"dash@probity.test"}, by)
	require.Len(t, w.get("/v1/admin/audit?action=download&by=signed", w.adminKey).json(t)["acts"].([]any), 1)
	require.NotContains(t, w.auditActions("limit=100"), "download", "they do not hide what admins did")

	w.clockOffset.Add(int64(time.Hour))
	require.Equal(t, 200, w.get(link, "").status)
	require.Len(t, w.auditActions("action=download"), len(events)+1, "the next hour has its own")
}

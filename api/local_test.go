package api

import (
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/api/adminlistener"
)

// TestOnlyLocalNeedsNoKey asks the admin routes without a key. A Local of the same process answers, under the name of
// its operator, and can be given no listener; the listeners of the Server still refuse.
func TestOnlyLocalNeedsNoKey(t *testing.T) {
	w := newTestServer(t, nil)
	local, err := NewLocal("command line from ann", w.server.deps)
	require.NoError(t, err)
	of := reflect.TypeOf(local)
	require.Equal(t, []any{1, "RoundTrip"}, []any{of.NumMethod(), of.Method(0).Name}, "nothing serves a listener")
	ask := func(method, path, body string) (int, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, "http://local"+path, strings.NewReader(body))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		answer, err := local.RoundTrip(req)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode, string(text)
	}
	status, text := ask("POST", "/v1/admin/suppressions", `{"name":"example.org"}`)
	require.Equal(t, 201, status, text)
	events, err := w.store.AuditEvents("", 1)
	require.NoError(t, err)
	require.Equal(t, []string{"command line", "ann", "suppress"},
		[]string{events[0].By, events[0].From, events[0].Action})
	for _, path := range []string{"/v1/credits", "/v1/verify/bulk", "/v1/dash/me", "/app/", "/healthz"} {
		status, _ := ask("GET", path, "")
		require.Equal(t, 404, status, "%s is no admin route", path)
	}

	operators := httptest.NewServer(adminlistener.Listener{Metrics: w.registry, Ready: w.server.Readiness}.Handler())
	defer operators.Close()
	for _, r := range w.server.adminRoutes() {
		path := strings.NewReplacer("{user}", "ann@probity.test", "{key_id}", "x", "{erasure_id}", "x").Replace(r.Path)
		require.Equal(t, 401, w.do(request{method: r.Method, path: path}).status, "%s %s", r.Method, path)
		req, err := http.NewRequestWithContext(t.Context(), r.Method, operators.URL+path, nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, 404, answer.StatusCode, "%s %s", r.Method, path)
	}
}

// A failure of the local API is shown with its cause: there is no log to look it up in.
func TestLocalTellsTheCauseOfAFailure(t *testing.T) {
	w := newTestServer(t, nil)
	deps := w.server.deps
	deps.Scratch = "file/scratch"
	f, err := w.fs.Create("file", vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	local, err := NewLocal("command line from ann", deps)
	require.NoError(t, err)
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://local/v1/admin/backup", nil)
	require.NoError(t, err)
	answer, err := local.RoundTrip(req)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, "500 Internal Server Error", answer.Status)
	require.Contains(t, string(text), "scratch: ")
}

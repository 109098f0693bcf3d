package api

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/getkin/kin-openapi/openapi3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"probity/api/adminlistener"
	"probity/internal/buildinfo"
	"probity/store"
)

func TestAdminUsers(t *testing.T) {
	w := newTestServer(t, nil)
	made := w.post("/v1/admin/users", w.adminKey, `{"email":"bo@probity.test","credits":50,"limits":{"single_per_minute":7}}`)
	require.Equal(t, 201, made.status, "%s", made.body)
	bo := made.json(t)
	require.NotEmpty(t, bo["password"])
	require.Equal(t, "customer", bo["role"])
	u, err := w.store.CheckPassword(t.Context(), store.Login{Email: "bo@probity.test",
		Password: bo["password"].(string)}, w.server.now())
	require.NoError(t, err)
	require.Equal(t, 7, u.SinglePerMinute())

	require.Equal(t, 409, w.post("/v1/admin/users", w.adminKey, `{"email":"BO@probity.test"}`).status)
	for body, field := range map[string]string{`{}`: "email", `{"email":"x"}`: "email",
		`{"email":"c@d.test","role":"king"}`: "role", `{"email":"c@d.test","credits":-1}`: "credits",
		`{"email":"c@d.test","password":"short"}`: "password", `{"email":"c@d.test","limits":[]}`: "limits",
		`{"email":"c@d.test","limits":{"bulk_per_hour":"1"}}`: "bulk_per_hour"} {
		r := w.post("/v1/admin/users", w.adminKey, body)
		require.Equal(t, 422, r.status, body)
		require.Contains(t, r.detail(t), field)
	}

	secret := w.post("/v1/admin/keys", w.adminKey, `{"user":"bo@probity.test","name":"shop"}`).json(t)["key"].(string)
	require.Equal(t, 200, w.get("/v1/credits", secret).status)
	path := "/v1/admin/users/" + url.PathEscape("bo@probity.test")
	require.Equal(t, true, w.do(request{method: "POST", path: path + "/disable", key: w.adminKey}).json(t)["disabled"])
	require.Equal(t, 401, w.get("/v1/credits", secret).status)
	require.Equal(t, false, w.do(request{method: "POST", path: "/v1/admin/users/" + u.ID + "/enable",
		key: w.adminKey}).json(t)["disabled"])
	require.Equal(t, 200, w.get("/v1/credits", secret).status)
	put := w.do(request{method: "PUT", path: path + "/limits", key: w.adminKey,
		body: strings.NewReader(`{"bulk_per_hour":99}`), header: map[string]string{"Content-Type": "application/json"}})
	require.Equal(t, map[string]any{"bulk_per_hour": 99.0}, put.json(t)["limits"])
	require.Equal(t, 404, w.do(request{method: "POST", path: "/v1/admin/users/nobody/disable", key: w.adminKey}).status)
	last := w.do(request{method: "POST", path: "/v1/admin/users/root@probity.test/disable", key: w.adminKey})
	require.Equal(t, 409, last.status)
	require.Equal(t, "This is the last active admin: add or enable another one first.", last.detail(t))
	require.Equal(t, 200, w.get("/v1/admin/users", w.adminKey).status)
	require.Len(t, w.get("/v1/admin/users", w.adminKey).json(t)["users"], 3)
}

func TestAdminKeys(t *testing.T) {
	w := newTestServer(t, nil)
	made := w.post("/v1/admin/keys", w.adminKey, `{"user":"ann@probity.test","name":"t","test":true}`)
	require.Equal(t, 201, made.status)
	key := made.json(t)
	require.True(t, strings.HasPrefix(key["key"].(string), "prb_test_"))
	require.Equal(t, "ann@probity.test", key["user"])
	for _, k := range w.get("/v1/admin/keys", w.adminKey).json(t)["keys"].([]any) {
		require.NotContains(t, k.(map[string]any), "key", "a secret is shown once")
	}
	require.Equal(t, 204, w.do(request{method: "DELETE", path: "/v1/admin/keys/" + key["id"].(string),
		key: w.adminKey}).status)
	require.Equal(t, 404, w.do(request{method: "DELETE", path: "/v1/admin/keys/" + key["id"].(string),
		key: w.adminKey}).status)
	require.Equal(t, 404, w.post("/v1/admin/keys", w.adminKey, `{"user":"nobody@probity.test","name":"t"}`).status)
	require.Equal(t, 422, w.post("/v1/admin/keys", w.adminKey, `{"user":"ann@probity.test","name":""}`).status)
	require.Equal(t, 404, w.get("/v1/admin/keys?user=nobody", w.adminKey).status)
}

func TestAdminCredits(t *testing.T) {
	w := newTestServer(t, nil)
	grant := func(body string) reply { return w.post("/v1/admin/credits", w.adminKey, body) }
	require.EqualValues(t, initialCredits+10, grant(`{"user":"ann@probity.test","amount":10,"note":"order 1","grant_id":"g1"}`).json(t)["balance"])
	require.EqualValues(t, initialCredits+10, grant(`{"user":"ann@probity.test","amount":10,"note":"order 1","grant_id":"g1"}`).json(t)["balance"])
	require.Equal(t, 409, grant(`{"user":"ann@probity.test","amount":11,"grant_id":"g1"}`).status)
	require.EqualValues(t, initialCredits, grant(`{"user":"` + w.user.ID + `","amount":-10}`).json(t)["balance"])
	tooMuch := grant(`{"user":"ann@probity.test","amount":-100000}`)
	require.Equal(t, 402, tooMuch.status)
	require.Equal(t, "The account has 1000 credits: at most that many can be taken back.", tooMuch.detail(t))
	outOfRange := grant(`{"user":"ann@probity.test","amount":1000000000000000}`)
	require.Equal(t, 422, outOfRange.status)
	require.Equal(t, "Credits out of range: an account has from 0 to 1000000000000000, so change the amount.",
		outOfRange.detail(t))
	nothing := grant(`{"user":"ann@probity.test","amount":0}`)
	require.Equal(t, 422, nothing.status)
	require.Contains(t, nothing.detail(t), "amount is 0")
	for _, body := range []string{`{"user":"ann@probity.test"}`, `{"amount":1}`,
		`{"user":"ann@probity.test","amount":1.5}`, `{"user":"ann@probity.test","amount":"1"}`} {
		require.Equal(t, 422, grant(body).status, body)
	}
	require.EqualValues(t, initialCredits, w.get(query("/v1/admin/credits", "user", "ann@probity.test"),
		w.adminKey).json(t)["balance"])
	require.Equal(t, 422, w.get("/v1/admin/credits", w.adminKey).status)

	w.single(`{"email":"ann@shop.test"}`)
	var kinds []string
	cursor := ""
	for range 10 {
		path := query("/v1/admin/ledger", "user", "ann@probity.test", "limit", "2")
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		page := w.get(path, w.adminKey).json(t)
		for _, e := range page["entries"].([]any) {
			kinds = append(kinds, e.(map[string]any)["kind"].(string))
		}
		if page["next_cursor"] == nil {
			break
		}
		cursor = page["next_cursor"].(string)
	}
	require.Equal(t, strings.Fields("charge reserve grant grant grant"), kinds, "newest first")
}

func TestAdminSuppressions(t *testing.T) {
	w := newTestServer(t, nil)
	r := w.post("/v1/admin/suppressions", w.adminKey, `{"name":"Example.ORG.","note":"asked"}`)
	require.Equal(t, 201, r.status, "%s", r.body)
	require.Equal(t, []any{"domain", "example.org"}, []any{r.json(t)["kind"], r.json(t)["name"]})
	w.clockOffset.Store(int64(time.Hour))
	require.Equal(t, r.json(t), w.post("/v1/admin/suppressions", w.adminKey,
		`{"name":"example.org","note":"asked"}`).json(t), "it is there already")
	require.Equal(t, []string{"suppress"}, w.auditActions("action=suppress"))
	require.Equal(t, "address", w.post("/v1/admin/suppressions", w.adminKey,
		`{"name":"A@Example.ORG"}`).json(t)["kind"])
	require.Equal(t, "mx", w.post("/v1/admin/suppressions", w.adminKey,
		`{"kind":"mx","name":"mx.example.org"}`).json(t)["kind"])
	for body, detail := range map[string]string{`{}`: "name is missing",
		`{"name":"not a domain"}`:              "name is not a domain name: kind domain needs one, such as example.com.",
		`{"name":"com"}`:                       "name has one label, and would suppress everything under it: give a domain in full, such as example.com.",
		`{"name":"a@b@c"}`:                     "name must be an e-mail address",
		`{"kind":"word","name":"example.org"}`: "kind must be"} {
		r := w.post("/v1/admin/suppressions", w.adminKey, body)
		require.Equal(t, 422, r.status, body)
		require.Contains(t, r.detail(t), detail)
	}
	require.Len(t, w.get("/v1/admin/suppressions", w.adminKey).json(t)["suppressions"], 3)
	_, stopped := w.store.SuppressedDomain("mail.example.org", nil)
	require.True(t, stopped)
	require.Equal(t, 204, w.do(request{method: "DELETE", path: "/v1/admin/suppressions?name=example.org",
		key: w.adminKey}).status)
	require.Equal(t, 404, w.do(request{method: "DELETE", path: "/v1/admin/suppressions?name=example.org",
		key: w.adminKey}).status)
	require.Equal(t, 422, w.do(request{method: "DELETE", path: "/v1/admin/suppressions", key: w.adminKey}).status)
	erased := w.post("/v1/admin/erase", w.adminKey, `{"address":"ann@shop.test"}`)
	require.Equal(t, 200, erased.status, "%s", erased.body)
	require.Equal(t, 422, w.post("/v1/admin/erase", w.adminKey, `{"address":"ann"}`).status)
	events, err := w.store.AuditEvents("", 100)
	require.NoError(t, err)
	b, err := json.Marshal(events)
	require.NoError(t, err)
	require.NotContains(t, string(b), "ann@shop.test")
}

// TestAdminBackup restores a downloaded backup.
func TestAdminBackup(t *testing.T) {
	w := newTestServer(t, nil)
	require.NoError(t, w.fs.MkdirAll("data/scratch/backup-left-by-a-crash", 0o700))
	r := w.do(request{method: "POST", path: "/v1/admin/backup", key: w.adminKey})
	require.Equal(t, 200, r.status, "%s", r.body)
	require.Equal(t, "application/x-tar", r.header.Get("Content-Type"))
	fs := vfs.NewMem()
	require.NoError(t, fs.MkdirAll("copy", 0o700))
	files := tar.NewReader(bytes.NewReader(r.body))
	last := ""
	for {
		h, err := files.Next()
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		last = h.Name
		if last == "complete" {
			continue
		}
		f, err := fs.Create("copy/"+h.Name, vfs.WriteCategoryUnspecified)
		require.NoError(t, err)
		_, err = io.Copy(f, files)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	require.Equal(t, "complete", last)
	restored, err := store.Open(fs, "copy")
	require.NoError(t, err)
	require.Equal(t, w.store.Users(), restored.Users())
	require.NoError(t, restored.Close())
	require.Eventually(t, func() bool { return !w.server.backupRunning.Load() }, 10*time.Second, time.Millisecond)
	left, err := w.fs.List("data/scratch")
	require.NoError(t, err)
	require.Empty(t, left)

	w.server.backupRunning.Store(true)
	r = w.do(request{method: "POST", path: "/v1/admin/backup", key: w.adminKey})
	require.Equal(t, 503, r.status)
	require.NotEmpty(t, r.header.Get("Retry-After"))
	w.server.backupRunning.Store(false)
}

// TestBackupIsRecordedWhenAllOfItIsSent: a client that goes away in the middle has no backup.
func TestBackupIsRecordedWhenAllOfItIsSent(t *testing.T) {
	w := newTestServer(t, nil)
	local, err := NewLocal("command line", w.server.deps)
	require.NoError(t, err)
	read := func(most int64) time.Time {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://local/v1/admin/backup", nil)
		require.NoError(t, err)
		answer, err := local.RoundTrip(req)
		require.NoError(t, err)
		_, err = io.CopyN(io.Discard, answer.Body, most)
		if most == math.MaxInt64 {
			require.ErrorIs(t, err, io.EOF)
		} else {
			require.NoError(t, err)
		}
		require.NoError(t, answer.Body.Close())
		at, err := w.store.LastBackup()
		require.NoError(t, err)
		return at
	}
	for _, part := range []int64{0, 1024} {
		require.Zero(t, read(part))
	}
	require.Empty(t, w.auditActions("action=backup"))
	require.NotZero(t, read(math.MaxInt64))
	require.Len(t, w.auditActions("action=backup"), 1)
}

func TestAdminNeedsAnAdmin(t *testing.T) {
	w := newTestServer(t, nil)
	test, _, err := w.store.CreateKey(w.admin.ID, store.NewKey{Name: "t", Test: true}, "test", w.server.now())
	require.NoError(t, err)
	for _, r := range w.server.adminRoutes() {
		path := strings.NewReplacer("{user}", "x", "{key_id}", "x").Replace(r.Path)
		for _, key := range []string{w.key, w.testKey, test} {
			got := w.do(request{method: r.Method, path: path, key: key, body: strings.NewReader(`{}`),
				header: map[string]string{"Content-Type": "application/json"}})
			require.Equal(t, 403, got.status, "%s %s", r.Method, r.Path)
		}
		require.Equal(t, 401, w.do(request{method: r.Method, path: path}).status)
	}
}

// Secrets and verified addresses are in no answer's detail and in no log line above debug level.
func TestSecretsAreNotInDetailsOrLogs(t *testing.T) {
	w := newTestServer(t, nil)
	secrets := []string{w.key, w.adminKey, w.testKey, "hunter2hunter2", "whisper@shop.test"}
	details := []reply{
		w.do(request{method: "GET", path: "/v1/credits", header: map[string]string{"Authorization": "Basic " + w.key}}),
		w.do(request{method: "GET", path: "/v1/" + w.key, key: w.adminKey}),
		w.get("/v1/verify/bulk/"+w.key, w.key),
		w.get("/v1/verify/bulk?limit="+w.key, w.key),
		w.post("/v1/admin/users", w.adminKey, `{"email":"whisper@shop.test","password":"hunter2hunter2","role":"king"}`),
		w.post("/v1/admin/users/hunter2hunter2/disable", w.adminKey, ``),
		w.single(`{"email":["whisper@shop.test"]}`),
		w.single(`{"email":"whisper@shop.test"`),
		w.upload(w.key, nil, part{"file", "l.csv", "x\nwhisper@shop.test\n"}),
		w.upload(w.key, nil, part{"callback_url", "", "http://ann:hunter2hunter2@example.com/"},
			part{"file", "l.csv", "email\na@b.c\n"}),
		w.get("/v1/verify/bulk/x/results?expires=1&signature="+w.key, ""),
	}
	w.prober.fail.Store(true)
	details = append(details, w.single(`{"email":"whisper@shop.test"}`))
	w.prober.fail.Store(false)
	require.Equal(t, 200, w.single(`{"email":"whisper@shop.test"}`).status)
	for i, r := range details {
		require.GreaterOrEqual(t, r.status, 400, "%d", i)
		for _, s := range secrets {
			require.NotContains(t, r.detail(t), s, "%d", i)
		}
	}
	for line := range strings.Lines(w.log.String()) {
		for i, s := range secrets {
			if i < 4 || !strings.Contains(line, "level=DEBUG") {
				require.NotContains(t, line, s)
			}
		}
	}
	require.Contains(t, w.log.String(), "level=ERROR", "a failure of ours is logged")
	families, err := w.registry.Gather()
	require.NoError(t, err)
	for _, s := range secrets {
		require.NotContains(t, fmt.Sprint(families), s)
	}
}

func TestAdminListener(t *testing.T) {
	w := newTestServer(t, nil)
	w.single(`{"email":"ann@shop.test"}`)
	broken := prometheus.NewDesc("probity_broken", "It cannot be told.", nil, nil)
	w.registry.MustRegister(prometheus.CollectorFunc(func(to chan<- prometheus.Metric) {
		to <- prometheus.NewInvalidMetric(broken, io.ErrUnexpectedEOF)
	}))
	w.server.deps.Build = buildinfo.Build{Version: "v1.2.3", Commit: "5f99cba3", Date: "2026-11-27T18:15:19Z"}
	ready := errors.New("no prober")
	w.server.deps.Ready = func() error { return ready }
	srv := httptest.NewServer(adminlistener.Listener{Metrics: w.registry,
		Config: func() any { return map[string]string{"listen": "x"} },
		Probes: http.NotFoundHandler(), Ready: w.server.Readiness, Build: w.server.deps.Build}.Handler())
	defer srv.Close()
	get := func(path string) (int, string) {
		res, err := http.Get(srv.URL + path)
		require.NoError(t, err)
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		return res.StatusCode, string(b)
	}
	status, body := get("/metrics")
	require.Equal(t, 200, status)
	require.Contains(t, body, `probity_http_requests_total{method="POST",route="/v1/verify/single",status="200"} 1`)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/debug/config": 200, "/debug/pprof/": 200,
		"/debug/pprof/cmdline": 200, "/nothing": 404, "/": 404} {
		status, _ := get(path)
		require.Equal(t, want, status, path)
	}
	_, cmdline := get("/debug/pprof/cmdline")
	require.Equal(t, os.Args[0], cmdline, "arguments may hold a password")
	require.Equal(t, 503, w.get("/readyz", "").status)
	ready = nil
	const answer = `{"status":"ready","version":"v1.2.3","commit":"5f99cba3","date":"2026-11-27T18:15:19Z"}`
	public := w.get("/readyz", "")
	require.Equal(t, 200, public.status)
	require.JSONEq(t, answer, string(public.body))
	status, body = get("/readyz")
	require.Equal(t, 200, status)
	require.JSONEq(t, answer, body)
}

func TestStaticPages(t *testing.T) {
	w := newTestServer(t, nil)
	widget := w.get("/widget.js", "")
	require.Equal(t, 200, widget.status)
	require.Contains(t, widget.header.Get("Content-Type"), "text/javascript")
	require.Equal(t, 304, w.do(request{method: "GET", path: "/widget.js",
		header: map[string]string{"If-None-Match": widget.header.Get("ETag")}}).status)
	for _, state := range []string{`"idle"`, `"checking"`, `"result"`, `"limit"`, `"offline"`} {
		require.Contains(t, string(widget.body), state)
	}
	docs := w.get("/docs", "")
	require.Equal(t, 200, docs.status)
	require.Contains(t, docs.header.Get("Content-Security-Policy"), "default-src 'none'")
	require.NotContains(t, string(docs.body), "src=\"http", "nothing is loaded from elsewhere")
	requirePublished(t, w.get("/openapi.json", ""))
	hidden := newTestServer(t, func(c *Config) { c.HideDocs = true })
	require.Equal(t, 404, hidden.get("/docs", "").status)
	require.Equal(t, 404, hidden.get("/openapi.json", "").status)
}

// requirePublished compares the published description with the whole one: it has all paths for customers, no others,
// and exactly the components that they refer to.
func requirePublished(t *testing.T, r reply) {
	t.Helper()
	doc, err := openapi3.NewLoader().LoadFromData(r.body) // it requires every reference to resolve
	require.NoError(t, err)
	require.NoError(t, doc.Validate(t.Context()))
	for path := range loadDescription(t).Paths.Map() {
		private := path == "/" || strings.HasPrefix(path, "/v1/admin") || strings.HasPrefix(path, "/v1/dash") ||
			strings.HasPrefix(path, "/app") || strings.HasPrefix(path, "/assets")
		require.Equal(t, private, doc.Paths.Find(path) == nil, path)
	}
	for _, word := range []string{"/v1/admin", "/v1/dash", `"session"`, `"Admin"`} {
		require.False(t, strings.Contains(string(r.body), word), word)
	}
	require.NotContains(t, doc.Components.Schemas, "User")
	require.Contains(t, doc.Components.Schemas, "Job")
}

func TestReasonsAndOrigins(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.CallbackFrom = []string{"203.0.113.7"} })
	reasons := w.get("/v1/reasons", "").json(t)["reasons"].([]any)
	require.Len(t, reasons, 31)
	require.Equal(t, map[string]any{"reason": nil, "status": "VALID", "score": 98.0, "score_min": 90.0,
		"score_max": 100.0,
		"meaning":   "The server accepts this mailbox and rejects invalid ones."}, reasons[0])
	require.Equal(t, []any{"203.0.113.7"}, w.get("/v1/callback-origins", "").json(t)["origins"])
	require.Equal(t, map[string]any{"balance": float64(initialCredits), "reserved": 0.0},
		w.get("/v1/credits", w.key).json(t))
}

func TestDraining(t *testing.T) {
	w := newTestServer(t, nil)
	w.server.Drain()
	r := w.single(`{"email":"ann@shop.test"}`)
	require.Equal(t, 503, r.status)
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.Equal(t, 503, w.get("/readyz", "").status)
	require.Equal(t, 200, w.get("/healthz", "").status)
	require.Equal(t, store.Credits{Balance: initialCredits}, w.credits())
}

// Requests in progress when the server drains are finished; a GET that waits for a change is answered at once.
func TestShutdown(t *testing.T) {
	w := newTestServer(t, nil)
	release := w.prober.holdAnswers()
	defer release()
	id := w.upload(w.key, nil, part{"file", "l.csv", smallList}).json(t)["job_id"].(string)
	single, look := make(chan reply), make(chan reply)
	go func() { single <- w.single(`{"email":"ann@shop.test"}`) }()
	lookKey, k, err := w.store.CreateKey(w.user.ID, store.NewKey{Name: "look"}, "test", time.Now())
	require.NoError(t, err)
	go func() { look <- w.get("/v1/verify/bulk/"+id+"?wait=60", lookKey) }()
	require.Eventually(t, func() bool { // both are admitted
		keys, err := w.store.Keys(w.user.ID)
		require.NoError(t, err)
		i := slices.IndexFunc(keys, func(one store.APIKey) bool { return one.ID == k.ID })
		return !keys[i].LastUsed.IsZero() && w.store.ReservedBySingles(w.user.ID) > 0
	}, 5*time.Second, time.Millisecond)
	w.shutdown()
	require.Equal(t, 200, (<-look).status)
	release()
	require.Equal(t, 200, (<-single).status)
	<-w.ended
	_, err = net.Dial("tcp", w.addr)
	require.Error(t, err)
	require.Contains(t, []int64{0, 3}, w.credits().Reserved, "the single's reservation was settled")
}

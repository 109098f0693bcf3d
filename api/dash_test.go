package api

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"probity/api/httpd"
	"probity/api/web"
	"probity/store"
)

// browser is a page of the dashboard that is signed in.
type browser struct {
	w            *testServer
	cookie, csrf string
}

const password = "correct horse battery"

// signIn makes an account and a session for it.
func (w *testServer) signIn(email string, role store.Role) *browser {
	_, _, err := w.store.AddUser(context.Background(),
		store.NewUser{Email: email, Password: password, Role: role, Credits: 100}, "test", time.Now())
	require.NoError(w.t, err)
	r := w.logIn(email, password)
	require.Equal(w.t, 200, r.status, "%s", r.body)
	cookie, _, _ := strings.Cut(r.header.Get("Set-Cookie"), ";")
	return &browser{w, cookie, r.json(w.t)["csrf_token"].(string)}
}

func (w *testServer) logIn(email, password string) reply {
	body, err := json.Marshal(map[string]string{"email": email, "password": password})
	require.NoError(w.t, err)
	return w.post("/v1/dash/login", "", string(body))
}

// logInFrom is logIn through a trusted proxy.
func (w *testServer) logInFrom(addr, email, password string) reply {
	return w.do(request{method: "POST", path: "/v1/dash/login",
		body:   strings.NewReader(`{"email":"` + email + `","password":"` + password + `"}`),
		header: map[string]string{"Content-Type": "application/json", "X-Forwarded-For": addr}})
}

func (b *browser) do(method, path, body string) reply {
	header := map[string]string{"Cookie": b.cookie, "X-CSRF-Token": b.csrf, "Sec-Fetch-Site": "same-origin"}
	if body != "" {
		header["Content-Type"] = "application/json"
	}
	return b.w.do(request{method: method, path: path, header: header, body: strings.NewReader(body)})
}

func (b *browser) get(path string) reply { return b.do("GET", path, "") }

func TestSignInAndOut(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("cleo@probity.test", store.Customer)
	r := w.logIn("cleo@probity.test", password)
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "path=/", "max-age=604800"} {
		require.Contains(t, r.header.Get("Set-Cookie"), want)
	}
	require.NotContains(t, r.header.Get("Set-Cookie"), "secure", "not over TLS")
	session := b.get("/v1/dash/session")
	require.Equal(t, 200, session.status)
	require.Equal(t, "cleo@probity.test", session.json(t)["user"].(map[string]any)["email"])
	require.Equal(t, b.csrf, session.json(t)["csrf_token"])
	require.EqualValues(t, 100, b.get("/v1/credits").json(t)["balance"], "a session opens what a key opens")

	require.Len(t, b.get("/v1/dash/sessions").json(t)["sessions"], 2)
	require.Equal(t, 204, b.do("DELETE", "/v1/dash/sessions", "").status)
	require.Len(t, b.get("/v1/dash/sessions").json(t)["sessions"], 1)

	out := b.do("POST", "/v1/dash/logout", "")
	require.Equal(t, 204, out.status)
	require.Contains(t, out.header.Get("Set-Cookie"), "expires=", "the cookie is taken back")
	require.Equal(t, 401, b.get("/v1/dash/session").status)
	require.Equal(t, 401, b.get("/v1/credits").status)
}

func TestCookieOverTLS(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.PublicURL = "https://probity.test" })
	b := w.signIn("cleo@probity.test", store.Customer)
	require.True(t, strings.HasPrefix(b.cookie, "__Host-probity="), b.cookie)
	require.Contains(t, w.logIn("cleo@probity.test", password).header.Get("Set-Cookie"), "secure")
	require.Equal(t, 200, b.get("/v1/dash/session").status)
	b.cookie = strings.TrimPrefix(b.cookie, "__Host-")
	require.Equal(t, 401, b.get("/v1/dash/session").status)
}

func TestLockoutAfterFailedLogins(t *testing.T) {
	w := newTestServer(t, nil)
	w.signIn("cleo@probity.test", store.Customer)
	answers := map[string][]string{}
	for _, email := range []string{"cleo@probity.test", "nobody@probity.test"} {
		for range 6 {
			r := w.logIn(email, "wrong wrong wrong")
			answers[email] = append(answers[email],
				fmt.Sprint(r.status, r.detail(t), r.header.Get("Retry-After") != ""))
		}
		require.Contains(t, answers[email][4], "401")
		require.Contains(t, answers[email][5], "429")
	}
	require.Equal(t, answers["cleo@probity.test"], answers["nobody@probity.test"], "nothing tells which has an account")
	r := w.logIn("cleo@probity.test", password)
	require.Equal(t, 429, r.status, "right password or not")
	require.NotEmpty(t, r.header.Get("Retry-After"))
}

func TestLockoutAppliesToOneNetwork(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	w.signIn("cleo@probity.test", store.Customer)
	for range 5 {
		require.Equal(t, 401, w.logInFrom("203.0.113.9", "cleo@probity.test", "wrong wrong wrong").status)
	}
	require.Equal(t, 429, w.logInFrom("203.0.113.77", "cleo@probity.test", password).status)
	require.Equal(t, 200, w.logInFrom("198.51.100.7", "cleo@probity.test", password).status,
		"its owner is not locked out")
}

// TestCrossSiteRequestsAreRefused: a page of another site can send requests with a browser's cookies, but can change
// nothing.
func TestCrossSiteRequestsAreRefused(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("cleo@probity.test", store.Admin)
	for _, r := range w.server.routeTable {
		if isSafe(r.Method) || r.access == anyone {
			continue
		}
		path := strings.NewReplacer("{job_id}", "x", "{user}", "x", "{key_id}", "x", "{session_id}",
			"x").Replace(r.Path)
		for name, header := range map[string]map[string]string{
			"without the token":   {"Cookie": b.cookie},
			"with another token":  {"Cookie": b.cookie, "X-CSRF-Token": store.CSRFToken("x")},
			"from another origin": {"Cookie": b.cookie, "X-CSRF-Token": b.csrf, "Sec-Fetch-Site": "cross-site"},
			"from another host":   {"Cookie": b.cookie, "X-CSRF-Token": b.csrf, "Sec-Fetch-Site": "same-site"},
		} {
			got := w.do(request{method: r.Method, path: path, header: header})
			require.Equal(t, 403, got.status, "%s %s %s", r.Method, path, name)
		}
	}
	login := w.do(request{method: "POST", path: "/v1/dash/login",
		body:   strings.NewReader(`{"email":"cleo@probity.test","password":"` + password + `"}`),
		header: map[string]string{"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"}})
	require.Equal(t, 403, login.status)
	form := w.do(request{method: "POST", path: "/v1/dash/login", body: strings.NewReader(`email=x`),
		header: map[string]string{"Content-Type": "text/plain"}})
	require.Equal(t, 415, form.status, "what a form can send without asking is not taken")
}

func TestKeysCannotUseSessionRoutes(t *testing.T) {
	w := newTestServer(t, nil)
	customer := w.signIn("cleo@probity.test", store.Customer)
	for _, r := range w.server.dashRoutes() {
		path := strings.NewReplacer("{job_id}", "x", "{key_id}", "x", "{session_id}", "x").Replace(r.Path)
		if r.access == anyone {
			continue
		}
		refused := map[access]int{sessionOnly: 401, adminSession: 403}[r.access]
		require.Equal(t, refused, w.do(request{method: r.Method, path: path, key: w.adminKey}).status, "%s %s",
			r.Method, path)
		if r.access == adminSession {
			require.Equal(t, 401, w.do(request{method: r.Method, path: path, key: w.adminKey + "x"}).status, "%s %s",
				r.Method, path)
			require.Equal(t, 403, customer.do(r.Method, path, "").status, path)
		}
	}
	for _, r := range w.server.adminRoutes() {
		path := strings.NewReplacer("{user}", "x", "{key_id}", "x").Replace(r.Path)
		require.Equal(t, 403, customer.do(r.Method, path, "{}").status, path)
	}
	bad := w.do(request{method: "GET", path: "/v1/credits", key: "prb_live_wrong",
		header: map[string]string{"Cookie": customer.cookie}})
	require.Equal(t, 401, bad.status, "where there is a key, the key alone counts")
}

func TestOwnKeys(t *testing.T) {
	w := newTestServer(t, nil)
	b, other := w.signIn("cleo@probity.test", store.Customer), w.signIn("dan@probity.test", store.Customer)
	made := b.do("POST", "/v1/dash/keys", `{"name":"shop"}`)
	require.Equal(t, 201, made.status, "%s", made.body)
	key := made.json(t)
	secret, id := key["key"].(string), key["id"].(string)
	require.Equal(t, 200, w.get("/v1/credits", secret).status)
	for _, k := range b.get("/v1/dash/keys").json(t)["keys"].([]any) {
		require.NotContains(t, k.(map[string]any), "key")
	}
	require.Empty(t, other.get("/v1/dash/keys").json(t)["keys"])
	require.Equal(t, 404, other.do("DELETE", "/v1/dash/keys/"+id, "").status)
	require.Equal(t, 204, b.do("DELETE", "/v1/dash/keys/"+id, "").status)
	require.Equal(t, 401, w.get("/v1/credits", secret).status)
	require.Equal(t, 422, b.do("POST", "/v1/dash/keys", `{"name":""}`).status)
}

func TestChangePassword(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("cleo@probity.test", store.Customer)
	another := w.logIn("cleo@probity.test", password)
	require.Equal(t, 200, another.status)
	require.Equal(t, 422, b.do("PUT", "/v1/dash/password",
		`{"current":"not this one","password":"a new pass phrase"}`).status)
	require.Equal(t, 422, b.do("PUT", "/v1/dash/password", `{"current":"`+password+`","password":"short"}`).status)
	require.Equal(t, 204, b.do("PUT", "/v1/dash/password",
		`{"current":"`+password+`","password":"a new pass phrase"}`).status)
	require.Equal(t, 200, b.get("/v1/dash/session").status, "the session that did it stays")
	require.Len(t, b.get("/v1/dash/sessions").json(t)["sessions"], 1, "all others end")
	require.Equal(t, 401, w.logIn("cleo@probity.test", password).status)
	require.Equal(t, 200, w.logIn("cleo@probity.test", "a new pass phrase").status)
}

func TestUsage(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("cleo@probity.test", store.Customer)
	key := b.do("POST", "/v1/dash/keys", `{"name":"shop"}`).json(t)["key"].(string)
	for _, email := range []string{"ann@shop.test", "nobody@shop.test", "block@shop.test"} {
		require.Equal(t, 200, w.post("/v1/verify/single", key, `{"email":"`+email+`"}`).status)
	}
	job := w.uploadAndWait(key, part{"file", "l.csv", "email\nann@shop.test\nnobody@shop.test\nblock@shop.test\n"})
	got := b.get("/v1/usage?days=2")
	require.Equal(t, 200, got.status, "%s", got.body)
	days := got.json(t)["days"].([]any)
	require.Len(t, days, 2)
	today := days[1].(map[string]any)
	require.EqualValues(t, []any{2.0, 4.0, 100.0},
		[]any{today["singles"], today["credits_used"], today["credits_granted"]})
	require.Equal(t, job["counts"], today["counts"])
	keys := got.json(t)["by_key"].([]any)
	require.Len(t, keys, 1)
	shop := keys[0].(map[string]any)
	require.Equal(t, []any{"shop", 2.0, 4.0, job["counts"].(map[string]any)["VALID"]},
		[]any{shop["name"], shop["singles"], shop["credits_used"], shop["counts"].(map[string]any)["VALID"]})
	sheet := b.get("/v1/dash/usage.csv?days=2")
	require.Equal(t, 200, sheet.status)
	require.Contains(t, string(sheet.body), "date,key_id,key_name,singles,credits_used,UNKNOWN,VALID,RISKY,INVALID\n")
	require.Contains(t, string(sheet.body), ",shop,2,4,")
	entry := b.get("/v1/dash/ledger?limit=100").json(t)["entries"].([]any)
	require.Regexp(t, "^single [0-9a-f]{24}$", entry[len(entry)-2].(map[string]any)["cause"])
	require.Equal(t, shop["key_id"], entry[len(entry)-2].(map[string]any)["key_id"])
	require.NotEmpty(t, b.get("/v1/dash/ledger?limit=2").json(t)["next_cursor"])
	file := b.get("/v1/dash/ledger.csv")
	require.Equal(t, 200, file.status)
	require.Contains(t, string(file.body), "number,at,kind,credits,amount,cause,balance,reserved,key_id\n")
	require.Contains(t, string(file.body), "job "+job["job_id"].(string))

	rows := b.get("/v1/dash/jobs/" + job["job_id"].(string) + "/rows?q=NOBODY").json(t)["rows"].([]any)
	require.Len(t, rows, 1)
	require.EqualValues(t, 2, rows[0].(map[string]any)["row"])
	first := b.get("/v1/dash/jobs/" + job["job_id"].(string) + "/rows?limit=2").json(t)
	require.Len(t, first["rows"], 2)
	require.EqualValues(t, 2, first["next_after"])
	rest := b.get("/v1/dash/jobs/" + job["job_id"].(string) + "/rows?limit=2&after=2").json(t)
	require.Len(t, rest["rows"], 1)
	require.Nil(t, rest["next_after"])
	counted := b.get("/v1/dash/jobs/" + job["job_id"].(string) + "/providers").json(t)
	total := 0.0
	for _, statuses := range counted["providers"].(map[string]any) {
		for _, n := range statuses.(map[string]any) {
			total += n.(float64)
		}
	}
	require.EqualValues(t, 3, total)
	scored := 0.0
	for _, n := range counted["scores"].([]any) {
		scored += n.(float64)
	}
	require.EqualValues(t, 3, scored)
	other := w.signIn("dan@probity.test", store.Customer)
	for _, path := range []string{"/rows", "/providers"} {
		require.Equal(t, 404, other.get("/v1/dash/jobs/"+job["job_id"].(string)+path).status)
	}
}

func TestCallbackSettings(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("cleo@probity.test", store.Customer)
	got := make(chan http.Header, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Header
	}))
	defer receiver.Close()
	require.Equal(t, false, b.get("/v1/callback-secret").json(t)["signed"])
	secret := b.do("POST", "/v1/callback-secret", "")
	require.Equal(t, 201, secret.status)
	require.True(t, strings.HasPrefix(secret.json(t)["secret"].(string), "whsec_"))
	require.Equal(t, true, b.get("/v1/callback-secret").json(t)["signed"])
	require.Equal(t, 422, b.do("POST", "/v1/dash/callbacks/test", `{"url":"ftp://example.com/"}`).status)
	test := b.do("POST", "/v1/dash/callbacks/test", `{"url":"`+receiver.URL+`/hook"}`)
	require.Equal(t, 202, test.status, "%s", test.body)
	select {
	case header := <-got:
		require.NotEmpty(t, header.Get("webhook-signature"))
	case <-time.After(20 * time.Second):
		t.Fatal("no test callback came")
	}
	require.EqualValues(t, 100, b.get("/v1/credits").json(t)["balance"], "a test costs nothing")
	require.Equal(t, 204, b.do("DELETE", "/v1/callback-secret", "").status)
	require.Equal(t, false, b.get("/v1/callback-secret").json(t)["signed"])
}

// A signing secret is made and rotated with a key of the account, and by an admin for any account.
func TestSigningSecretIsRotated(t *testing.T) {
	w := newTestServer(t, nil)
	key := w.newKey(w.user.ID, store.NewKey{Scopes: store.ScopeAccount})
	require.Equal(t, 403, w.do(request{method: "POST", path: "/v1/callback-secret", key: w.key}).status)
	first := w.do(request{method: "POST", path: "/v1/callback-secret", key: key}).json(t)
	require.Nil(t, first["former_until"])
	of := "/v1/admin/users/ann@probity.test/callback-secret"
	second := w.rootSession().do("POST", of, "")
	require.Equal(t, 201, second.status)
	until, err := time.Parse(time.RFC3339, second.json(t)["former_until"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, w.server.now().Add(24*time.Hour), until, time.Minute)
	last4 := func(secret any) string { return secret.(string)[len(secret.(string))-4:] }
	state := w.get("/v1/callback-secret", key).json(t)
	require.Equal(t, []any{last4(second.json(t)["secret"]), last4(first["secret"])},
		[]any{state["last4"], state["former_last4"]})
	require.Equal(t, 404, w.do(request{method: "DELETE", path: "/v1/admin/users/none/callback-secret",
		key: w.adminKey}).status)
	require.Equal(t, 204, w.do(request{method: "DELETE", path: of, key: w.adminKey}).status)
	require.Equal(t, false, w.get("/v1/callback-secret", key).json(t)["signed"])
}

// Each test of a callback makes a job that is kept for days: it counts as an upload, and needs disk space like one.
func TestCallbackTestsAreLimited(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.DiskFloor = 1000 })
	b := w.signIn("cleo@probity.test", store.Customer)
	const ask = `{"url":"http://127.0.0.1:9/"}`
	for range store.DefaultBulkPerHour - 1 {
		require.Equal(t, 202, b.do("POST", "/v1/dash/callbacks/test", ask).status)
	}
	w.server.deps.FS = lowDisk{w.fs}
	full := b.do("POST", "/v1/dash/callbacks/test", ask)
	require.Equal(t, 503, full.status, "%s", full.body)
	require.NotEmpty(t, full.header.Get("Retry-After"))
	w.server.deps.FS = w.fs
	require.Equal(t, 202, b.do("POST", "/v1/dash/callbacks/test", ask).status)
	made := w.jobFolderCount()
	over := b.do("POST", "/v1/dash/callbacks/test", ask)
	require.Equal(t, 429, over.status, "%s", over.body)
	require.NotEmpty(t, over.header.Get("Retry-After"))
	require.Equal(t, made, w.jobFolderCount())
}

func TestEventStreamSendsChanges(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("cleo@probity.test", store.Customer)
	req, err := http.NewRequest("GET", w.base+"/v1/dash/events", nil)
	require.NoError(t, err)
	req.Header.Set("Cookie", b.cookie)
	res, err := client.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	require.Equal(t, "text/event-stream", res.Header.Get("Content-Type"))
	lines := bufio.NewScanner(res.Body)
	next := func(name string) map[string]any {
		for lines.Scan() {
			if lines.Text() == "event: "+name {
				require.True(t, lines.Scan())
				var v map[string]any
				require.NoError(t, json.Unmarshal([]byte(strings.TrimPrefix(lines.Text(), "data: ")), &v))
				return v
			}
		}
		t.Fatalf("no event %s: %v", name, lines.Err())
		return nil
	}
	require.EqualValues(t, 100, next("state")["credits"].(map[string]any)["balance"])
	key := b.do("POST", "/v1/dash/keys", `{"name":"shop"}`).json(t)["key"].(string)
	job := w.uploadAndWait(key, part{"file", "l.csv", "email\nann@shop.test\n"})
	for {
		jobs := next("state")["jobs"].([]any)
		if len(jobs) == 1 && jobs[0].(map[string]any)["status"] == "completed" {
			require.Equal(t, job["job_id"], jobs[0].(map[string]any)["job_id"])
			break
		}
	}
	require.Equal(t, 204, b.do("POST", "/v1/dash/logout", "").status)
	next("ended")
}

func TestEventStreamsAreBounded(t *testing.T) {
	var all eventStreams
	open := func(account string) *eventStream {
		es := new(eventStream)
		es.ctx, es.stop = context.WithCancel(t.Context())
		require.True(t, all.add(account, es))
		return es
	}
	oldest, next := open("a"), open("a")
	for range streamsPerAccount - 2 {
		open("a")
	}
	other := open("b")
	require.NoError(t, oldest.ctx.Err())
	open("a")
	require.Error(t, oldest.ctx.Err(), "one too many ends the oldest")
	require.NoError(t, next.ctx.Err())
	open("a")
	require.Error(t, next.ctx.Err())
	require.NoError(t, other.ctx.Err())
	all.remove("b", other)
	require.Len(t, all.byAccount, 1)
}

func TestAllJobsArePaged(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("root2@probity.test", store.Admin)
	var want []any
	for range 5 {
		want = append([]any{w.uploadAndWait(w.key, part{"file", "l.csv", "email\nann@shop.test\n"})["job_id"]}, want...)
	}
	var got []any
	at, pages := "/v1/dash/admin/jobs?limit=2", 0
	for cursor := ""; ; pages++ {
		page := b.get(at + "&cursor=" + cursor).json(t)
		require.EqualValues(t, 5, page["total"])
		for _, j := range page["jobs"].([]any) {
			got = append(got, j.(map[string]any)["job_id"])
		}
		if page["next_cursor"] == nil {
			break
		}
		cursor = page["next_cursor"].(string)
	}
	require.Equal(t, want, got)
	require.Equal(t, 2, pages, "the last page names no next one")
	require.Equal(t, 422, b.get(at+"&cursor=x").status)
}

func TestOperatorPages(t *testing.T) {
	w := newTestServer(t, nil)
	b := w.signIn("root2@probity.test", store.Admin)
	job := w.uploadAndWait(w.key, part{"file", "l.csv", "email\nann@shop.test\n"})
	w.single(`{"email":"nobody@shop.test"}`)
	all := b.get("/v1/dash/admin/jobs").json(t)["jobs"].([]any)
	require.Len(t, all, 1)
	require.Equal(t, "ann@probity.test", all[0].(map[string]any)["user"])
	require.Empty(t, b.get("/v1/dash/admin/jobs?status=running").json(t)["jobs"])
	owner := all[0].(map[string]any)["user_id"].(string)
	require.Len(t, b.get("/v1/dash/admin/jobs?user=" + owner).json(t)["jobs"], 1)
	require.Empty(t, b.get("/v1/dash/admin/jobs?user=root2@probity.test").json(t)["jobs"])
	require.Equal(t, 404, b.get("/v1/dash/admin/jobs?user=nowhere").status)
	id := job["job_id"].(string)
	require.Equal(t, 404, b.get("/v1/verify/bulk/"+id).status, "what is in a job is its owner's alone")
	seen := b.get("/v1/dash/admin/jobs/" + id).json(t)
	require.Equal(t, []any{id, "ann@probity.test"}, []any{seen["job_id"], seen["user"]})
	require.Equal(t, 409, b.get("/v1/verify/bulk/"+id+"/plan").status, "an admin sees any job's plan, while it has one")
	require.Equal(t, 404, b.get("/v1/dash/admin/jobs/"+strings.Repeat("0", len(id))).status)
	require.Equal(t, 403, w.signIn("cleo@probity.test", store.Customer).get("/v1/dash/admin/jobs/"+id).status)
	probes := b.get("/v1/dash/admin/probes")
	one := probes.json(t)["probes"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"shop.test", "INVALID", "ann@probity.test"},
		[]any{one["domain"], one["status"], one["user"]})
	require.NotContains(t, string(probes.body), "nobody@shop.test")
	require.Equal(t, true, b.get("/v1/dash/admin/node").json(t)["ready"])
	require.Greater(t, len(b.get("/v1/dash/admin/providers").json(t)["providers"].([]any)), 5)
}

func TestDashboardPages(t *testing.T) {
	w := newTestServer(t, nil)
	nonces := map[string]bool{}
	for _, path := range []string{"/", "/app", "/app/lists", "/app/lists/x"} {
		r := w.get(path, "")
		require.Equal(t, 200, r.status)
		policy := r.header.Get("Content-Security-Policy")
		require.Contains(t, policy, "script-src 'self';")
		require.NotContains(t, policy, "unsafe")
		require.NotContains(t, string(r.body), "__CSP_NONCE__")
		_, nonce, _ := strings.Cut(policy, "'nonce-")
		nonces[nonce] = true
	}
	require.Len(t, nonces, 4, "a nonce is used once")
	require.Equal(t, 404, w.get("/assets/none.js", "").status)
	require.Equal(t, 404, w.get("/assets/..%2findex.html", "").status)
	brotli := 0
	for _, name := range w.server.dashboard.files.Assets() {
		r := w.do(request{method: "GET", path: "/assets/" + name, header: map[string]string{"Accept-Encoding": "gzip"}})
		require.Equal(t, 200, r.status, name)
		require.Contains(t, r.header.Get("Cache-Control"), "immutable")
		require.NotEmpty(t, r.header.Get("Content-Type"))
		plain := w.get("/assets/"+name, "")
		require.Equal(t, 200, plain.status, name)
		require.Empty(t, plain.header.Get("Content-Encoding"), "a client without gzip gets the file itself")
		if r.header.Get("Content-Encoding") == "gzip" {
			unpacked, err := gzip.NewReader(bytes.NewReader(r.body))
			require.NoError(t, err, name)
			content, err := io.ReadAll(unpacked)
			require.NoError(t, err, name)
			require.Equal(t, content, plain.body, name)
			require.NotEqual(t, r.header.Get("ETag"), plain.header.Get("ETag"), name)
		}
		header := map[string]string{"Accept-Encoding": "gzip, br"}
		r = w.do(request{method: "GET", path: "/assets/" + name, header: header})
		if r.header.Get("Content-Encoding") == "br" {
			content, err := fasthttp.AppendUnbrotliBytes(nil, r.body)
			require.NoError(t, err, name)
			require.Equal(t, content, plain.body, name)
			require.NotEqual(t, r.header.Get("ETag"), plain.header.Get("ETag"), name)
			brotli++
		}
	}
	require.True(t, brotli > 0 || !web.Built(), "the dashboard's scripts are smaller for browsers that read Brotli")
}

func TestLoginsAreRateLimitedByNetwork(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	w.signIn("cleo@probity.test", store.Customer)
	for i := range store.LoginsPerMinute {
		require.Equal(t, 401, w.logInFrom(fmt.Sprintf("192.0.2.%d", i), fmt.Sprintf("stranger%d@probity.test", i),
			"a guess of many").status)
	}
	r := w.logInFrom("192.0.2.250", "cleo@probity.test", password)
	require.Equal(t, 429, r.status)
	require.NotEmpty(t, r.header.Get("Retry-After"))
	require.Equal(t, 200, w.logInFrom("198.51.100.7", "cleo@probity.test", password).status,
		"strangers fill their own window only")
}

func TestTooManyLoginsGetRetryAfter(t *testing.T) {
	r := refusalOf(store.ErrPasswordsBusy)
	require.Equal(t, httpd.Unavailable, r.Kind)
	require.Positive(t, r.Retry)
}

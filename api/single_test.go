package api

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/api/reasons"
	"probity/engine"
)

func TestParallelSinglesOnOneCredit(t *testing.T) {
	w := newTestServer(t, nil)
	_, key := w.addCustomer("poor@probity.test", 1)
	release := w.prober.holdAnswers()
	var mu sync.Mutex
	got := map[int]int{}
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			r := w.post("/v1/verify/single", key, fmt.Sprintf(`{"email":"ann%d@shop.test"}`, i))
			mu.Lock()
			defer mu.Unlock()
			got[r.status]++
			if got[402] == 29 {
				release()
			}
		})
	}
	all.Wait()
	require.Equal(t, map[int]int{200: 1, 402: 29}, got)
}

func TestSingleCosts(t *testing.T) {
	w := newTestServer(t, nil)
	for _, c := range []struct {
		email string
		cost  float64
	}{{"ann@shop.test", 1}, {"cached@shop.test", 1}, {"nobody@shop.test", 1}, {"any@shop.test", 1},
		{"block@shop.test", 0}, {"no address", 1}, {"", 1}} {
		before := w.credits().Balance
		got := w.single(fmt.Sprintf(`{"email":%q}`, c.email)).json(t)
		require.Equal(t, c.cost, got["credits_used"], c.email)
		require.EqualValues(t, c.cost, before-w.credits().Balance, c.email)
		require.Zero(t, w.credits().Reserved)
	}
}

func TestSingleRequests(t *testing.T) {
	w := newTestServer(t, nil)
	for _, c := range []struct {
		body   string
		status int
		detail string
	}{
		{`{"email":"ann@shop.test","unknown":{"deep":[1]}}`, 422, `"unknown" is not known`},
		{`{"email":"ann@shop.test","timeout":1,"max_age":0}`, 200, ""},
		{`{"email":"a\u0000b@shop.test"}`, 200, ""},
		{`{"email":"Ann <ann@shop.test>"}`, 200, ""},
		{`{}`, 422, "email is missing"},
		{`{"email":null}`, 422, "email must be a string"},
		{`{"email":["a@b.c"]}`, 422, "email must be a string"},
		{`{"email":12}`, 422, "email must be a string"},
		{`{"email":"a@b.c","check_smtp":"yes"}`, 422, "check_smtp"},
		{`{"email":"a@b.c","check_smtp":null}`, 422, "check_smtp"},
		{`{"email":"a@b.c","timeout":0}`, 422, "timeout"},
		{`{"email":"a@b.c","timeout":31}`, 422, "timeout"},
		{`{"email":"a@b.c","timeout":1.5}`, 422, "timeout"},
		{`{"email":"a@b.c","timeout":"5"}`, 422, "timeout"},
		{`{"email":"a@b.c","max_age":-1}`, 422, "max_age"},
		{`{"email":"a@b.c","details":1}`, 422, "details"},
		{`[]`, 422, "object"},
		{`{"email":"a@b.c"`, 400, "JSON"},
		{``, 400, "empty"},
		{"{\"email\":\"\xff\"}", 400, "UTF-8"},
		{"{\"email\":\"a\x00\"}", 400, "JSON"},
		{strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), 400, "deep"},
	} {
		r := w.single(c.body)
		require.Equal(t, c.status, r.status, "%.80s: %s", c.body, r.body)
		if c.detail != "" {
			require.Contains(t, r.detail(t), c.detail, "%.80s", c.body)
		}
	}
	require.Zero(t, w.credits().Reserved)
}

func TestMediaTypes(t *testing.T) {
	w := newTestServer(t, nil)
	for kind, status := range map[string]int{"application/json": 200, "Application/JSON; charset=UTF-8": 200,
		`application/json; charset="utf-8"`: 200,
		"":                                  415, "text/plain": 415, "application/x-www-form-urlencoded": 415,
		"application/json; charset=iso-8859-1": 415, "multipart/form-data; boundary=x": 415} {
		r := w.do(request{method: "POST", path: "/v1/verify/single", key: w.key,
			body: strings.NewReader(`{"email":"ann@shop.test"}`), header: map[string]string{"Content-Type": kind}})
		require.Equal(t, status, r.status, kind)
	}
	r := w.do(request{method: "POST", path: "/v1/verify/single", key: w.key,
		body:   strings.NewReader(`{"email":"ann@shop.test"}`),
		header: map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}})
	require.Equal(t, 415, r.status)
	for kind, status := range map[string]int{"application/json": 415, "multipart/form-data": 400,
		"multipart/mixed; boundary=x": 415} {
		r := w.do(request{method: "POST", path: "/v1/verify/bulk", key: w.key, body: strings.NewReader("--x--"),
			header: map[string]string{"Content-Type": kind}})
		require.Equal(t, status, r.status, kind)
	}
}

func TestSingleDeadline(t *testing.T) {
	w := newTestServer(t, nil)
	started := time.Now()
	got := w.single(`{"email":"slow@shop.test","timeout":1}`).json(t)
	require.Equal(t, []any{"UNKNOWN", "timeout"}, []any{got["status"], got["reason"]})
	require.Less(t, time.Since(started), 20*time.Second, "its own deadline ends it")
}

func TestSingleIdempotency(t *testing.T) {
	w := newTestServer(t, nil)
	send := func(key, body string) reply {
		return w.do(request{method: "POST", path: "/v1/verify/single", key: w.key, body: strings.NewReader(body),
			header: map[string]string{"Content-Type": "application/json", "Idempotency-Key": key}})
	}
	first := send("k1", `{"email":"ann@shop.test"}`)
	again := send("k1", ` {"max_age": 604800, "email":"ann@shop.test"}`)
	require.Equal(t, 200, again.status)
	require.Equal(t, string(first.body), string(again.body))
	require.EqualValues(t, initialCredits-1, w.credits().Balance)
	require.Equal(t, 422, send("k1", `{"email":"bob@shop.test"}`).status)
	require.Equal(t, 400, send(strings.Repeat("k", 300), `{"email":"ann@shop.test"}`).status)

	asked := w.prober.requests.Load()
	require.Equal(t, 200, send("k2", `{"email":"block@shop.test"}`).status)
	require.Equal(t, 200, send("k2", `{"email":"block@shop.test"}`).status, "an UNKNOWN releases the key")
	require.EqualValues(t, 2, w.prober.requests.Load()-asked)

	release := w.prober.holdAnswers()
	defer release()
	asked = w.prober.requests.Load()
	done := make(chan reply)
	go func() { done <- send("k3", `{"email":"ann@shop.test"}`) }()
	require.Eventually(t, func() bool { return w.prober.requests.Load() > asked }, 5*time.Second, time.Millisecond)
	busy := send("k3", `{"email":"ann@shop.test"}`)
	require.Equal(t, 409, busy.status)
	require.Equal(t, "1", busy.header.Get("Retry-After"))
	release()
	require.Equal(t, 200, (<-done).status)
}

// TestTestKeysReturnRequestedReason requests every reason by name, in a single call, in a job and in its callback, and
// each error.
func TestTestKeysReturnRequestedReason(t *testing.T) {
	w := newTestServer(t, nil)
	cases := map[string]engine.Reason{"valid": engine.ReasonNone, "someone": engine.ReasonSMTPNotChecked,
		"http_200": engine.ReasonSMTPNotChecked}
	for _, r := range reasons.All() {
		if r != engine.ReasonNone {
			cases[r.String()] = r
		}
	}
	list := "email\n"
	for local, reason := range cases {
		r := w.post("/v1/verify/single", w.testKey, fmt.Sprintf(`{"email":"%s@example.com","details":true}`, local))
		require.Equal(t, 200, r.status)
		requireSimulated(t, reason, r.json(t))
		list += local + "@example.com\n"
	}
	other := w.post("/v1/verify/single", w.testKey, `{"email":"valid@shop.test"}`).json(t)
	require.Equal(t, [2]any{"UNKNOWN", "smtp_not_checked"}, [2]any{other["status"], other["reason"]})

	job := w.uploadAndWait(w.testKey, part{"file", "l.csv", list + "DISPOSABLE@example.com\n"})
	require.Equal(t, map[string]any{"VALID": 1.0, "RISKY": 9.0, "INVALID": 8.0, "UNKNOWN": 16.0}, job["counts"])
	require.EqualValues(t, 0, job["credits_used"])
	rows := strings.Split(strings.TrimSpace(string(w.get(job["results_url"].(string)+"?format=jsonl", w.testKey).body)),
		"\n")
	require.Len(t, rows, len(cases)+1)
	for _, line := range rows {
		row := reply{body: []byte(line)}.json(t)
		local, _, _ := strings.Cut(strings.ToLower(row["email"].(string)), "@")
		requireSimulated(t, cases[local], row)
	}
	require.Zero(t, w.prober.requests.Load())
	require.EqualValues(t, initialCredits, w.credits().Balance)
}

// requireSimulated requires that the fields of a result agree with the requested reason.
func requireSimulated(t *testing.T, reason engine.Reason, got map[string]any) {
	t.Helper()
	var name any
	if reason != engine.ReasonNone {
		name = reason.String()
	}
	accepted := reason == engine.ReasonNone || reason == engine.ReasonRoleAccount || reason == engine.ReasonPossibleTypo
	want := map[string]any{"status": reason.Bucket().String(), "score": float64(reason.Figure()), "reason": name,
		"credits_used": 0.0, "smtp_valid": accepted,
		"syntax_valid": reason != engine.ReasonInvalidSyntax, "domain_exists": reason != engine.ReasonInvalidSyntax &&
			reason != engine.ReasonDomainNotFound,
		"is_disposable": reason == engine.ReasonDisposable, "is_role_based": reason == engine.ReasonRoleAccount,
		"from_cache": false}
	for k, v := range want {
		require.Equal(t, v, got[k], "%s of %s", k, reason)
	}
	details, ok := got["details"].(map[string]any)
	if !ok {
		return // not asked for
	}
	require.Equal(t, reason == engine.ReasonMailboxFull, details["mailbox_full"])
	require.Equal(t, reason == engine.ReasonMailboxDisabled, details["mailbox_disabled"])
	require.Equal(t, reason == engine.ReasonGreylisted, details["retry_after"] != nil)
	var catchAll any
	if accepted || reason == engine.ReasonCatchAll {
		catchAll = !accepted
	}
	require.Equal(t, catchAll, details["is_catch_all"], "%s", reason)
}

// TestErrorsOfTestKeys requests each error by name. Its headers are those of a real one.
func TestErrorsOfTestKeys(t *testing.T) {
	w := newTestServer(t, nil)
	for _, status := range []int{402, 429, 500} {
		r := w.post("/v1/verify/single", w.testKey, fmt.Sprintf(`{"email":"http_%d@example.com"}`, status))
		require.Equal(t, status, r.status)
		r.detail(t)
		if status != 429 {
			continue
		}
		requireRateLimited(t, r, 60)
		require.Equal(t, r.header.Get("Retry-After"), r.header.Get("RateLimit-Reset"))
		require.Contains(t, r.detail(t), r.header.Get("RateLimit-Limit"))
	}
	require.NotContains(t, w.log.String(), "level=ERROR", "nobody need look into what was asked for")
	require.Equal(t, 200, w.single(`{"email":"http_500@example.com"}`).status, "a live key verifies it as any other")
	require.EqualValues(t, initialCredits-1, w.credits().Balance)
}

func TestPublicEndpoint(t *testing.T) {
	w := newTestServer(t, func(c *Config) {
		c.CORSOrigins, c.PublicURL = []string{"https://shop.example"}, "https://verify.example"
		c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		c.PublicPerDay = 7
	})
	send := func(client, origin, body string) reply {
		h := map[string]string{"Content-Type": "application/json", "X-Forwarded-For": client}
		if origin != "" {
			h["Origin"] = origin
		}
		return w.do(request{method: "POST", path: "/v1/verify/public", body: strings.NewReader(body), header: h})
	}
	ok := `{"email":"ann@shop.test"}`
	for _, origin := range []string{"https://shop.example", "https://verify.example", w.base} {
		r := send("198.51.100.1", origin, ok)
		require.Equal(t, 200, r.status)
		require.Equal(t, origin, r.header.Get("Access-Control-Allow-Origin"))
		require.Contains(t, r.header.Get("Access-Control-Expose-Headers"), "Retry-After")
		require.Contains(t, r.header.Get("Vary"), "Origin")
	}
	r := send("198.51.100.1", "https://shop.example", ok)
	requireRateLimited(t, r, 86400)
	require.Equal(t, "https://shop.example", r.header.Get("Access-Control-Allow-Origin"), "the page may read why")
	r = send("198.51.100.2", "https://evil.example", ok)
	require.Equal(t, 403, r.status)
	require.Contains(t, r.detail(t), "--cors-origin")
	require.Empty(t, r.header.Get("Access-Control-Allow-Origin"))
	require.Equal(t, 400, send("198.51.100.2", "", `{`).status)
	for range 3 {
		require.Equal(t, 200, send("198.51.100.2", "", ok).status, "what could not be read does not count")
	}
	require.Equal(t, 200, send("2001:db9:1:1::1", "", ok).status)
	requireRateLimited(t, send("2001:db9:2:2::1", "", ok), 86400)
	for _, path := range []string{"/verify/public", "/v1/verify/public"} {
		r := w.do(request{method: "OPTIONS", path: path,
			header: map[string]string{"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}})
		require.Equal(t, 204, r.status, "preflights never count")
		require.Equal(t, "POST", r.header.Get("Access-Control-Allow-Methods"))
		require.Equal(t, 403, w.do(request{method: "OPTIONS", path: path,
			header: map[string]string{"Origin": "https://evil.example"}}).status)
	}
}

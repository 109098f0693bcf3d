package api

import (
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParallelSinglesOnOneCredit(t *testing.T) {
	w := newWorld(t, nil)
	_, key := w.customer("poor@probity.test", 1)
	release := w.prober.holdAnswers()
	var mu sync.Mutex
	got := map[int]int{}
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			r := w.post("/v1/verify/single", key, fmt.Sprintf(`{"email":"ann%d@shop.test"}`, i))
			mu.Lock()
			defer mu.Unlock()
			if got[r.status]++; got[402] == 29 {
				release()
			}
		})
	}
	all.Wait()
	require.Equal(t, map[int]int{200: 1, 402: 29}, got)
}

func TestSingleCosts(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		email string
		cost  float64
	}{{"ann@shop.test", 1}, {"cached@shop.test", 1}, {"nobody@shop.test", 1}, {"any@shop.test", 1}, {"block@shop.test", 0}, {"no address", 1}} {
		before := w.credits().Balance
		got := w.single(fmt.Sprintf(`{"email":%q}`, c.email)).json(t)
		require.Equal(t, c.cost, got["credits_used"], c.email)
		require.EqualValues(t, c.cost, before-w.credits().Balance, c.email)
		require.Zero(t, w.credits().Reserved)
	}
}

func TestSingleRequests(t *testing.T) {
	w := newWorld(t, nil)
	for _, c := range []struct {
		body   string
		status int
		detail string
	}{
		{`{"email":"ann@shop.test","unknown":{"deep":[1]}}`, 200, ""},
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
	w := newWorld(t, nil)
	for kind, status := range map[string]int{"application/json": 200, "Application/JSON; charset=UTF-8": 200, `application/json; charset="utf-8"`: 200,
		"": 415, "text/plain": 415, "application/x-www-form-urlencoded": 415, "application/json; charset=iso-8859-1": 415, "multipart/form-data; boundary=x": 415} {
		r := w.do(request{method: "POST", path: "/v1/verify/single", key: w.key, body: strings.NewReader(`{"email":"ann@shop.test"}`), header: map[string]string{"Content-Type": kind}})
		require.Equal(t, status, r.status, kind)
	}
	r := w.do(request{method: "POST", path: "/v1/verify/single", key: w.key, body: strings.NewReader(`{"email":"ann@shop.test"}`),
		header: map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}})
	require.Equal(t, 415, r.status)
	for kind, status := range map[string]int{"application/json": 415, "multipart/form-data": 400, "multipart/mixed; boundary=x": 415} {
		r := w.do(request{method: "POST", path: "/v1/verify/bulk", key: w.key, body: strings.NewReader("--x--"), header: map[string]string{"Content-Type": kind}})
		require.Equal(t, status, r.status, kind)
	}
}

func TestSingleDeadline(t *testing.T) {
	w := newWorld(t, nil)
	begun := time.Now()
	got := w.single(`{"email":"slow@shop.test","timeout":1}`).json(t)
	require.Equal(t, []any{"UNKNOWN", "timeout"}, []any{got["status"], got["reason"]})
	require.Less(t, time.Since(begun), 3*time.Second)
}

func TestSingleIdempotency(t *testing.T) {
	w := newWorld(t, nil)
	send := func(key, body string) reply {
		return w.do(request{method: "POST", path: "/v1/verify/single", key: w.key, body: strings.NewReader(body), header: map[string]string{"Content-Type": "application/json", "Idempotency-Key": key}})
	}
	first := send("k1", `{"email":"ann@shop.test"}`)
	again := send("k1", ` {"max_age": 604800, "email":"ann@shop.test"}`)
	require.Equal(t, 200, again.status)
	require.Equal(t, string(first.body), string(again.body))
	require.EqualValues(t, creditsAtFirst-1, w.credits().Balance)
	require.Equal(t, 422, send("k1", `{"email":"bob@shop.test"}`).status)
	require.Equal(t, 400, send(strings.Repeat("k", 300), `{"email":"ann@shop.test"}`).status)

	asked := w.prober.asked.Load()
	require.Equal(t, 200, send("k2", `{"email":"block@shop.test"}`).status)
	require.Equal(t, 200, send("k2", `{"email":"block@shop.test"}`).status, "an UNKNOWN releases the key")
	require.EqualValues(t, 2, w.prober.asked.Load()-asked)

	release := w.prober.holdAnswers()
	defer release()
	asked = w.prober.asked.Load()
	done := make(chan reply)
	go func() { done <- send("k3", `{"email":"ann@shop.test"}`) }()
	require.Eventually(t, func() bool { return w.prober.asked.Load() > asked }, 5*time.Second, time.Millisecond)
	busy := send("k3", `{"email":"ann@shop.test"}`)
	require.Equal(t, 409, busy.status)
	require.Equal(t, "1", busy.header.Get("Retry-After"))
	release()
	require.Equal(t, 200, (<-done).status)
}

func TestTestKeys(t *testing.T) {
	w := newWorld(t, nil)
	for email, want := range map[string][2]any{"valid@example.com": {"VALID", nil}, "mailbox_not_found@example.com": {"INVALID", "mailbox_not_found"},
		"catch_all@example.com": {"RISKY", "catch_all"}, "greylisted@example.com": {"UNKNOWN", "greylisted"}, "invalid_syntax@example.com": {"INVALID", "invalid_syntax"},
		"someone@example.com": {"UNKNOWN", "smtp_not_checked"}, "valid@shop.test": {"UNKNOWN", "smtp_not_checked"}} {
		r := w.post("/v1/verify/single", w.testKey, fmt.Sprintf(`{"email":%q}`, email))
		require.Equal(t, 200, r.status)
		got := r.json(t)
		require.Equal(t, want, [2]any{got["status"], got["reason"]}, email)
		require.EqualValues(t, 0, got["credits_used"])
	}
	for _, status := range []int{402, 429, 500} {
		r := w.post("/v1/verify/single", w.testKey, fmt.Sprintf(`{"email":"http_%d@example.com"}`, status))
		require.Equal(t, status, r.status)
		r.detail(t)
		if status == 429 {
			require.NotEmpty(t, r.header.Get("Retry-After"))
		}
	}
	job := w.finished(w.testKey, part{"file", "l.csv", "email\nvalid@example.com\ncatch_all@example.com\n"})
	require.Equal(t, map[string]any{"VALID": 1.0, "RISKY": 1.0, "INVALID": 0.0, "UNKNOWN": 0.0}, job["counts"])
	require.Zero(t, w.prober.asked.Load())
	require.EqualValues(t, creditsAtFirst, w.credits().Balance)
}

func TestPublicEndpoint(t *testing.T) {
	w := newWorld(t, func(c *Config) {
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
	limited(t, r, 86400)
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
	limited(t, send("2001:db9:2:2::1", "", ok), 86400)
	for _, path := range []string{"/verify/public", "/v1/verify/public"} {
		r := w.do(request{method: "OPTIONS", path: path, header: map[string]string{"Origin": "https://shop.example", "Access-Control-Request-Method": "POST"}})
		require.Equal(t, 204, r.status, "preflights never count")
		require.Equal(t, "POST", r.header.Get("Access-Control-Allow-Methods"))
		require.Equal(t, 403, w.do(request{method: "OPTIONS", path: path, header: map[string]string{"Origin": "https://evil.example"}}).status)
	}
}

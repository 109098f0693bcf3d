package api

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/csvfile"
	"probity/store"
)

// TestSpecification checks the API specification section by section. Each case is named after the section and the
// sentence that it checks.
func TestSpecification(t *testing.T) {
	w := newTestServer(t, nil)
	t.Run("1 a single verification is synchronous and consumes credits", func(t *testing.T) {
		before := w.credits().Balance
		r := w.single(`{"email":"one@shop.test"}`)
		require.Equal(t, 200, r.status)
		require.Equal(t, before-1, w.credits().Balance)
	})
	t.Run("1 list verification is asynchronous", func(t *testing.T) {
		release := w.prober.holdAnswers()
		defer release()
		r := w.upload(w.key, nil, part{"file", "l.csv", "email\na@shop.test\n"})
		require.Equal(t, 202, r.status)
		release()
		w.waitForJob(w.key, r.json(t)["job_id"].(string))
	})
	t.Run("1 an account without enough credits is refused", func(t *testing.T) {
		_, key := w.addCustomer("empty@probity.test", 0)
		require.Equal(t, 402, w.post("/v1/verify/single", key, `{"email":"a@shop.test"}`).status)
	})
	t.Run("2 verification result: every field and its type", func(t *testing.T) { specResult(t, w) })
	t.Run("2 reason is null in the VALID case", func(t *testing.T) {
		got := w.single(`{"email":"ann@shop.test"}`).json(t)
		require.Equal(t, "VALID", got["status"])
		require.Nil(t, got["reason"])
		require.Contains(t, got, "reason")
	})
	t.Run("2 every other input column is copied unchanged", func(t *testing.T) {
		job := w.uploadAndWait(w.key, part{"file", "l.csv",
			"name,email,note\n\"Doe, Ann\",ann@shop.test,\" x \"\nBo,nobody@shop.test,\n"})
		r := w.get(job["results_url"].(string), w.key)
		require.Equal(t, 200, r.status)
		rows, err := csv.NewReader(strings.NewReader(string(r.body))).ReadAll()
		require.NoError(t, err)
		require.Equal(t, []string{"name", "email", "note"}, rows[0][:3])
		require.Equal(t, []string{"Doe, Ann", "ann@shop.test", " x ", "VALID"}, rows[1][:4])
		require.Equal(t, []string{"Bo", "nobody@shop.test", "", "INVALID"}, rows[2][:4])
	})
	t.Run("2 a job has an identifier, which the callback bears", func(t *testing.T) { specCallback(t, w) })
	t.Run("3 the statuses are VALID, RISKY, INVALID and UNKNOWN", func(t *testing.T) {
		for email, status := range map[string]string{"ann@shop.test": "VALID", "any@shop.test": "RISKY",
			"nobody@shop.test": "INVALID", "block@shop.test": "UNKNOWN"} {
			require.Equal(t, status, w.single(fmt.Sprintf(`{"email":%q}`, email)).json(t)["status"])
		}
	})
	t.Run("4 check_smtp asks for the SMTP probe", func(t *testing.T) {
		require.Equal(t, true, w.single(`{"email":"ann@shop.test","check_smtp":true}`).json(t)["smtp_valid"])
		got := w.single(`{"email":"ann@shop.test","check_smtp":false}`).json(t)
		require.Equal(t, []any{"UNKNOWN", "smtp_not_checked"}, []any{got["status"], got["reason"]})
	})
	t.Run("4 bulk takes multipart form data with file and callback_url", func(t *testing.T) {
		require.Equal(t, 202, w.upload(w.key, nil, part{"file", "l.csv", "email\na@shop.test\n"},
			part{"callback_url", "", "http://127.0.0.1:9/"}).status)
		require.Equal(t, 422, w.upload(w.key, nil, part{"callback_url", "", "http://127.0.0.1:9/"}).status)
	})
	t.Run("4 the public endpoint needs no key", func(t *testing.T) {
		for _, path := range []string{"/verify/public", "/v1/verify/public"} {
			r := w.post(path, "", `{"email":"ann@shop.test"}`)
			require.Equal(t, 200, r.status)
			require.EqualValues(t, 0, r.json(t)["credits_used"])
			require.Len(t, r.json(t), 15)
		}
	})
	t.Run("1 a list of up to 5,000,000 addresses is one job",
		func(t *testing.T) { require.Equal(t, 5_000_000, csvfile.MaxAddresses) })
	t.Run("1 cached results are told from fresh ones", func(t *testing.T) {
		require.Equal(t, false, w.single(`{"email":"ann@shop.test"}`).json(t)["from_cache"])
		require.Equal(t, true, w.single(`{"email":"cached@shop.test"}`).json(t)["from_cache"])
	})
	t.Run("2 score is 0 to 100 in each bucket", func(t *testing.T) { specScores(t, w) })
	t.Run("2 the input has a column named email", func(t *testing.T) {
		require.Equal(t, 422, w.upload(w.key, nil, part{"file", "l.csv", "name\nann\n"}).status)
		require.Equal(t, 422, w.upload(w.key, nil, part{"file", "l.csv", "ann@shop.test\n"}).status)
		require.Equal(t, 202, w.upload(w.key, nil, part{"file", "l.csv", "name,email\nann,ann@shop.test\n"}).status)
	})
	t.Run("4 single: method, content type, status", func(t *testing.T) { specSingle(t, w) })
	t.Run("4 bulk: method, content type, parts", func(t *testing.T) { specBulk(t, w) })
	t.Run("4 results can be downloaded from the dashboard for seven days", func(t *testing.T) { specDashboard(t, w) })
	t.Run("5 an API key is created in the dashboard", func(t *testing.T) {
		b := w.signIn("settings@probity.test", store.Customer)
		key := b.do("POST", "/v1/dash/keys", `{"name":"shop"}`).json(t)["key"].(string)
		require.Equal(t, 200, w.get("/v1/credits", key).status)
	})
	t.Run("6 origins of callbacks can be checked", func(t *testing.T) {
		require.Contains(t, w.get("/v1/callback-origins", "").json(t), "origins")
	})
	t.Run("5 authentication", func(t *testing.T) { specAuthentication(t, w) })
	t.Run("7 errors", func(t *testing.T) { specErrors(t, w) })
	t.Run("9 all authenticated endpoints are under /v1", func(t *testing.T) {
		for _, r := range w.server.routeTable {
			if r.access != anyone {
				require.True(t, strings.HasPrefix(r.Path, "/v1/"), r.Path)
			}
		}
	})
}

func specResult(t *testing.T, w *testServer) {
	want := map[string]string{"email": "string", "status": "string", "score": "integer", "reason": "string or null",
		"syntax_valid":  "bool",
		"domain_exists": "bool", "smtp_valid": "bool", "is_disposable": "bool", "is_role_based": "bool",
		"is_free_email": "bool",
		"smtp_provider": "string", "mx_records": "strings", "from_cache": "bool", "credits_used": "integer",
		"verified_at": "time"}
	for _, email := range []string{"ann@shop.test", "nobody@shop.test", "not an address", "a@nx.test", "a@null.test",
		"info@free.test", "slow@shop.test", "block@shop.test", ""} {
		body, _ := json.Marshal(map[string]any{"email": email, "timeout": 1})
		r := w.single(string(body))
		require.Equal(t, 200, r.status, "%s", r.body)
		got := r.json(t)
		require.Equal(t, email, got["email"])
		keys := map[string]string{}
		for k, v := range got {
			keys[k] = typeName(k, v)
		}
		require.Equal(t, want, keys, email)
	}
}

// typeName is the specification's name for the type of a field's value.
func typeName(key string, v any) string {
	switch v := v.(type) {
	case bool:
		return "bool"
	case float64:
		if v == float64(int(v)) {
			return "integer"
		}
	case []any:
		for _, e := range v {
			if _, ok := e.(string); !ok {
				return "a list of others"
			}
		}
		return "strings"
	case nil:
		if key == "reason" {
			return "string or null"
		}
	case string:
		if key == "reason" {
			return "string or null"
		}
		if at, err := time.Parse(time.RFC3339, v); key == "verified_at" && err == nil && strings.HasSuffix(v, "Z") &&
			time.Since(at) < time.Hour {
			return "time"
		}
		return "string"
	}
	return fmt.Sprintf("%T", v)
}

func specCallback(t *testing.T, w *testServer) {
	var mu sync.Mutex
	var header http.Header
	var body []byte
	var calls atomic.Int32
	got := make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		if calls.Add(1) == 1 && r.Method == "POST" {
			header, body = r.Header, b
			close(got)
		}
	}))
	defer receiver.Close()
	job := w.uploadAndWait(w.key, part{"callback_url", "", receiver.URL + "/hook"},
		part{"file", "l.csv", "email\nann@shop.test\n\nnobody@shop.test\n"})
	select {
	case <-got:
	case <-time.After(20 * time.Second):
		t.Fatal("no callback came")
	}
	mu.Lock()
	defer mu.Unlock()
	for name := range header {
		require.NotContains(t, strings.ToLower(name), "signature")
	}
	var event struct {
		Event   string           `json:"event"`
		ID      string           `json:"job_id"`
		Job     map[string]any   `json:"job"`
		URL     string           `json:"results_url"`
		Results []map[string]any `json:"results"`
	}
	require.NoError(t, json.Unmarshal(body, &event), "%s", body)
	require.Equal(t, "bulk.finished", event.Event)
	require.Equal(t, job["job_id"], event.ID)
	require.Equal(t, "completed", event.Job["status"])
	require.Len(t, event.Results, 3, "one for each row")
	link := strings.TrimPrefix(event.URL, "http://probity.test")
	require.Equal(t, 200, w.get(link, "").status, "the signed link needs no key")
	require.Equal(t, 403, w.get(link+"0", "").status)
	require.Equal(t, 403, w.get(strings.Replace(link, "expires=", "expires=9", 1), "").status)
	require.Equal(t, 401, w.get(strings.Split(link, "?")[0], "").status)
	require.Eventually(t, func() bool {
		return w.get("/v1/verify/bulk/"+event.ID, w.key).json(t)["callback_status"] == "delivered"
	}, 10*time.Second, 20*time.Millisecond)
	log := w.get("/v1/verify/bulk/"+event.ID+"/callback", w.key)
	require.Equal(t, 200, log.status)
	require.Len(t, log.json(t)["attempts"], 1)
	require.EqualValues(t, 1, calls.Load(), "no other events are sent")
}

func specAuthentication(t *testing.T, w *testServer) {
	for name, header := range map[string]string{"missing": "", "another scheme": "Basic " + w.key,
		"no token": "Bearer ", "bad checksum": "Bearer " + w.key[:len(w.key)-1] + "!",
		"made up": "Bearer prb_live_00000000000000000000000000000000000000", "twice": "Bearer " + w.key + " " + w.key} {
		for _, path := range []string{"/v1/credits", "/v1/verify/bulk", "/v1/verify/bulk/x",
			"/v1/verify/bulk/x/results", "/v1/admin/users"} {
			r := w.do(request{method: "GET", path: path, header: map[string]string{"Authorization": header}})
			require.Equal(t, 401, r.status, "%s %s", name, path)
			require.Equal(t, "Bearer", r.header.Get("WWW-Authenticate"))
			require.NotContains(t, r.detail(t), w.key)
		}
	}
	r := w.do(request{method: "GET", path: "/v1/credits",
		header: map[string]string{"Authorization": "bearer  " + w.key}})
	require.Equal(t, 200, r.status, "the scheme's case does not matter")
	_, key := w.addCustomer("leaver@probity.test", 5)
	require.Equal(t, 200, w.get("/v1/credits", key).status)
	listed := w.get(query("/v1/admin/keys", "user", "leaver@probity.test"), w.adminKey).json(t)["keys"].([]any)
	id := listed[0].(map[string]any)["id"].(string)
	require.Equal(t, 204, w.do(request{method: "DELETE", path: "/v1/admin/keys/" + id, key: w.adminKey}).status)
	require.Equal(t, 401, w.get("/v1/credits", key).status, "a revoked key stops working immediately")
}

func specErrors(t *testing.T, w *testServer) {
	t.Run("402 credits are insufficient", func(t *testing.T) {
		_, key := w.addCustomer("two@probity.test", 2)
		r := w.upload(key, nil, part{"file", "l.csv", "email\na@shop.test\nb@shop.test\nc@shop.test\n"})
		require.Equal(t, 402, r.status)
		require.Contains(t, r.detail(t), "3")
		require.EqualValues(t, 2, w.get("/v1/credits", key).json(t)["balance"])
		require.Empty(t, w.get("/v1/verify/bulk", key).json(t)["jobs"], "a refused upload leaves nothing")
	})
	t.Run("500 no credit is deducted, and a retry is safe", func(t *testing.T) {
		before := w.credits()
		w.prober.fail.Store(true)
		r := w.single(`{"email":"ann@shop.test"}`)
		w.prober.fail.Store(false)
		require.Equal(t, 500, r.status)
		require.NotContains(t, r.detail(t), "ann")
		require.Equal(t, before, w.credits())
		require.Equal(t, 200, w.single(`{"email":"ann@shop.test"}`).status)
	})
}

// TestSpecifiedLimits checks section 8, with the default limits of an account.
func TestSpecifiedLimits(t *testing.T) {
	w := newTestServer(t, nil)
	u, _, err := w.store.AddUser(t.Context(), store.NewUser{Email: "plain@probity.test", Credits: 100}, "test",
		time.Now())
	require.NoError(t, err)
	key, _, err := w.store.CreateKey(u.ID, store.NewKey{Name: "live"}, "test", time.Now())
	require.NoError(t, err)
	t.Run("8 /verify/single: 30 requests per minute per user", func(t *testing.T) {
		for i := range 30 {
			body := `{"email":"ann@shop.test"}`
			if i%3 == 0 {
				body = `{` // counts as well
			}
			r := w.post("/v1/verify/single", key, body)
			require.Contains(t, []int{200, 400}, r.status)
			require.Equal(t, "30", r.header.Get("RateLimit-Limit"))
			require.Equal(t, fmt.Sprint(29-i), r.header.Get("RateLimit-Remaining"))
			require.NotEmpty(t, r.header.Get("RateLimit-Reset"))
		}
		requireRateLimited(t, w.post("/v1/verify/single", key, `{"email":"ann@shop.test"}`), 60)
	})
	t.Run("8 /verify/bulk: 10 requests per hour per user", func(t *testing.T) {
		for range 10 {
			require.Equal(t, 422, w.upload(key, nil, part{"file", "l.csv", "nothing\n"}).status,
				"a refused upload does not count")
			require.Equal(t, 202, w.upload(key, nil, part{"file", "l.csv", "email\na@shop.test\n"}).status)
		}
		requireRateLimited(t, w.upload(key, nil, part{"file", "l.csv", "email\na@shop.test\n"}), 3600)
	})
	t.Run("8 /verify/public: 3 per day per IP", func(t *testing.T) {
		for range 3 {
			require.Equal(t, 200, w.post("/verify/public", "", `{"email":"ann@shop.test"}`).status)
		}
		requireRateLimited(t, w.post("/v1/verify/public", "", `{"email":"ann@shop.test"}`), 86400)
	})
	t.Run("8 /verify/public: 10 per week per IP", func(t *testing.T) {
		const day = 24 * time.Hour
		for left := 7; left > 0; { // three of ten are used
			w.clockOffset.Add(int64(day + time.Second))
			for range min(left, 3) {
				require.Equal(t, 200, w.post("/verify/public", "", `{"email":"ann@shop.test"}`).status)
				left--
			}
		}
		r := w.post("/verify/public", "", `{"email":"ann@shop.test"}`)
		requireRateLimited(t, r, 7*86400)
		require.Equal(t, "10", r.header.Get("RateLimit-Limit"))
		w.clockOffset.Add(int64(4 * day))
		require.Equal(t, 200, w.post("/verify/public", "", `{"email":"ann@shop.test"}`).status,
			"the first are a week old")
	})
	t.Run("8 limits are per user, not per key", func(t *testing.T) {
		w.clockOffset.Store(0)
		another, _, err := w.store.CreateKey(u.ID, store.NewKey{Name: "another"}, "test", time.Now())
		require.NoError(t, err)
		requireRateLimited(t, w.post("/v1/verify/single", another, `{"email":"ann@shop.test"}`), 60)
		require.Equal(t, 200, w.single(`{"email":"ann@shop.test"}`).status, "another user's")
	})
}

func requireRateLimited(t *testing.T, r reply, most int) {
	t.Helper()
	require.Equal(t, 429, r.status, "%s", r.body)
	var seconds int
	_, err := fmt.Sscan(r.header.Get("Retry-After"), &seconds)
	require.NoError(t, err)
	require.Positive(t, seconds)
	require.LessOrEqual(t, seconds, most)
	require.Equal(t, "0", r.header.Get("RateLimit-Remaining"))
	r.detail(t)
}

func TestResultHasExactlyFifteenKeys(t *testing.T) {
	w := newTestServer(t, nil)
	for _, c := range []struct {
		body string
		keys int
	}{{`{"email":"ann@shop.test"}`, 15}, {`{"email":"ann@shop.test","details":false}`, 15},
		{`{"email":"ann@shop.test","details":true}`, 16}} {
		require.Len(t, w.single(c.body).json(t), c.keys)
	}
	var keys []string
	for k := range w.single(`{"email":"nobody@shop.test","details":true}`).json(t)["details"].(map[string]any) {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	require.Equal(t, strings.Fields("attempts catch_all_checked_at checked_by control did_you_mean duration_ms egress_source "+
		"enhanced_code is_alias is_catch_all mailbox_disabled mailbox_full mx_host "+
		"normalized_email probability probability_n retry_after rule rule_date rule_source score_parts smtp_code smtp_message stage"), keys)
}

package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// batch sends a batch with a key.
func (w *testServer) batch(key string, members map[string]any, header map[string]string) reply {
	w.t.Helper()
	b, err := json.Marshal(members)
	require.NoError(w.t, err)
	h := map[string]string{"Content-Type": "application/json"}
	for k, v := range header {
		h[k] = v
	}
	return w.do(request{method: "POST", path: "/v1/verify/batch", key: key, header: h,
		body: strings.NewReader(string(b))})
}

// resultsOf are the results of a batch, and its price.
func resultsOf(t *testing.T, r reply) (list []map[string]any, used float64) {
	t.Helper()
	require.Equal(t, 200, r.status, "%s", r.body)
	for _, one := range r.json(t)["results"].([]any) {
		list = append(list, one.(map[string]any))
	}
	return list, r.json(t)["credits_used"].(float64)
}

// truthOf returns what a verification says of an address, without what depends on when and in which call it was made.
func truthOf(result map[string]any) map[string]any {
	truth := map[string]any{}
	for name, value := range result {
		switch name {
		case "row", "credits_used", "from_cache", "verified_at":
		default:
			truth[name] = value
		}
	}
	return truth
}

// A batch, single calls and a list say the same of each address, in the order of the request, and charge each distinct
// address once.
func TestBatchSaysWhatSingleAndBulkSay(t *testing.T) {
	w := newTestServer(t, nil)
	emails := []string{"ann@shop.test", "nobody@shop.test", "any@shop.test", "ANN@shop.test", "info@free.test",
		"a@nx.test", "a@null.test", "not an address",
		"grey@shop.test", "block@shop.test", "a.nn@gmail.com", "ann+x@gmail.com", "not an address", "ann@nxgmial.com"}
	before := w.credits().Balance
	got, used := resultsOf(t, w.batch(w.key, map[string]any{"emails": emails}, nil))
	require.Len(t, got, len(emails))
	require.EqualValues(t, 9, used, "eleven distinct addresses, of which two are UNKNOWN")
	require.EqualValues(t, before-9, w.credits().Balance)
	sum := 0.0
	for i, email := range emails {
		single := w.single(fmt.Sprintf(`{"email":%q}`, email)).json(t)
		require.Equal(t, truthOf(single), truthOf(got[i]), email)
		sum += got[i]["credits_used"].(float64)
	}
	require.Equal(t, used, sum)
	require.Zero(t, got[3]["credits_used"], "the same address as the first")

	job := w.uploadAndWait(w.key, part{"file", "l.csv", "email\n" + strings.Join(emails, "\n") + "\n"})
	rows := w.get("/v1/verify/bulk/"+job["job_id"].(string)+"/results?format=jsonl", w.key)
	require.Equal(t, 200, rows.status)
	for i, line := range strings.Split(strings.TrimSpace(string(rows.body)), "\n") {
		var row map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		if got[i]["reason"] == "greylisted" || got[i]["reason"] == "blocked" {
			continue // a list tries again
		}
		delete(row, "input")
		require.Equal(t, truthOf(got[i]), truthOf(row), emails[i])
	}
}

// At its deadline a batch answers with the verdicts that it has; the others are UNKNOWN, timeout, and cost nothing.
func TestBatchDeadline(t *testing.T) {
	w := newTestServer(t, nil)
	var emails []string
	for i := range 970 {
		emails = append(emails, fmt.Sprintf("u%d@shop.test", i))
	}
	for i := range 30 {
		emails = append(emails, fmt.Sprintf("slow%d@silent%d.test", i, i))
	}
	started := time.Now()
	got, used := resultsOf(t, w.batch(w.key, map[string]any{"emails": emails, "timeout": 1}, nil))
	require.Less(t, time.Since(started), 20*time.Second)
	require.EqualValues(t, 970, used)
	for i, r := range got {
		want := []any{"VALID", nil}
		if i >= 970 {
			want = []any{"UNKNOWN", "timeout"}
		}
		require.Equal(t, want, []any{r["status"], r["reason"]}, r["email"])
	}
}

func TestBatchRefusals(t *testing.T) {
	w := newTestServer(t, nil)
	many := make([]string, 1001)
	for i := range many {
		many[i] = fmt.Sprintf("u%d@shop.test", i)
	}
	for _, c := range []struct {
		members map[string]any
		names   string
	}{
		{map[string]any{}, "emails must be a list of 1 to 1000"}, {map[string]any{"emails": []string{}}, "1 to 1000"},
		{map[string]any{"emails": many}, "1 to 1000"},
		{map[string]any{"emails": "ann@shop.test"}, "emails must be a list"},
		{map[string]any{"emails": []any{"ann@shop.test", 1}}, "emails"},
		{map[string]any{"emails": many[:1], "timeout": 61}, "timeout"},
		{map[string]any{"emails": many[:1], "email": "ann@shop.test"}, "did you mean emails?"},
	} {
		r := w.batch(w.key, c.members, nil)
		require.Equal(t, 422, r.status, "%s", r.body)
		require.Contains(t, r.detail(t), c.names)
	}
	_, poor := w.addCustomer("poor@probity.test", 2)
	r := w.batch(poor, map[string]any{"emails": []string{"a@shop.test", "b@shop.test", "c@shop.test"}}, nil)
	require.Equal(t, 402, r.status)
	require.Contains(t, r.detail(t), "You have 2 credits; this needs 3")
	_, used := resultsOf(t, w.batch(poor, map[string]any{"emails": []string{"a@shop.test", "A@shop.test",
		"b@shop.test"}}, nil))
	require.EqualValues(t, 2, used, "two distinct addresses are covered")

	long := strings.Repeat("a", 2000)
	full := make([]string, 1000)
	for i := range full {
		full[i] = long
	}
	require.Equal(t, 413, w.batch(w.key, map[string]any{"emails": full}, nil).status)
	w.prober.fail.Store(true)
	before := w.credits()
	require.Equal(t, 500, w.batch(w.key, map[string]any{"emails": []string{"a@shop.test", "b@shop.test"}}, nil).status)
	require.Equal(t, before, w.credits(), "a failure costs nothing")
}

// Batches have a limit of their own, and a repeat under one Idempotency-Key is neither verified nor charged again.
func TestBatchLimitAndIdempotency(t *testing.T) {
	w := newTestServer(t, nil)
	u, _, err := w.store.AddUser(t.Context(), store.NewUser{Email: "limited@probity.test", Credits: 100}, "test",
		time.Now())
	require.NoError(t, err)
	key := w.newKey(u.ID, store.NewKey{Scopes: store.ScopeVerify})
	one := map[string]any{"emails": []string{"ann@shop.test", "block@shop.test"}}
	once := map[string]string{"Idempotency-Key": "k"}
	first := w.batch(key, one, once)
	require.Equal(t, 200, first.status)
	require.Equal(t, "59", first.header.Get("RateLimit-Remaining"))
	asked := w.prober.requests.Load()
	require.Equal(t, string(first.body), string(w.batch(key, one, once).body))
	require.Equal(t, asked, w.prober.requests.Load())
	require.Equal(t, 422, w.batch(key, map[string]any{"emails": []string{"bo@shop.test"}}, once).status)
	unknown := map[string]string{"Idempotency-Key": "unknown"}
	require.Equal(t, 200, w.batch(key, map[string]any{"emails": []string{"block@shop.test"}}, unknown).status)
	require.Equal(t, 200, w.batch(key, map[string]any{"emails": []string{"ann@shop.test"}}, unknown).status,
		"an answer of UNKNOWN alone releases the key")
	c, err := w.store.Credits(u.ID)
	require.NoError(t, err)
	require.EqualValues(t, 98, c.Balance)
	require.NoError(t, w.store.CheckLedger(u.ID))
	for range 55 {
		require.Equal(t, 422, w.batch(key, map[string]any{}, nil).status)
	}
	requireRateLimited(t, w.batch(key, one, nil), 60)
	require.Equal(t, 200, w.post("/v1/verify/single", key, `{"email":"ann@shop.test"}`).status,
		"single calls have their own")
	forgotten, err := w.store.EraseAnswers(func(b []byte) bool { return strings.Contains(string(b), "ann@shop.test") })
	require.NoError(t, err)
	require.Equal(t, 2, forgotten)
}

// A test key gets the reason that each address names, for nothing.
func TestBatchOfATestKey(t *testing.T) {
	w := newTestServer(t, nil)
	got, used := resultsOf(t, w.batch(w.testKey, map[string]any{"emails": []string{"valid@example.com",
		"catch_all@example.com"}, "details": true}, nil))
	require.Zero(t, used)
	require.Equal(t, []any{nil, "catch_all"}, []any{got[0]["reason"], got[1]["reason"]})
	require.Equal(t, "catch_all@example.com", got[1]["details"].(map[string]any)["normalized_email"])
	require.Equal(t, 402, w.batch(w.testKey, map[string]any{"emails": []string{"valid@example.com",
		"http_402@example.com"}}, nil).status)
	require.EqualValues(t, initialCredits, w.credits().Balance)
}

package api

import (
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/api/receipts"
	"probity/internal/receipt"
	"probity/store"
)

// verifiedReceipt is a receipt that the published keys confirm.
func verifiedReceipt(t *testing.T, w *testServer, text []byte) *receipt.Receipt {
	t.Helper()
	r, err := receipt.Parse(text)
	require.NoError(t, err)
	require.NoError(t, r.Verify(publishedKeys(t, w)))
	return r
}

func publishedKeys(t *testing.T, w *testServer) []ed25519.PublicKey {
	t.Helper()
	keys, err := receipt.ParseKeys(w.get("/v1/receipt-keys", "").body)
	require.NoError(t, err)
	return keys
}

// TestReceiptsAreVerifiedOffline: a receipt of a single call and one of a row of a list are confirmed by the published
// keys, and still are after a rotation. Without receipt an answer has no member more.
func TestReceiptsAreVerifiedOffline(t *testing.T) {
	w := newTestServer(t, nil)
	require.NotContains(t, string(w.single(`{"email":"nobody@shop.test"}`).body), "receipt")
	for details, keys := range map[string]int{"false": 16, "true": 17} {
		answer := w.single(`{"email":"Nobody@shop.test","receipt":true,"details":` + details + `}`)
		require.Len(t, answer.json(t), keys)
		r := verifiedReceipt(t, w, answer.body)
		require.True(t, r.IsOf("nobody@shop.test"))
		require.Equal(t, answer.json(t)["status"], r.Statement["status"])
		require.NotContains(t, strings.ToLower(string(answer.body[strings.Index(string(answer.body), `"receipt"`):])),
			"nobody")
		changed := strings.Replace(string(answer.body), `"reason":"mailbox_not_found","r`,
			`"reason":"mailbox_disabled","r`, 1)
		require.NotEqual(t, string(answer.body), changed)
		forged, err := receipt.Parse([]byte(changed))
		require.NoError(t, err)
		require.ErrorIs(t, forged.Verify(publishedKeys(t, w)), receipt.ErrSignature)
	}

	const list = "email\nann@shop.test\n\nnobody@shop.test\n"
	of := func(job map[string]any, row string) reply {
		return w.post("/v1/receipts", w.key, `{"job_id":"`+job["job_id"].(string)+`","row":`+row+`}`)
	}
	plain, detailed := w.uploadAndWait(w.key, part{"file", "l.csv", list}),
		w.uploadAndWait(w.key, part{"details", "", "true"}, part{"file", "l.csv", list})
	require.Equal(t, 422, of(plain, "1").status)
	first := of(detailed, "1")
	require.True(t, verifiedReceipt(t, w, first.body).IsOf("ann@shop.test"))
	lines := strings.Split(strings.TrimSpace(string(w.get(detailed["results_url"].(string)+"?format=jsonl",
		w.key).body)), "\n")
	for i, line := range lines {
		var row map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		got := of(detailed, string(rune('1'+i)))
		if row["status"] == nil {
			require.Equal(t, 422, got.status)
			continue
		}
		r := verifiedReceipt(t, w, got.body)
		require.True(t, r.IsOf(row["email"].(string)))
		require.Equal(t, row["status"], r.Statement["status"])
	}
	require.Equal(t, 422, of(detailed, "99").status)
	require.Equal(t, 404, of(map[string]any{"job_id": "x"}, "1").status)
	require.Equal(t, 422, w.post("/v1/receipts", w.key, `{"job_id":"x"}`).status)
	require.Equal(t, 422, w.post("/v1/verify/single", w.testKey, `{"email":"valid@example.com","receipt":true}`).status)

	for _, email := range []string{"Nobody@shop.test", "ann@shop.test", "no address"} { // later, from the history
		answer := w.single(`{"email":"` + email + `","receipt":true}`)
		later := w.post("/v1/receipts", w.key, `{"request_id":"`+answer.header.Get("X-Request-Id")+`"}`)
		require.Equal(t, 200, later.status, "%s", later.body)
		require.Equal(t, verifiedReceipt(t, w, answer.body).Statement, verifiedReceipt(t, w, later.body).Statement)
	}
	id := w.single(`{"email":"ann@shop.test"}`).header.Get("X-Request-Id")
	_, stranger := w.addCustomer("stranger@probity.test", 1)
	require.Equal(t, 404, w.post("/v1/receipts", stranger, `{"request_id":"`+id+`"}`).status)
	require.Equal(t, 404, w.post("/v1/receipts", w.key, `{"request_id":"none"}`).status)
	require.Equal(t, 422, w.post("/v1/receipts", w.key, `{"request_id":"`+id+`","row":1}`).status)
	simulated := w.post("/v1/verify/single", w.testKey, `{"email":"valid@example.com"}`).header.Get("X-Request-Id")
	require.Equal(t, 422, w.post("/v1/receipts", w.key, `{"request_id":"`+simulated+`"}`).status)
	onlyJobs, onlyVerify := w.newKey(w.user.ID, store.NewKey{Scopes: store.ScopeJobs}),
		w.newKey(w.user.ID, store.NewKey{Scopes: store.ScopeVerify})
	require.Equal(t, 403, w.post("/v1/receipts", onlyJobs, `{"request_id":"`+id+`"}`).status)
	require.Equal(t, 403, w.post("/v1/receipts", onlyVerify,
		`{"row":1,"job_id":"`+detailed["job_id"].(string)+`"}`).status)
	require.Equal(t, 200, w.post("/v1/receipts", onlyVerify, `{"request_id":"`+id+`"}`).status)

	before := publishedKeys(t, w)
	_, err := receipts.NewKey(w.store, "admin", time.Now())
	require.NoError(t, err)
	require.Len(t, publishedKeys(t, w), len(before)+1)
	verifiedReceipt(t, w, first.body)
	require.NotEqual(t, verifiedReceipt(t, w, first.body).KeyID, verifiedReceipt(t, w, of(detailed, "1").body).KeyID)
}

package api

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

// TestErasureReturnsReceipt: the receipt counts what was erased, without the address, and lists what was not and when
// that expires. It can be fetched before and after the erasure is done.
func TestErasureReturnsReceipt(t *testing.T) {
	w := newTestServer(t, nil)
	w.nodes.away.Store(true)
	w.uploadAndWait(w.key, part{"file", "l.csv", "email,note\nann@shop.test,x\nbo@shop.test,ask ann@shop.test\nAnn@shop.test,\n"})
	w.uploadAndWait(w.key, part{"file", "m.csv", "email\nbo@shop.test\n"})
	require.Equal(t, 200, w.do(request{method: "POST", path: "/v1/verify/single", key: w.key,
		body:   strings.NewReader(`{"email":"ann@shop.test"}`),
		header: map[string]string{"Content-Type": "application/json", "Idempotency-Key": "k"}}).status)

	require.Equal(t, 202, w.post("/v1/feedback", w.key,
		`{"reports":[{"email":"ann@shop.test","outcome":"delivered","at":"2026-03-01T12:00:00Z"}]}`).status)
	r := w.post("/v1/admin/erase", w.adminKey, `{"address":" Ann@shop.test"}`)
	require.Equal(t, 202, r.status, "%s", r.body)
	got := r.json(t)
	sum := sha256.Sum256([]byte("ann@shop.test"))
	require.Equal(t, hex.EncodeToString(sum[:]), got["address_sha256"])
	asked, err := time.Parse(time.RFC3339, got["asked_at"].(string))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), asked, time.Minute)
	for key, want := range map[string]any{"status": "open", "jobs": 1.0, "rows": 2.0, "cached": 2.0, "answers": 1.0,
		"reports": 1.0, "done_at": nil, "problem": nil} {
		require.Equal(t, want, got[key], key)
	}
	require.Equal(t, "p1", got["caches"].([]any)[0].(map[string]any)["node"])
	ages := got["ages_out"].([]any)
	require.Len(t, ages, 1)
	require.Equal(t, map[string]any{"what": "the cache of p2", "until": asked.AddDate(0, 0, 31).Format(time.RFC3339)},
		ages[0])
	require.NotContains(t, string(r.body), "shop.test")

	w.nodes.away.Store(false)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.server.deps.Eraser.Run(ctx) }()
	path := "/v1/admin/erasures/" + got["erasure_id"].(string)
	require.Eventually(t, func() bool { return w.get(path, w.adminKey).json(t)["status"] == "done" }, 20*time.Second,
		time.Millisecond)
	stop()
	require.NoError(t, <-ended)
	done := w.get(path, w.adminKey).json(t)
	for key, want := range map[string]any{"jobs": 1.0, "rows": 2.0, "cached": 3.0, "ages_out": []any{},
		"address_sha256": got["address_sha256"]} {
		require.Equal(t, want, done[key], key)
	}

	again := w.post("/v1/admin/erase", w.adminKey, `{"address":"ann@shop.test"}`)
	require.Equal(t, 200, again.status)
	require.Equal(t, 0.0, again.json(t)["jobs"])
	list := w.get("/v1/admin/erasures?limit=1", w.adminKey).json(t)
	require.Equal(t, again.json(t)["erasure_id"], list["erasures"].([]any)[0].(map[string]any)["erasure_id"])
	older := w.get("/v1/admin/erasures?cursor="+list["next_cursor"].(string), w.adminKey).json(t)
	require.Equal(t, []any{done}, older["erasures"])
	require.Nil(t, older["next_cursor"])
	require.Equal(t, 404, w.get("/v1/admin/erasures/none", w.adminKey).status)
	for _, bad := range []string{"%00zz", "zz", "0123", list["next_cursor"].(string) + "00"} {
		refused := w.get("/v1/admin/erasures?cursor="+bad, w.adminKey)
		require.Equal(t, 422, refused.status, bad)
		require.Contains(t, refused.detail(t), "cursor", bad)
	}
	require.Equal(t, 403, w.get(path, w.key).status)
	require.Equal(t, []string{"erase", "erase"}, w.auditActions("action=erase"))
}

// TestErasureStopsWaitingWhenClientDisconnects: a request that waits for another erasure ends when its client
// disconnects, and its erasure is kept.
func TestErasureStopsWaitingWhenClientDisconnects(t *testing.T) {
	w := newTestServer(t, nil)
	busy := make(chan struct{})
	w.nodes.busy.Store(&busy)
	begin := func(address string) net.Conn {
		c, err := net.Dial("tcp", w.addr)
		require.NoError(t, err)
		body := `{"address":"` + address + `"}`
		_, err = fmt.Fprintf(c, "POST /v1/admin/erase HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", w.addr, w.adminKey, len(body), body)
		require.NoError(t, err)
		return c
	}
	asked := func(n int) {
		require.Eventually(t, func() bool {
			open, err := w.store.OpenErasures()
			return err == nil && len(open) == n
		}, 20*time.Second, time.Millisecond)
	}
	answers := func() int { // kinds of them: a 202 is a new one
		n, err := testutil.GatherAndCount(w.registry, "probity_http_requests_total")
		require.NoError(t, err)
		return n
	}
	before := answers()
	first := begin("ann@shop.test")
	asked(1)
	second := begin("bo@shop.test")
	asked(2)
	require.NoError(t, second.Close())
	require.Eventually(t, func() bool { return answers() > before }, 10*time.Second, time.Millisecond,
		"the request ended, though the other is under way")
	asked(2)
	close(busy)
	res, err := http.ReadResponse(bufio.NewReader(first), nil)
	require.NoError(t, err)
	require.Equal(t, 200, res.StatusCode)
	require.NoError(t, first.Close())
	asked(1)
}

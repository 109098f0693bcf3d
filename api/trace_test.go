package api

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	tracing "probity/internal/spans"
	"probity/internal/spans/collector"
)

// TestCallbacksContinueTheTraceOfTheirRequest: the traceparent of an upload, a recheck and a single call is in the
// server's log and in the callback that answers it. An invalid one is in neither.
func TestCallbacksContinueTheTraceOfTheirRequest(t *testing.T) {
	w := newTestServer(t, nil)
	url, taken := receiveEvents(t)
	parentOf := func(n int) string { return fmt.Sprintf("00-%032x-b7ad6b7169203331-01", n) }
	post := func(path, parent, body string) reply {
		return w.do(request{method: "POST", path: path, key: w.key, body: strings.NewReader(body),
			header: map[string]string{"Traceparent": parent, "Content-Type": "application/json"}})
	}
	requireTraced := func(parent string) {
		t.Helper()
		require.Equal(t, parent, (<-taken).header.Get("Traceparent"))
		require.Eventually(t, func() bool {
			return strings.Count(w.log.String(), "traceparent="+parent) == 2
		}, time.Minute, 20*time.Millisecond, "one line for the request and one for the callback")
	}

	list := []part{{"callback_url", "", url}, {"file", "l.csv", "email\nann@shop.test\n"}}
	upload := func(parent string) reply { return w.upload(w.key, map[string]string{"Traceparent": parent}, list...) }
	job := upload(parentOf(1)).json(t)["job_id"].(string)
	requireTraced(parentOf(1))

	w.waitForJob(w.key, job)
	r := post("/v1/verify/bulk/"+job+"/recheck", parentOf(2), `{"status":["VALID"]}`)
	require.Equal(t, 202, r.status, "%s", r.body)
	requireTraced(parentOf(2))

	r = post("/v1/verify/single", parentOf(3), `{"email":"grey.ann@shop.test","callback_url":"`+url+`"}`)
	require.Equal(t, true, r.json(t)["callback_pending"], "%s", r.body)
	w.prober.passed.Store(true)
	requireTraced(parentOf(3))

	require.Equal(t, 202, upload(parentOf(0)).status)
	require.Empty(t, (<-taken).header.Values("Traceparent"))
	require.NotContains(t, w.log.String(), parentOf(0))
}

// TestSpansOfRequestsAndCallbacks: with a collector, requests, jobs and callbacks are spans of one trace, which the
// callback continues. No address and no part of one is exported, whatever a client sends.
func TestSpansOfRequestsAndCallbacks(t *testing.T) {
	var into collector.Collector
	tracer, err := tracing.New(tracing.Config{Endpoint: "http://collector.test", Sample: 1, Transport: &into})
	require.NoError(t, err)
	var running sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	running.Go(func() { tracer.Run(ctx) })
	w := newTestServer(t, func(c *Config) { c.Tracer = tracer })
	url, taken := receiveEvents(t)
	list := []part{{"callback_url", "", url}, {"name", "", "annabelle"},
		{"file", "annabelle.csv", "email\nannabelle@shop.test\n"}}
	const trace = "0af7651916cd43dd8448eb211c80319c"
	r := w.upload(w.key, map[string]string{"Traceparent": "00-" + trace + "-b7ad6b7169203331-01"}, list...)
	require.Equal(t, 202, r.status)
	w.waitForJob(w.key, r.json(t)["job_id"].(string))
	continued := tracing.ParsePlace((<-taken).header.Get("Traceparent")).String()
	require.Contains(t, continued, trace)

	single := func(key, body string) int {
		return w.do(request{method: "POST", path: "/v1/verify/single?annabelle=1", key: key,
			header: map[string]string{"Content-Type": "application/json"}, body: strings.NewReader(body)}).status
	}
	require.Equal(t, 422, single(w.key, `{"email":"annabelle@shop.test"}`))
	require.Equal(t, 401, single("prb_live_annabelle", `{"email":"annabelle@shop.test"}`))
	require.Equal(t, 404, w.do(request{method: "GET", path: "/annabelle@shop.test"}).status)
	require.Eventually(t, func() bool {
		return into.Tree(trace) == "probity POST /v1/verify/bulk\n  probity job\n  probity POST callback\n"
	}, time.Minute, 20*time.Millisecond)
	stop()
	running.Wait()
	var statuses []any
	for _, s := range into.Spans() {
		if s.Trace == trace {
			require.Equal(t, w.user.ID, s.Attributes["user.id"], "%v", s)
		}
		if s.Name == "POST callback" {
			require.Equal(t, continued, "00-"+trace+"-"+s.ID+"-01")
		}
		if s.Attributes["http.route"] == "/v1/verify/single" || s.Name == "HTTP" {
			statuses = append(statuses, s.Attributes["http.response.status_code"])
		}
	}
	require.Equal(t, []any{422, 401, 404}, statuses)
	require.NotContains(t, into.Exported(), "annabelle")
}

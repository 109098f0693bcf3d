package api

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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

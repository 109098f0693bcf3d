package api

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"

	"probity/coordinator/singles"
	"probity/engine"
	"probity/store"
)

// takenEvent is an event as a receiver took it.
type takenEvent struct {
	header http.Header
	body   []byte
}

// receiveEvents starts a receiver of callbacks.
func receiveEvents(t *testing.T) (url string, taken chan takenEvent) {
	taken = make(chan takenEvent, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			taken <- takenEvent{r.Header, body}
		}
	}))
	t.Cleanup(receiver.Close)
	return receiver.URL, taken
}

// TestASingleIsAnsweredLater: a call that was greylisted, and one that ended at its deadline, get their verdict by a
// signed callback, as it is described. It is charged then, and once.
func TestASingleIsAnsweredLater(t *testing.T) {
	w := newTestServer(t, nil)
	url, taken := receiveEvents(t)
	schema := loadDescription(t).Paths.Value("/v1/verify/single").Post.Callbacks["single.finished"].Value.
		Value("{$request.body#/callback_url}").Post.RequestBody.Value.Content["application/json"].Schema.Value
	secret, err := w.store.NewCallbackSecret(w.user.ID, "test", time.Now())
	require.NoError(t, err)
	hook, err := standardwebhooks.NewWebhook(secret)
	require.NoError(t, err)

	settled := w.single(`{"email":"ann@shop.test","callback_url":"` + url + `"}`).json(t)
	require.Equal(t, false, settled["callback_pending"])
	require.Len(t, settled, 16)
	answer := w.single(`{"email":"grey.ann@shop.test","details":true,"callback_url":"` + url + `"}`)
	first := answer.json(t)
	require.Equal(t, []any{"UNKNOWN", "greylisted", true},
		[]any{first["status"], first["reason"], first["callback_pending"]})
	release := w.prober.holdAnswers()
	late := w.single(`{"email":"nobody@shop.test","timeout":1,"callback_url":"` + url + `"}`)
	require.Equal(t, "timeout", late.json(t)["reason"])
	require.EqualValues(t, initialCredits-1, w.credits().Balance)
	require.Empty(t, taken)
	w.prober.passed.Store(true)
	release()

	wanted := map[string]string{answer.header.Get("X-Request-Id"): "VALID", late.header.Get("X-Request-Id"): "INVALID"}
	for range 2 {
		e := <-taken
		require.NoError(t, hook.Verify(e.body, e.header))
		var event map[string]any
		require.NoError(t, json.Unmarshal(e.body, &event))
		require.NoError(t, schema.VisitJSON(event, openapi3.EnableJSONSchema2020()), "%s", e.body)
		id, result := event["request_id"].(string), event["result"].(map[string]any)
		require.Equal(t, wanted[id], result["status"], "%s", e.body)
		require.Equal(t, 1.0, result["credits_used"])
		require.Equal(t, "single_finished_"+id, e.header.Get("webhook-id"))
		require.Equal(t, id == answer.header.Get("X-Request-Id"), result["details"] != nil)
		delete(wanted, id)
	}
	require.Empty(t, wanted)
	require.EqualValues(t, initialCredits-3, w.credits().Balance)
	id := late.header.Get("X-Request-Id")
	var verdicts []any
	reader := w.newKey(w.user.ID, store.NewKey{Scopes: store.ScopeAccount})
	for _, row := range w.rowsOf(reader, "/v1/verifications", "verifications") {
		if row["request_id"] == id {
			verdicts = append(verdicts, row["status"])
		}
	}
	require.Equal(t, []any{"INVALID", "UNKNOWN"}, verdicts, "the history has both answers, the newest first")
	require.Eventually(t, func() bool {
		return len(w.rowsOf(w.key, "/v1/callbacks?status=delivered",
			"callbacks")) == 2
	}, time.Minute, 20*time.Millisecond)
	for _, row := range w.rowsOf(w.key, "/v1/callbacks", "callbacks") {
		require.Equal(t, []any{"single.finished", nil, url}, []any{row["event"], row["job_id"], row["callback_url"]})
	}
	require.Equal(t, 202, w.do(request{method: "POST", path: "/v1/callbacks/" + id + "/replay", key: w.key}).status)
	require.Contains(t, string((<-taken).body), id)

	require.Equal(t, 200, w.post("/v1/admin/erase", w.adminKey, `{"address":"nobody@shop.test"}`).status)
	require.Len(t, w.rowsOf(w.key, "/v1/callbacks", "callbacks"), 1, "an erased address leaves with its callback")
	_, err = singles.Read(w.store, id)
	require.ErrorIs(t, err, singles.ErrNotFound)
}

// TestALaterAnswerIsRefusedAtOnce: what cannot be sent is not promised.
func TestALaterAnswerIsRefusedAtOnce(t *testing.T) {
	w := newTestServer(t, nil)
	for _, url := range []string{"", "ftp://example.com/", "http://10.0.0.1/", "http://ann@example.com/"} {
		r := w.single(`{"email":"grey@shop.test","callback_url":"` + url + `"}`)
		require.Equal(t, 422, r.status, url)
		require.Contains(t, r.detail(t), "callback_url")
	}
	require.Zero(t, w.prober.requests.Load())
	url, taken := receiveEvents(t)
	for i := range singles.MaxWaiting {
		w.late.Add(singles.Call{ID: fmt.Sprint(i), Account: w.user.ID, Made: time.Now()}, &greylistedFor)
	}
	full := w.single(`{"email":"grey@shop.test","callback_url":"` + url + `"}`)
	require.Equal(t, 409, full.status)
	require.Contains(t, full.detail(t), "1000 single calls")
	require.Equal(t, "60", full.header.Get("Retry-After"))
	_, other := w.addCustomer("other@probity.test", 10)
	w.prober.passed.Store(true)
	require.Equal(t, 200, w.post("/v1/verify/single", other,
		`{"email":"grey@shop.test","callback_url":"`+url+`"}`).status)
	require.Empty(t, taken)
}

// TestAPoorAccountGetsTheFirstAnswer: a verdict that the balance does not cover is not given away.
func TestAPoorAccountGetsTheFirstAnswer(t *testing.T) {
	w := newTestServer(t, nil)
	url, taken := receiveEvents(t)
	_, poor := w.addCustomer("poor@probity.test", 1)
	require.Equal(t, 200, w.post("/v1/verify/single", poor,
		`{"email":"grey@shop.test","callback_url":"`+url+`"}`).status)
	require.Equal(t, 200, w.post("/v1/verify/single", poor, `{"email":"ann@shop.test"}`).status)
	w.prober.passed.Store(true)
	var event struct{ Result map[string]any }
	require.NoError(t, json.Unmarshal((<-taken).body, &event))
	require.Equal(t, []any{"UNKNOWN", "greylisted", 0.0},
		[]any{event.Result["status"], event.Result["reason"], event.Result["credits_used"]})
}

// TestATestKeyIsCalledBackAtOnce: an integration can be tried with the addresses of test keys.
func TestATestKeyIsCalledBackAtOnce(t *testing.T) {
	w := newTestServer(t, nil)
	url, taken := receiveEvents(t)
	first := w.post("/v1/verify/single", w.testKey, `{"email":"greylisted@example.com","callback_url":"`+url+`"}`)
	require.Equal(t, true, first.json(t)["callback_pending"])
	require.True(t, strings.HasPrefix(string((<-taken).body),
		`{"event":"single.finished","request_id":"`+first.header.Get("X-Request-Id")+
			`","result":{"email":"greylisted@example.com"`))
}

// greylistedFor is an answer whose retry is planned in an hour.
var greylistedFor = engine.Verdict{Reason: engine.ReasonGreylisted,
	Details: engine.Details{NextRetry: time.Now().Add(time.Hour)}}

package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/api/feedback"
	"probity/engine/outcome"
)

// sendCSV reports in CSV.
func (w *testServer) sendCSV(key, text string) reply {
	return w.do(request{method: "POST", path: "/v1/feedback", key: key, body: strings.NewReader(text),
		header: map[string]string{"Content-Type": "text/csv"}})
}

// match matches what was reported.
func (w *testServer) match() {
	w.t.Helper()
	m := feedback.Matcher{Book: w.book, Jobs: w.coord, History: w.history, Log: w.server.log}
	require.NoError(w.t, m.Match(w.t.Context()))
}

// accuracy is the rows of GET /v1/accuracy, by status.
func (w *testServer) accuracy(key string) (rows map[string]map[string]any, all map[string]any) {
	r := w.get("/v1/accuracy", key)
	require.Equal(w.t, 200, r.status, "%s", r.body)
	all, rows = r.json(w.t), map[string]map[string]any{}
	for _, one := range all["rows"].([]any) {
		row := one.(map[string]any)
		rows[row["status"].(string)] = row
	}
	return rows, all
}

// TestFeedbackIsMatchedWithOwnVerdicts reports outcomes of a single call, a batch and a list. Another account's
// verdicts are not matched.
func TestFeedbackIsMatchedWithOwnVerdicts(t *testing.T) {
	w := newTestServer(t, nil)
	later := time.Now().Add(time.Minute).UTC().Format(time.RFC3339)
	require.Equal(t, 200, w.single(`{"email":"ann@shop.test"}`).status)
	require.Equal(t, 200, w.post("/v1/verify/batch", w.key, `{"emails":["nobody@shop.test","bo@shop.test"]}`).status)
	w.uploadAndWait(w.key, part{"file", "l.csv", "email\nCy@shop.test\n\ndee@shop.test\n"})
	r := w.post("/v1/feedback", w.key, `{"reports":[{"email":"Ann@shop.test","outcome":"delivered","at":"`+later+`"},
		{"email":"nobody@shop.test","outcome":"bounced_soft","at":"`+later+`","bounce_text":"550 5.1.1 User unknown"}]}`)
	require.Equal(t, 202, r.status, "%s", r.body)
	require.JSONEq(t, `{"accepted":2,"repeated":0}`, string(r.body))
	text := "email,outcome,at,bounce_text\r\ncy@shop.test,complained," + later + ",\r\nbo@shop.test,bounced_hard," +
		later + ",\"550 5.1.1 no such\nuser\"\r\n" +
		"dee@shop.test,bounced_hard," + later + ",550 5.7.1 Message rejected as spam\nstranger@shop.test,delivered," +
		later + ",\n"
	require.JSONEq(t, `{"accepted":4,"repeated":0}`, string(w.sendCSV(w.key, text).body))
	require.JSONEq(t, `{"accepted":0,"repeated":4}`, string(w.sendCSV(w.key, text).body))
	_, all := w.accuracy(w.key)
	require.Equal(t, 6.0, all["waiting"])
	_, other := w.addCustomer("other@probity.test", 0)
	require.Equal(t, 202, w.sendCSV(other, text).status)
	w.match()
	rows, all := w.accuracy(w.key)
	require.Equal(t, []any{0.0, 1.0}, []any{all["waiting"], all["unmatched"]})
	valid, invalid := rows["VALID"], rows["INVALID"]
	require.Equal(t, []any{3.0, 1.0, 1.0, 1.0, 1.0},
		[]any{valid["n"], valid["delivered"], valid["complained"], valid["bounced"], valid["unclear"]})
	require.InDelta(t, 2.0/3, valid["accuracy"].(map[string]any)["value"], 1e-9)
	require.Equal(t, []any{1.0, 1.0, "mailbox_not_found"}, []any{invalid["n"], invalid["bounced"], invalid["reason"]})
	require.Equal(t, 1.0, invalid["accuracy"].(map[string]any)["value"])
	_, all = w.accuracy(other)
	require.Empty(t, all["rows"])
	require.Equal(t, 4.0, all["unmatched"])
	w.sendCSV(w.key, text)
	w.match()
	again, _ := w.accuracy(w.key)
	require.Equal(t, rows, again)
}

// TestDetailsHaveAProbability: once 200 outcomes are known, in single calls, batches and lists alike, and never of a
// test key.
func TestDetailsHaveAProbability(t *testing.T) {
	w := newTestServer(t, nil)
	detailsOf := func(b []byte) map[string]any {
		var got struct{ Details map[string]any }
		require.NoError(t, json.Unmarshal(b, &got), "%s", b)
		require.Contains(t, got.Details, "probability")
		return got.Details
	}
	const ask = `{"email":"ann@shop.test","details":true}`
	require.Nil(t, detailsOf(w.single(ask).body)["probability"])
	var list, reports strings.Builder
	list.WriteString("email\n")
	reports.WriteString("email,outcome,at\n")
	for i := range outcome.MinObservations {
		what := "delivered"
		if i%20 == 0 {
			what = "bounced_hard"
		}
		fmt.Fprintf(&list, "p%d@shop.test\n", i)
		fmt.Fprintf(&reports, "p%d@shop.test,%s,%s\n", i, what, time.Now().Add(time.Minute).UTC().Format(time.RFC3339))
	}
	w.uploadAndWait(w.key, part{"file", "l.csv", list.String()})
	require.Equal(t, 202, w.sendCSV(w.key, reports.String()).status)
	w.match()
	single := detailsOf(w.single(ask).body)
	require.InDelta(t, 0.95, single["probability"], 0.01)
	require.Equal(t, float64(outcome.MinObservations), single["probability_n"])
	var batch struct{ Results []json.RawMessage }
	require.NoError(t, json.Unmarshal(w.post("/v1/verify/batch", w.key,
		`{"emails":["ann@shop.test"],"details":true}`).body, &batch))
	require.Equal(t, single["probability"], detailsOf(batch.Results[0])["probability"])
	job := w.uploadAndWait(w.key, part{"details", "", "true"}, part{"file", "l.csv", "email\nann@shop.test\n"})
	row := detailsOf(w.get(job["results_url"].(string)+"?format=jsonl", w.key).body)
	require.Equal(t, single["probability"], row["probability"])
	require.Nil(t, detailsOf(w.post("/v1/verify/single", w.testKey,
		`{"email":"valid@example.com","details":true}`).body)["probability"])
	require.JSONEq(t, `{"accepted":1,"repeated":0}`,
		string(w.sendCSV(w.testKey, "email,outcome,at\nvalid@example.com,delivered,2026-03-01T12:00:00Z\n").body))
	_, all := w.accuracy(w.testKey)
	require.Equal(t, 0.0, all["waiting"], "it is not kept")
}

// TestFeedbackThatCannotBeRead is refused whole, and the refusal says where.
func TestFeedbackThatCannotBeRead(t *testing.T) {
	w := newTestServer(t, nil)
	const good = `{"email":"ann@shop.test","outcome":"delivered","at":"2026-03-01T12:00:00Z"}`
	for body, want := range map[string]string{
		`{"reports":[]}`: "reports must be a list of 1 to 20000 objects",
		`{"reports":[` + good + `,{"outcome":"x"}]}`: "reports[1]: email is missing",
		`{"reports":[{"emial":"a"}]}`:                "reports[0]: \"emial\" is not known: did you mean email?",
		strings.Replace(`{"reports":[`+good+`]}`, "delivered", "opened",
			1): "reports[0]: outcome must be one of delivered,",
		strings.Replace(`{"reports":[`+good+`]}`, "2026-03-01T12:00:00Z", "yesterday",
			1): "reports[0]: at must be a time",
		strings.Replace(`{"reports":[`+good+`]}`, "2026-03-01", "2126-03-01",
			1): "reports[0]: at must be a time before now",
		strings.Replace(`{"reports":[`+good+`]}`, `"email":"ann@`, `"address_sha256":"@`,
			1): "reports[0]: address_sha256 must be 64",
		strings.Replace(`{"reports":[`+good+`]}`, `"outcome"`, `"address_sha256":"","email"`,
			1): "email was sent twice",
	} {
		r := w.post("/v1/feedback", w.key, body)
		require.Equal(t, 422, r.status, body)
		require.Contains(t, r.detail(t), want, body)
	}
	const head, row = "email,outcome,at\n", "ann@shop.test,delivered,2026-03-01T12:00:00Z\n"
	for text, want := range map[string]string{
		"":                           "The body is empty",
		head:                         "1 to 20000 reports",
		"email,outcome,when\n" + row: `line 1: "when" is not a column`,
		"email,email,at\n" + row:     `line 1: "email" is not a column, or is there twice`,
		head + row + "bo@shop.test,opened,2026-03-01T12:00:00Z\n": "line 3: outcome must be one of",
		head + row + "bo@shop.test\n":                             "line 3: wrong number of fields",
		head + "\"ann":                                            "line 2: extraneous or missing",
		head + strings.Repeat(row, 20001):                         "1 to 20000 reports",
	} {
		r := w.sendCSV(w.key, text)
		require.Equal(t, 422, r.status, "%.60s", text)
		require.Contains(t, r.detail(t), want)
	}
	_, all := w.accuracy(w.key)
	require.Equal(t, 0.0, all["waiting"])
	r := w.do(request{method: "POST", path: "/v1/feedback", key: w.key, body: strings.NewReader(head),
		header: map[string]string{"Content-Type": "text/csv; charset=latin1"}})
	require.Equal(t, 415, r.status)
	require.Equal(t, 202, w.sendCSV(w.key, "\xef\xbb\xbf"+head+row).status)
	sum := strings.Repeat("0a", 32)
	require.Equal(t, 202, w.sendCSV(w.key, "address_sha256,outcome,at\n"+sum+
		",delivered,2026-03-01T12:00:00Z\n").status)
}

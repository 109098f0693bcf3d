package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// compare sends another verifier's results in CSV.
func (w *testServer) compare(key, query, text string) reply {
	return w.do(request{method: "POST", path: "/v1/compare?" + query, key: key, body: strings.NewReader(text),
		header: map[string]string{"Content-Type": "text/csv"}})
}

// TestAnotherVerifierIsCompared: disagreements are shown by receiver, with what our verdict rests on.
func TestAnotherVerifierIsCompared(t *testing.T) {
	w := newTestServer(t, nil)
	job := w.uploadAndWait(w.key, part{"details", "", "true"},
		part{"file", "l.csv", "email\nann@shop.test\n\nnobody@shop.test\nANN@shop.test\ndee@shop.test\n"})
	id := job["job_id"].(string)
	text := "Result;Address\ndeliverable;Ann@shop.test\nok;nobody@shop.test\nundeliverable;eve@shop.test\n"
	query := "job_id=" + id + "&email_column=address&status_column=result&map=Deliverable=VALID,ok=valid,undeliverable=INVALID"
	r := w.compare(w.key, query, text)
	require.Equal(t, 200, r.status, "%s", r.body)
	got := r.json(t)
	require.Equal(t, []any{2.0, 1.0, 1.0, 1.0}, []any{got["both"], got["agree"], got["only_ours"], got["only_theirs"]})
	receiver := got["receivers"].([]any)[0].(map[string]any)
	found := receiver["disagreements"].([]any)[0].(map[string]any)
	require.Equal(t, []any{"INVALID", "VALID", 1.0}, []any{found["ours"], found["theirs"], found["addresses"]})
	example := found["examples"].([]any)[0].(map[string]any)
	require.Equal(t, "nobody@shop.test", example["email"])
	require.Equal(t, "mailbox_not_found", example["reason"])
	single := w.single(`{"email":"nobody@shop.test","details":true}`).json(t)["details"].(map[string]any)
	require.Equal(t, fmt.Sprint(single["smtp_code"]), example["smtp_code"])
	require.Equal(t, single["smtp_message"], example["smtp_message"])

	listed := w.post("/v1/compare?examples=0&map=ok=VALID&job_id="+id, w.key,
		`{"results":[{"email":"nobody@shop.test","status":"ok"},{"email":"dee@shop.test","status":"VALID"}]}`)
	require.Equal(t, 200, listed.status, "%s", listed.body)
	require.Equal(t, []any{2.0, 1.0}, []any{listed.json(t)["both"], listed.json(t)["agree"]})
	require.NotContains(t, string(listed.body), "nobody@shop.test")
}

// TestComparisonsThatAreRefused: each refusal says what to do.
func TestComparisonsThatAreRefused(t *testing.T) {
	w := newTestServer(t, nil)
	id := w.uploadAndWait(w.key, part{"file", "l.csv", "email\nann@shop.test\n"})["job_id"].(string)
	ready := w.upload(w.key, nil, part{"start", "", "false"}, part{"file", "l.csv", "email\nann@shop.test\n"})
	good := "email,status\nann@shop.test,VALID\n"
	_, other := w.addCustomer("other@probity.test", 0)
	for name, c := range map[string]struct {
		key, query, text string
		status           int
		detail           string
	}{
		"no job":             {w.key, "", good, 422, "job_id is missing"},
		"an unknown job":     {w.key, "job_id=none", good, 404, "check the job_id"},
		"another's job":      {other, "job_id=" + id, good, 404, "check the job_id"},
		"a job without rows": {w.key, "job_id=" + ready.json(t)["job_id"].(string), good, 409, ""},
		"an unknown word": {w.key, "job_id=" + id, "email,status\na@b.test,ok\n", 422,
			`line 2: "ok" is not one of VALID`},
		"no column": {w.key, "job_id=" + id, "mail,status\na@b.test,VALID\n", 422,
			`there is no column "email" among`},
		"an empty file": {w.key, "job_id=" + id, "", 422, "the file is empty"},
		"a bad map":     {w.key, "job_id=" + id + "&map=ok", good, 422, "map must be pairs such as good=VALID"},
		"a bad status":  {w.key, "job_id=" + id + "&map=ok=fine", good, 422, "map must be pairs"},
		"many examples": {w.key, "job_id=" + id + "&examples=21", good, 422, "examples"},
		"a long file": {w.key, "job_id=" + id,
			"email,status\n" + strings.Repeat("a@b.test,VALID\n", 17<<20/15), 413, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := w.compare(c.key, c.query, c.text)
			require.Equal(t, c.status, r.status, "%s", r.body)
			require.Contains(t, r.detail(t), c.detail)
		})
	}
	var many strings.Builder
	many.WriteString("email,status\n")
	for i := range 500_001 {
		fmt.Fprintf(&many, "%d@b.test,VALID\n", i)
	}
	r := w.compare(w.key, "job_id="+id, many.String())
	require.Equal(t, 413, r.status)
	require.Contains(t, r.detail(t), "probity compare")
	for body, detail := range map[string]string{
		`{"results":[]}`: "results",
		`{"results":[{"email":"ann@shop.test"}]}`:            "status is missing",
		`{"results":[{"status":"VALID"}]}`:                   "email is missing",
		`{"results":[{"email":"a@b.test","status":"good"}]}`: "is not one of VALID",
	} {
		r := w.post("/v1/compare?job_id="+id, w.key, body)
		require.Equal(t, 422, r.status, body)
		require.Contains(t, r.detail(t), detail, body)
	}
}

package api

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// TestJSONLinesAreAList: it is previewed, charged, repeated and answered as a CSV file is.
func TestJSONLinesAreAList(t *testing.T) {
	w := newTestServer(t, nil)
	file := part{"file", "list.jsonl", `{"id":1,"work":"ann@shop.test"}` + "\n" +
		`{"work":"nobody@shop.test","note":"a, \"b\""}` + "\n" + `{"id":3,"work":"ANN@shop.test"}` + "\n{}\n"}
	column := part{"email_column", "", "work"}
	key := map[string]string{"Idempotency-Key": "k1"}
	r := w.upload(w.key, key, file, column, part{"start", "", "false"})
	require.Equal(t, 202, r.status, "%s", r.body)
	job := r.json(t)
	id := job["job_id"].(string)
	for name, want := range map[string]any{"status": "ready", "filename": "list.jsonl", "email_column": "work",
		"delimiter": ",", "encoding": "utf-8", "has_header": true, "total_rows": 4.0, "unique_addresses": 2.0,
		"duplicate_rows": 1.0, "blank_rows": 1.0, "credits_needed": 2.0} {
		require.Equal(t, want, job[name], name)
	}
	preview := job["preview"].(map[string]any)
	require.Equal(t, []any{"id", "work", "note"}, preview["columns"])
	require.Equal(t, []any{"", "nobody@shop.test", `a, "b"`}, preview["rows"].([]any)[1])
	again := w.upload(w.key, key, file, column, part{"start", "", "false"})
	require.Equal(t, id, again.json(t)["job_id"])
	other := file
	other.content += "{}\n"
	require.Equal(t, 422, w.upload(w.key, key, other, column, part{"start", "", "false"}).status)

	require.Equal(t, 200, w.post("/v1/verify/bulk/"+id+"/start", w.key, "").status)
	require.Equal(t, "completed", w.waitForJob(w.key, id)["status"])
	require.Equal(t, store.Credits{Balance: initialCredits - 2}, w.credits())
	results := "/v1/verify/bulk/" + id + "/results"
	lines := strings.Split(string(w.get(results, w.key).body), "\n")
	for i, want := range []string{"id,work,note,verify_status,", "1,ann@shop.test,,VALID,",
		`,nobody@shop.test,"a, ""b""",INVALID,`, "3,ANN@shop.test,,VALID,", ",,,,"} {
		require.True(t, strings.HasPrefix(lines[i], want), lines[i])
	}
	lines = strings.Split(string(w.get(results+"?format=jsonl", w.key).body), "\n")
	require.Contains(t, lines[1], `"input":{"id":"","note":"a, \"b\""}`)

	r = w.upload(w.key, nil, column, part{"file", "l.jsonl", `{"work":"ann@shop.test"}` + "\n{"})
	require.Equal(t, 422, r.status)
	require.Contains(t, r.detail(t), "line 2: this line is not JSON")
	r = w.upload(w.key, nil, part{"file", "l.jsonl", strings.Repeat(`{"email":"Ann","work":"ann@shop.test"}`+"\n", 3)})
	require.Equal(t, 422, r.status)
	require.Contains(t, r.detail(t), `the member "email" looks like an e-mail address`)
	require.Equal(t, store.Credits{Balance: initialCredits - 2}, w.credits(), "refusals cost nothing")
}

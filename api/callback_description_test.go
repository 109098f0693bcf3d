package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// A callback matches the description of bulk.finished: the record, and the rows, which are those of JSON lines.
func TestCallbackIsAsDescribed(t *testing.T) {
	op := loadDescription(t).Paths.Value("/v1/verify/bulk").Post
	require.Contains(t, op.Callbacks, "bulk.finished")
	post := op.Callbacks["bulk.finished"].Value.Value("{$request.body#/callback_url}").Post
	schema := post.RequestBody.Value.Content["application/json"].Schema.Value

	w := newTestServer(t, nil)
	job := w.uploadAndWait(w.key, part{"file", "l.csv",
		"email,note\nann@shop.test,x\n,y\nnobody@shop.test,\nno address,z\n"})
	lines := strings.TrimSpace(string(w.get(job["results_url"].(string)+"?format=jsonl", w.key).body))
	record, err := json.Marshal(job)
	require.NoError(t, err)
	event := func(results string) map[string]any {
		var e map[string]any
		require.NoError(t, json.Unmarshal([]byte(`{"event":"bulk.finished","job_id":"x","results_url":"https://x.example/","job":`+string(record)+results+`}`), &e))
		return e
	}
	whole := event(`,"results":[` + strings.ReplaceAll(lines, "\n", ",") + `]`)
	require.Len(t, whole["results"], 4)
	require.NoError(t, schema.VisitJSON(whole, openapi3.EnableJSONSchema2020()))
	require.NoError(t, schema.VisitJSON(event(""), openapi3.EnableJSONSchema2020()), "a link")
	delete(whole["results"].([]any)[0].(map[string]any), "score")
	require.Error(t, schema.VisitJSON(whole, openapi3.EnableJSONSchema2020()))
}

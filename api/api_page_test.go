package api

import (
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"
)

// backquoted is a name in a table of the page.
var backquoted = regexp.MustCompile("`([a-z_0-9]+)`")

// namesInTable are the names in the first column of the table of docs/api.md with this first heading.
func namesInTable(t *testing.T, page, heading string) (names []string) {
	t.Helper()
	_, table, found := strings.Cut(page, "\n| "+heading+" |")
	require.True(t, found, "no table with the heading %s", heading)
	table, _, _ = strings.Cut(table, "\n\n")
	for _, line := range strings.Split(table, "\n")[2:] {
		for _, m := range backquoted.FindAllStringSubmatch(strings.Split(line, "|")[1], -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// TestAPIPageNamesWhatIsDescribed holds the tables of docs/api.md and its example of a callback against the
// description.
func TestAPIPageNamesWhatIsDescribed(t *testing.T) {
	b, err := os.ReadFile("../docs/api.md")
	require.NoError(t, err)
	page, schemas := string(b), loadDescription(t).Components.Schemas
	_, details, _ := strings.Cut(page, "### Details")
	_, record, _ := strings.Cut(page, "### The job record")
	for _, c := range []struct{ text, heading, schema string }{
		{details, "member", "Details"}, {details, "member of control", "Control"}, {record, "member", "Job"},
		{page, "member of a receipt", "SignedReceipt"},
	} {
		require.ElementsMatch(t, slices.Collect(maps.Keys(schemas[c.schema].Value.Properties)),
			namesInTable(t, c.text, c.heading), c.schema)
	}
	var states []string
	for _, name := range schemas["JobStatus"].Value.Enum {
		states = append(states, name.(string))
	}
	require.ElementsMatch(t, states, namesInTable(t, record, "state"))

	w := newTestServer(t, nil)
	job := w.uploadAndWait(w.key, part{"details", "", "true"}, part{"file", "l.csv", "email\nann@shop.test\n"})
	header, _, _ := strings.Cut(string(w.get(job["results_url"].(string), w.key).body), "\n")
	columns := append(namesInTable(t, page, "column"), namesInTable(t, page, "column with details")...)
	require.Equal(t, "email,"+strings.Join(columns, ","), strings.TrimSpace(header))

	_, callbacks, _ := strings.Cut(page, "## Callbacks")
	_, example, _ := strings.Cut(callbacks, "```json\n")
	example, _, _ = strings.Cut(example, "```")
	jobText, err := json.Marshal(job)
	require.NoError(t, err)
	var event any
	require.NoError(t, json.Unmarshal([]byte(strings.Replace(example, "JOB", string(jobText), 1)), &event))
	callback := loadDescription(t).Paths.Value("/v1/verify/bulk").Post.Callbacks["bulk.finished"]
	post := callback.Value.Value("{$request.body#/callback_url}").Post
	schema := post.RequestBody.Value.Content["application/json"].Schema.Value
	require.NoError(t, schema.VisitJSON(event, openapi3.EnableJSONSchema2020()))
}

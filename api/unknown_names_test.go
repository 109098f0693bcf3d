package api

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/store"
)

// An unknown name is refused before any work is done.
func TestUnknownNamesAreRefusedFirst(t *testing.T) {
	w := newTestServer(t, nil)
	r := w.single(`{"email":"ann@shop.test","check_smpt":false}`)
	require.Equal(t, 422, r.status)
	require.Contains(t, r.detail(t), `"check_smpt" is not known: did you mean check_smtp?`)
	require.Equal(t, 422, w.single(`{"email":"ann@shop.test","campaign":"spring"}`).status)
	require.Equal(t, 422, w.post("/v1/verify/public", "", `{"email":"ann@shop.test","details":true}`).status)
	file := part{"file", "l.csv", "email\na@shop.test\n"}
	for name, meant := range map[string]string{"callbackurl": "callback_url", "callback": "callback_url",
		"webhook_url": "callback_url", "check_smtp": "", "start": "", "": "", "campaign": ""} {
		unknown := part{name, "", "false"}
		for _, parts := range [][]part{{file, unknown}, {unknown, file}} {
			r = w.upload(w.key, nil, parts...)
			require.Equal(t, 422, r.status, name)
			require.Contains(t, r.detail(t), " is not known: did you mean "+meant, name)
		}
	}
	require.Empty(t, w.get("/v1/verify/bulk", w.key).json(t)["jobs"])
	require.EqualValues(t, initialCredits, w.credits().Balance)
	r = w.upload(w.key, nil, file)
	require.Equal(t, 202, r.status)
	job := "/v1/verify/bulk/" + r.json(t)["job_id"].(string)
	w.requireQueryTypos(job)
}

// requireQueryTypos fetches a job with unknown names in the query.
func (w *testServer) requireQueryTypos(job string) {
	for url, detail := range map[string]string{
		job + "/results?stats=VALID&partial=true":               "did you mean status?",
		job + "/results?partial=true&Status=VALID":              "did you mean status?",
		job + "/results?partial=true&formats=jsonl":             "did you mean format?",
		job + "/results?status=VALID&status=RISKY&partial=true": "status is given twice",
		job + "/results?statuses=VALID&partial=true":            "did you mean status?",
		job + "/results?partial=true&utm_source=mail":           "is not known",
		job + "?cache=0":                    `"cache" is not known`,
		job + "?wiat=1":                     "did you mean wait?",
		"/v1/verify/bulk?limits=1":          "did you mean limit?",
		"/v1/verify/bulk?limit=1&curser=AA": "did you mean cursor?",
	} {
		r := w.get(url, w.key)
		require.Equal(w.t, 422, r.status, url)
		require.Contains(w.t, r.detail(w.t), detail, url)
	}
}

// TestQueryOfEachRoute: the parameters of each route are those that the description names, and another is refused;
// pages ignore theirs.
func TestQueryOfEachRoute(t *testing.T) {
	w := newTestServer(t, nil)
	admin := w.signIn("boss@probity.test", store.Admin)
	described := map[string][]string{}
	for path, item := range loadDescription(t).Paths.Map() {
		for method, op := range item.Operations() {
			for _, p := range append(slices.Clone(item.Parameters), op.Parameters...) {
				if p.Value.In == "query" {
					described[method+" "+path] = append(described[method+" "+path], p.Value.Name)
				}
			}
		}
	}
	for _, r := range w.server.routeTable {
		name := r.Method + " " + r.Path
		require.ElementsMatch(t, described[name], r.Query, name)
		if r.AnyQuery || r.Method == "OPTIONS" {
			continue
		}
		path := regexp.MustCompile(`\{[a-z_]+\}`).ReplaceAllString(r.Path, "none") + "?unheard_of=1"
		got := admin.do(r.Method, path, "")
		require.Equal(t, 422, got.status, name)
		require.Contains(t, got.detail(t), `"unheard_of" is not known`, name)
	}
	for _, page := range []string{"/healthz", "/docs", "/widget.js", "/app/lists"} {
		require.Equal(t, 200, w.get(page+"?v=3", "").status, page)
	}
}

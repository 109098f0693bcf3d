package api

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A typo in a name is refused before any work is done.
func TestMisspeltFieldsAreRefusedFirst(t *testing.T) {
	w := newTestServer(t, nil)
	r := w.single(`{"email":"ann@shop.test","check_smpt":false}`)
	require.Equal(t, 422, r.status)
	require.Contains(t, r.detail(t), `"check_smpt" is not known: did you mean check_smtp?`)
	require.Equal(t, 200, w.single(`{"email":"ann@shop.test","campaign":"spring"}`).status)
	file := part{"file", "l.csv", "email\na@shop.test\n"}
	for _, parts := range [][]part{{file, {"callbackurl", "", "https://example.com/"}}, {{"callbackurl", "", "https://example.com/"}, file}} {
		r = w.upload(w.key, nil, parts...)
		require.Equal(t, 422, r.status)
		require.Contains(t, r.detail(t), "callback_url")
	}
	require.Empty(t, w.get("/v1/verify/bulk", w.key).json(t)["jobs"])
	require.EqualValues(t, initialCredits-1, w.credits().Balance)
	r = w.upload(w.key, nil, file, part{"campaign", "", "spring"})
	require.Equal(t, 202, r.status)
	job := "/v1/verify/bulk/" + r.json(t)["job_id"].(string)
	w.requireQueryTypos(job)
}

// requireQueryTypos fetches a job with typos in the query; other unknown names are ignored.
func (w *testServer) requireQueryTypos(job string) {
	for url, detail := range map[string]string{
		job + "/results?stats=VALID&partial=true":               "did you mean status?",
		job + "/results?partial=true&Status=VALID":              "did you mean status?",
		job + "/results?partial=true&formats=jsonl":             "did you mean format?",
		job + "/results?status=VALID&status=RISKY&partial=true": "status is given twice",
		job + "?wiat=1":                     "did you mean wait?",
		"/v1/verify/bulk?limits=1":          "did you mean limit?",
		"/v1/verify/bulk?limit=1&curser=AA": "did you mean cursor?",
	} {
		r := w.get(url, w.key)
		require.Equal(w.t, 422, r.status, url)
		require.Contains(w.t, r.detail(w.t), detail, url)
	}
	require.Equal(w.t, 200, w.get(job+"/results?partial=true&utm_source=mail", w.key).status)
	require.Equal(w.t, 200, w.get(job+"?cache=0", w.key).status)
}

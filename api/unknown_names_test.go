package api

import (
	"regexp"
	"strings"
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
		"webhook_url": "callback_url", "check_smtp": "", "started": "start", "": "", "campaign": ""} {
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

// TestNothingUnknownIsIgnored walks the description: each operation refuses a query parameter, a member and a part that
// it does not have, and names what was sent. The query of the dashboard's pages is their own.
func TestNothingUnknownIsIgnored(t *testing.T) {
	w := newTestServer(t, nil)
	admin := w.signIn("boss@probity.test", store.Admin)
	w.liftLimits(w.user)
	form, formType := encodeForm(part{"unheard_of", "", "x"})
	for path, item := range loadDescription(t).Paths.Map() {
		sent := regexp.MustCompile(`\{[a-z_]+\}`).ReplaceAllString(path, "none")
		for method, op := range item.Operations() {
			refused := func(url, contentType, body, named string) {
				t.Helper()
				header := map[string]string{"Cookie": admin.cookie, "X-CSRF-Token": admin.csrf}
				if contentType != "" {
					header["Content-Type"] = contentType
				}
				r := w.do(request{method: method, path: url, header: header, body: strings.NewReader(body)})
				require.Equal(t, 422, r.status, "%s %s %s: %s", method, url, body, r.body)
				require.Contains(t, r.detail(t), named, "%s %s", method, url)
			}
			if strings.HasPrefix(path, "/app") {
				require.Equal(t, 200, w.get(sent+"?status=failed", "").status, "a page reads its query in the browser")
			} else {
				refused(sent+"?unheard_of=1", "", "", `"unheard_of" is not known`)
			}
			switch {
			case op.RequestBody == nil:
				refused(sent, "application/json", `{"unheard_of":1}`, `"unheard_of" is not known`)
				refused(sent, formType, form, "takes no body")
			case op.RequestBody.Value.Content["application/json"] != nil:
				refused(sent, "application/json", `{"unheard_of":1}`, `"unheard_of" is not known: did you mean `)
			case op.RequestBody.Value.Content["multipart/form-data"] != nil:
				refused(sent, formType, form, `"unheard_of" is not known: did you mean `)
			}
		}
	}
}

// An empty object asks for nothing: clients that send one with every POST need no change.
func TestEmptyObjectIsNoBody(t *testing.T) {
	w := newTestServer(t, nil)
	job := w.uploadAndWait(w.key, part{"file", "l.csv", "email\na@shop.test\n"})["job_id"].(string)
	require.Equal(t, 409, w.post("/v1/verify/bulk/"+job+"/pause", w.key, "{}").status,
		"the job has ended, and the body was read")
	require.Equal(t, 422, w.post("/v1/verify/bulk/"+job+"/pause", w.key, "[]").status)
}

// Members of objects in the body are checked as those of the body are, and none may be sent twice.
func TestUnknownMembersOfObjects(t *testing.T) {
	w := newTestServer(t, nil)
	r := w.post("/v1/admin/users", w.adminKey, `{"email":"bo@shop.test","limits":{"single_per_min":600}}`)
	require.Equal(t, 422, r.status)
	require.Contains(t, r.detail(t), `"single_per_min" is not known: did you mean single_per_minute?`)
	r = w.single(`{"email":"ann@shop.test","check_smtp":false,"check_smtp":true}`)
	require.Equal(t, 422, r.status)
	require.Contains(t, r.detail(t), "check_smtp was sent twice")
}

// What is empty names nothing, and is not taken for what is absent.
func TestEmptyValuesAreRefused(t *testing.T) {
	w := newTestServer(t, nil)
	for _, url := range []string{"  ", ""} {
		r := w.upload(w.key, nil, part{"callback_url", "", url}, part{"file", "l.csv", "email\na@shop.test\n"})
		require.Equal(t, 422, r.status)
		require.Contains(t, r.detail(t), "callback_url is empty")
	}
	require.Equal(t, 422, w.get("/v1/verify/bulk?status=", w.key).status)
	require.Equal(t, 404, w.get("/v1/admin/keys?user=", w.adminKey).status)
}

package api

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"probity/store"
)

// hiddenCharacters break a line, move or hide what stands around them, or cannot be seen.
var hiddenCharacters = []rune{0, '\x1b', '\u200b', '\u2028', '\u202e'}

// textField is what the test does with a text field of a request.
type textField struct {
	body   string // of the request, or the part's content; TEXT is replaced by a text in which a character is hidden
	status int    // 0: 422, whose detail names field and character
	why    string // of another status, or of another detail
}

const (
	aSecret  = "a secret is compared by its hash; only its answer, to who sent it, can show it"
	aVerdict = "a bad address is a verdict, which has it as it was sent"
	aLookup  = "it is looked up, and not kept"
	anEmail  = "the grammar of addresses refuses it"
	aNetwork = "it is not a network, and quoted"
)

// textFields has each text field of a request's body: nothing that people give and others read may keep a hidden
// character.
var textFields = map[string]textField{
	"POST /v1/verify/single email":        {body: `{"email":TEXT}`, status: 200, why: aVerdict},
	"POST /v1/verify/batch emails":        {body: `{"emails":[TEXT]}`, status: 200, why: aVerdict},
	"POST /v1/verify/public email":        {body: `{"email":TEXT}`, status: 200, why: aVerdict},
	"POST /verify/public email":           {body: `{"email":TEXT}`, status: 200, why: aVerdict},
	"POST /v1/verify/bulk callback_url":   {body: "http://127.0.0.1:9/TEXT"},
	"POST /v1/verify/single callback_url": {body: `{"email":"ann@shop.test","callback_url":TEXT}`},
	"POST /v1/verify/bulk source_url":     {body: "https://127.0.0.1:9/TEXT"},
	"POST /v1/verify/bulk results_to":     {body: "s3://results/out/TEXT"},
	"POST /v1/verify/bulk upload_id":      {body: "TEXT", why: aLookup},
	"POST /v1/verify/bulk name":           {body: "TEXT"},
	"POST /v1/verify/bulk email_column": {body: "TEXT",
		why: "it must be a column of the file, and is quoted"},
	"POST /v1/receipts request_id": {body: `{"request_id":TEXT}`, status: 404, why: aLookup},
	"POST /v1/feedback reports":    {body: `{"reports":[{"email":TEXT,"outcome":"delivered","at":"2026-03-01T12:00:00Z"}]}`, status: 202, why: "only its hash is kept"},
	"POST /v1/compare results": {body: `{"results":[{"email":TEXT,"status":"VALID"}]}`, status: 422,
		why: "the address is compared, and not kept"},
	"POST /v1/receipts job_id": {body: `{"job_id":TEXT,"row":1}`, status: 404, why: aLookup},
	"POST /v1/verify/bulk/{job_id}/recheck reason": {body: `{"reason":[TEXT]}`,
		why: "it must be a known reason, and is quoted"},
	"POST /v1/admin/users email": {body: `{"email":TEXT}`},
	"POST /v1/admin/users password": {body: `{"email":"new-NUMBER@probity.test","password":TEXT}`,
		status: 201, why: aSecret},
	"POST /v1/admin/keys user": {body: `{"name":"k","user":TEXT}`, status: 404, why: aLookup},
	"POST /v1/admin/keys name": {body: `{"user":"ann@probity.test","name":TEXT}`},
	"POST /v1/admin/keys networks": {body: `{"user":"ann@probity.test","name":"k","networks":[TEXT]}`,
		why: aNetwork},
	"POST /v1/admin/credits user":      {body: `{"amount":1,"user":TEXT}`, status: 404, why: aLookup},
	"POST /v1/admin/credits note":      {body: `{"user":"ann@probity.test","amount":1,"note":TEXT}`},
	"POST /v1/admin/credits grant_id":  {body: `{"user":"ann@probity.test","amount":1,"grant_id":TEXT}`},
	"POST /v1/admin/suppressions name": {body: `{"name":TEXT}`},
	"POST /v1/admin/suppressions note": {body: `{"name":"shop.test","note":TEXT}`},
	"POST /v1/admin/erase address":     {body: `{"address":TEXT}`, why: anEmail},
	"POST /v1/dash/login email": {body: `{"email":TEXT,"password":"wrong password"}`, status: 401,
		why: aLookup},
	"POST /v1/dash/login password": {body: `{"email":"ann@probity.test","password":TEXT}`, status: 401,
		why: aSecret},
	"POST /v1/dash/login code": {body: `{"email":"none@probity.test","password":"wrong password","code":TEXT}`,
		status: 401, why: aSecret},
	"POST /v1/dash/reset token": {body: `{"token":TEXT,"password":"new password"}`, status: 410,
		why: aSecret},
	"POST /v1/dash/reset password": {body: `{"token":"none","password":TEXT}`, status: 410,
		why: aSecret},
	"PUT /v1/dash/password current": {body: `{"current":TEXT,"password":"new password"}`, why: aSecret},
	"PUT /v1/dash/password password": {body: `{"current":"wrong password","password":TEXT}`,
		why: aSecret},
	"POST /v1/dash/totp password":                {body: `{"password":TEXT}`, why: aSecret},
	"POST /v1/dash/totp/on code":                 {body: `{"code":TEXT}`, status: 409, why: aSecret},
	"POST /v1/dash/totp/off password":            {body: `{"password":TEXT,"code":"1"}`, why: aSecret},
	"POST /v1/dash/totp/off code":                {body: `{"password":"wrong password","code":TEXT}`, why: aSecret},
	"POST /v1/dash/keys name":                    {body: `{"name":TEXT}`},
	"POST /v1/dash/keys networks":                {body: `{"name":"k","networks":[TEXT]}`, why: aNetwork},
	"POST /v1/dash/callbacks/test url":           {body: `{"url":TEXT}`},
	"POST /v1/dash/admin/traces email":           {body: `{"email":TEXT}`, status: 404, why: aLookup},
	"POST /v1/dash/admin/traces provider":        {body: `{"provider":TEXT}`, status: 404, why: aLookup},
	"POST /v1/dash/admin/quarantines/end node":   {body: `{"node":TEXT,"egress":"e"}`, status: 404, why: aLookup},
	"POST /v1/dash/admin/quarantines/end egress": {body: `{"node":"n","egress":TEXT}`, status: 404, why: aLookup},
	"POST /v1/dash/admin/quarantines/end route": {body: `{"node":"n","egress":"e","route":TEXT}`, status: 404,
		why: aLookup},
}

// TestNoFieldKeepsHiddenCharacters sends such characters in each text field that the description has, and requires a
// row here of each field that is new there.
func TestNoFieldKeepsHiddenCharacters(t *testing.T) {
	w := newTestServer(t, func(c *Config) { c.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	admin := w.signIn("boss@probity.test", store.Admin)
	described := describedTexts(t)
	for _, name := range described {
		require.Contains(t, textFields, name, "say what becomes of hidden characters in it")
	}
	require.Len(t, textFields, len(described), "a row without a field")
	for _, name := range described {
		f, words := textFields[name], strings.Fields(name)
		for _, c := range hiddenCharacters {
			w.clockOffset.Add(int64(20 * time.Minute)) // no lock-out is longer
			r := w.sendText(admin, textOf{words[0], words[1], words[2]}, f.body, c)
			require.Equal(t, cmp.Or(f.status, 422), r.status, "%s U+%04X: %s", name, c, r.body)
			if r.status >= 400 {
				require.NotContains(t, string(r.body), string(c), "%s U+%04X", name, c)
			}
			if f.why == "" {
				require.Regexp(t, fmt.Sprintf(`%s(: it)? has U\+%04X as its character \d+, .*: remove it\.$`, words[2], c),
					r.detail(t))
			}
		}
	}
}

// textOf is a field of a request's body.
type textOf struct{ method, path, field string }

// sendText sends a request with a character in the text of one field.
func (w *testServer) sendText(by *browser, to textOf, body string, c rune) reply {
	text := "ann@sh" + string(c) + "op.test"
	if to.field == "url" {
		text = "http://127.0.0.1:9/" + text
	}
	if to.path == "/v1/verify/bulk" {
		return w.upload(w.key, nil, part{to.field, "", strings.ReplaceAll(body, "TEXT", text)},
			part{"file", "l.csv", "email\nann@shop.test\n"})
	}
	quoted, err := json.Marshal(text)
	require.NoError(w.t, err)
	body = strings.NewReplacer("TEXT", string(quoted), "NUMBER", fmt.Sprint(c)).Replace(body)
	if strings.HasPrefix(to.path, "/v1/dash") || strings.HasPrefix(to.path, "/v1/admin") {
		return by.do(to.method, to.path, body)
	}
	return w.do(request{method: to.method, path: to.path, key: w.key, body: strings.NewReader(body),
		header: map[string]string{"Content-Type": "application/json",
			"X-Forwarded-For": fmt.Sprintf("192.0.2.%d", c%256)}})
}

// describedTexts lists the text fields of the requests' bodies: "POST /v1/path field". Enumerations, times and files
// are no texts.
func describedTexts(t *testing.T) (list []string) {
	for path, item := range loadDescription(t).Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody == nil {
				continue
			}
			// one that is text as a whole has the fields of the other
			for _, content := range op.RequestBody.Value.Content {
				for name, field := range content.Schema.Value.Properties {
					if hasText(field.Value) {
						list = append(list, method+" "+path+" "+name)
					}
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

// hasText reports whether a value, or what it consists of, can be any text.
func hasText(s *openapi3.Schema) bool {
	parts := slices.Concat(s.AllOf, s.AnyOf, s.OneOf, openapi3.SchemaRefs{s.Items})
	for _, field := range s.Properties {
		parts = append(parts, field)
	}
	if slices.ContainsFunc(parts, func(part *openapi3.SchemaRef) bool { return part != nil && hasText(part.Value) }) {
		return true
	}
	return s.Type.Includes("string") && s.Enum == nil && s.Format != "binary" && s.Format != "date-time"
}

// TestNamesOfFilesAndBrowsersAreCleaned: who sends a file or signs in has not chosen these names, so that they are made
// fit to be shown, and not refused.
func TestNamesOfFilesAndBrowsersAreCleaned(t *testing.T) {
	w := newTestServer(t, nil)
	r := w.upload(w.key, nil, part{"file", "fsc.\u202etsil\u200b.csv", "email\nann@shop.test\n"})
	require.Equal(t, 202, r.status, "%s", r.body)
	require.Equal(t, "fsc.tsil.csv", r.json(t)["filename"])
	w.signIn("cleo@probity.test", store.Customer)
	in := w.do(request{method: "POST", path: "/v1/dash/login",
		body:   strings.NewReader(`{"email":"cleo@probity.test","password":"` + password + `"}`),
		header: map[string]string{"Content-Type": "application/json", "User-Agent": "Fire\u202e\u200bfox"}})
	cookie, _, _ := strings.Cut(in.header.Get("Set-Cookie"), ";")
	b := &browser{w, cookie, in.json(t)["csrf_token"].(string)}
	agents := []any{}
	for _, one := range b.get("/v1/dash/sessions").json(t)["sessions"].([]any) {
		agents = append(agents, one.(map[string]any)["agent"])
	}
	require.Contains(t, agents, "Firefox")
}

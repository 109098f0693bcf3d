package facade

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"probity/api/reasons"
	"probity/engine"
)

// said are the words of each vendor for a verdict, in the order of the columns of docs/facades.md.
var said = map[string]string{
	"":                     "valid/ valid deliverable/accepted_email safe",
	"disposable":           "do_not_mail/disposable disposable risky/low_quality risky",
	"accept_all_provider":  "catch-all/ catchall risky/low_deliverability risky",
	"catch_all":            "catch-all/ catchall risky/low_deliverability risky",
	"accepted_unconfirmed": "unknown/ unknown risky/low_deliverability risky",
	"mailbox_full":         "unknown/mailbox_quota_exceeded unknown risky/low_deliverability risky",
	"role_account":         "do_not_mail/role_based unknown risky/low_quality risky",
	"possible_typo":        "unknown/possible_typo unknown risky/low_quality risky",
	"low_quality":          "unknown/ unknown risky/low_quality risky",
	"invalid_syntax":       "invalid/failed_syntax_check invalid undeliverable/invalid_email invalid",
	"provider_syntax":      "invalid/failed_syntax_check invalid undeliverable/invalid_email invalid",
	"domain_not_found":     "invalid/no_dns_entries invalid undeliverable/invalid_domain invalid",
	"no_mail_server":       "invalid/no_dns_entries invalid undeliverable/invalid_domain invalid",
	"null_mx":              "invalid/does_not_accept_mail invalid undeliverable/invalid_domain invalid",
	"unroutable_mx":        "invalid/unroutable_ip_address invalid undeliverable/invalid_domain invalid",
	"mailbox_not_found":    "invalid/mailbox_not_found invalid undeliverable/rejected_email invalid",
	"mailbox_disabled":     "invalid/ invalid undeliverable/rejected_email invalid",
	"greylisted":           "unknown/greylisted unknown unknown/unavailable_smtp unknown",
	"rate_limited":         "unknown/mail_server_temporary_error unknown unknown/unavailable_smtp unknown",
	"temporary_error":      "unknown/mail_server_temporary_error unknown unknown/unavailable_smtp unknown",
	"timeout":              "unknown/timeout_exceeded unknown unknown/timeout unknown",
	"blocked":              "unknown/antispam_system unknown unknown/unexpected_error unknown",
	"connection_failed":    "unknown/failed_smtp_connection unknown unknown/no_connect unknown",
	"protocol_error":       "unknown/ unknown unknown/invalid_smtp unknown",
}

// TestEachReasonHasItsWords compares the words of each reason with the table. A reason that is not in it is UNKNOWN,
// and every vendor's word for that is unknown.
func TestEachReasonHasItsWords(t *testing.T) {
	seen := 0
	for _, reason := range reasons.All() {
		a := answer{sent: "ann@shop.example", Status: reason.Bucket().String()}
		if reason != engine.ReasonNone {
			a.Reason = reason.String()
		}
		want, listed := said[a.Reason]
		if listed {
			seen++
		} else {
			require.Equal(t, engine.Unknown, reason.Bucket(), reason)
			want = "unknown/ unknown unknown/unexpected_error unknown"
		}
		require.Equal(t, want, wordsFor(t, &a), reason)
	}
	require.Len(t, said, seen)
}

// TestReasonsThatAreNotKnown requires that a reason of a later version gets words by its status only.
func TestReasonsThatAreNotKnown(t *testing.T) {
	for status, want := range map[string]string{
		"VALID":   "valid/ valid deliverable/accepted_email safe",
		"INVALID": "invalid/ invalid undeliverable/rejected_email invalid",
		"RISKY":   "unknown/ unknown risky/low_deliverability risky",
		"UNKNOWN": "unknown/ unknown unknown/unexpected_error unknown",
		"LATER":   "unknown/ unknown unknown/unexpected_error unknown",
	} {
		require.Equal(t, want, wordsFor(t, &answer{Status: status, Reason: "later"}), status)
	}
}

func wordsFor(t *testing.T, a *answer) string {
	t.Helper()
	var all []string
	for _, v := range vendors() {
		body, err := json.Marshal(v.verdict(a))
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(body, &m))
		text := func(name string) string { return m[name].(string) }
		all = append(all, map[string]func() string{
			"zerobounce":  func() string { return text("status") + "/" + text("sub_status") },
			"neverbounce": func() string { return text("result") },
			"kickbox":     func() string { return text("result") + "/" + text("reason") },
			"reacher":     func() string { return text("is_reachable") },
		}[v.name]())
	}
	return strings.Join(all, " ")
}

// TestRequestsBecomeThoseOfTheAPI sends requests as the vendors' clients do, and looks at what the API gets.
func TestRequestsBecomeThoseOfTheAPI(t *testing.T) {
	f, err := New(Names())
	require.NoError(t, err)
	const single = `POST /v1/verify/single Bearer K {"details":true,"email":"a+b@x.example"`
	for _, c := range []struct{ method, path, header, kind, body, want string }{
		{"GET", "zerobounce/v2/validate?api_key=K&email=a%2Bb%40x.example&ip_address=", "", "", "", single + "}"},
		{"GET", "zerobounce/v2/validate?api_key=K&email=a%2Bb%40x.example&timeout=60", "", "", "",
			single + `,"timeout":30}`},
		{"GET", "zerobounce/v2/getcredits?api_key=K", "", "", "", "GET /v1/credits Bearer K "},
		{"POST", "neverbounce/v4.2/single/check", "", "application/json",
			`{"key":"K","email":"a+b@x.example","timeout":7,"address_info":true,"request_meta_data":{"a":1}}`,
			single + `,"timeout":7}`},
		{"POST", "neverbounce/v4/single/check", "", "application/x-www-form-urlencoded",
			"key=K&email=a%2Bb%40x.example", single + "}"},
		{"GET", "kickbox/v2/verify?email=a%2Bb%40x.example&timeout=6000", "token K", "", "", single + `,"timeout":6}`},
		{"GET", "kickbox/v2/verify?email=a%2Bb%40x.example&apikey=K&timeout=1", "", "", "", single + `,"timeout":1}`},
		{"GET", "kickbox/v2/balance", "token K", "", "", "GET /v1/credits Bearer K "},
		{"POST", "reacher/v0/check_email", "K", "application/json",
			`{"to_email":"a+b@x.example","from_email":"c@y.example"}`, single + "}"},
		{"POST", "reacher/v1/check_email", "", "application/json", `{"to_email":null}`,
			`POST /v1/verify/single  {"details":true}`},
		{"POST", "reacher/v0/check_email", "K", "application/json", `{"to_email":`,
			"POST /v1/verify/single Bearer K {"},
		{"POST", "neverbounce/v4/account/info", "", "application/json", `{"key":"K"`, "POST /v1/verify/single  {"},
		{"POST", "reacher/v0/check_email", "K", "application/json", `{"to_email":12.50}`,
			`POST /v1/verify/single Bearer K {"details":true,"email":12.50}`},
		{"POST", "kickbox/v2/verify?email=a@x.example", "K", "application/json", `{"email":["a@x.example"]}`,
			`POST /v1/verify/single Bearer K {"details":true,"email":["a@x.example"]}`},
		{"POST", "neverbounce/v4/single/check", "K", "application/json", `{"email":"\ud800@x.example","timeout":"9"}`,
			`POST /v1/verify/single Bearer K {"details":true,"email":"\ud800@x.example","timeout":9}`},
		{"PUT", "reacher/v0/check_email", "K", "", "", ""},
		{"GET", "reacher/v0/other", "K", "", "", ""},
	} {
		var ctx fasthttp.RequestCtx
		ctx.Request.Header.SetMethod(c.method)
		ctx.Request.SetRequestURI(Prefix + c.path)
		ctx.Request.Header.Set("Cookie", "session=1")
		ctx.Request.Header.SetContentType(c.kind)
		if c.header != "" {
			ctx.Request.Header.Set("Authorization", c.header)
		}
		if c.body != "" {
			ctx.Request.SetBodyStream(strings.NewReader(c.body), len(c.body))
		}
		require.Equal(t, c.want != "", f.Owns(&ctx), c.path)
		if c.want == "" {
			continue
		}
		f.Handle(&ctx, func(ctx *fasthttp.RequestCtx) {
			r := &ctx.Request
			got := strings.Join([]string{string(r.Header.Method()), string(r.URI().Path()),
				string(r.Header.Peek("Authorization")), string(r.Body())}, " ")
			require.Equal(t, c.want, got, c.path)
			require.Empty(t, r.Header.Peek("Cookie"))
			ctx.Response.SetStatusCode(401)
			ctx.Response.SetBodyString(`{"detail":"no"}`)
		})
	}
}

// TestRefusalsHaveTheVendorsForm requires the statuses and members by which the vendors' clients know a refusal.
func TestRefusalsHaveTheVendorsForm(t *testing.T) {
	for _, v := range vendors() {
		status, body := v.refusal(401, "no key")
		text, err := json.Marshal(body)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"zerobounce": `{"error":"no key"}`,
			"neverbounce": `{"execution_time":0,"message":"no key","status":"auth_failure"}`,
			"kickbox":     `{"message":"no key","success":false}`, "reacher": `{"error":"no key"}`}[v.name],
			string(text))
		require.Equal(t, map[string]int{"zerobounce": 403, "neverbounce": 200, "kickbox": 401, "reacher": 401}[v.name],
			status)
	}
}

// TestPartsOfAnAddress requires the local part and the domain as the vendors give them: without the dots folded.
func TestPartsOfAnAddress(t *testing.T) {
	for sent, want := range map[string][]any{" Ann.Lee+news@Gmail.com": {"ann.lee+news", "gmail.com"},
		"ann@bücher.example": {"ann", "xn--bcher-kva.example"}, "ann": {nil, nil}, "": {nil, nil}} {
		normalized := "annlee@gmail.com"
		a := answer{sent: sent}
		a.Details.Normalized = &normalized
		body, err := json.Marshal(kickboxVerdict(&a))
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(body, &m))
		require.Equal(t, want, []any{m["user"], m["domain"]}, sent)
	}
}

func TestUnknownNames(t *testing.T) {
	_, err := New([]string{"kickbox", "kickboxx"})
	require.ErrorContains(t, err, `"kickboxx": known are zerobounce, neverbounce, kickbox, reacher`)
	f, err := New(nil)
	require.NoError(t, err)
	require.Empty(t, f.operations)
}

// FuzzParameters requires that what is read becomes a request in JSON with the address as it was sent.
func FuzzParameters(f *testing.F) {
	f.Add("api_key=K&email=a%40b.example&timeout=1e400", "", "")
	f.Add("", "application/json", `{"email":"a@b.example","timeout":-1,"key":["K"],"x":null}`)
	f.Add("email=a", "application/json", `{"email":1e9,"to_email":[true],"timeout":"5","key":7}`)
	f.Add("email=%FF", "application/x-www-form-urlencoded", "email=a%40b.example&timeout=NaN")
	f.Fuzz(func(t *testing.T, query, kind, body string) {
		p, err := parse(query, kind, []byte(body))
		if err != nil {
			return
		}
		for _, v := range vendors() {
			var sent struct {
				Email   json.RawMessage
				Details bool
				Timeout int64
			}
			require.NoError(t, json.Unmarshal([]byte(v.body(p)), &sent))
			email, given := p[v.emailName]
			require.Equal(t, given, sent.Email != nil)
			var text string
			if given && json.Unmarshal(sent.Email, &text) == nil {
				require.Equal(t, email.text, text)
			} else if given {
				require.NotNil(t, email.raw)
			}
			require.True(t, sent.Details && sent.Timeout >= 0 && sent.Timeout <= maxTimeout)
			require.NotContains(t, v.key(p, [][]byte{[]byte(query)}), " \t")
		}
	})
}

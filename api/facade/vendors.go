package facade

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// vendor is how a vendor's requests and answers look.
type vendor struct {
	name         string
	verifyPaths  []string
	creditsPaths []string // none: its clients request no balance
	keyName      string   // the parameter that may have the key; empty: only the header may
	emailName    string
	timeoutUnit  time.Duration // of the parameter timeout; 0: there is none
	verdict      func(*answer) any
	balance      func(credits) any
	refusal      func(status int, detail string) (int, any)
}

func vendors() []*vendor {
	return []*vendor{
		{name: "zerobounce", verifyPaths: []string{"/v2/validate"}, creditsPaths: []string{"/v2/getcredits"},
			keyName: "api_key", emailName: "email", timeoutUnit: time.Second,
			verdict: zeroBounceVerdict, balance: zeroBounceBalance, refusal: zeroBounceRefusal},
		{name: "neverbounce", verifyPaths: neverBouncePaths("/single/check"),
			creditsPaths: neverBouncePaths("/account/info"), keyName: "key", emailName: "email",
			timeoutUnit: time.Second, verdict: neverBounceVerdict, balance: neverBounceBalance,
			refusal: neverBounceRefusal},
		{name: "kickbox", verifyPaths: []string{"/v2/verify"}, creditsPaths: []string{"/v2/balance"},
			keyName: "apikey", emailName: "email", timeoutUnit: time.Millisecond,
			verdict: kickboxVerdict, balance: kickboxBalance, refusal: kickboxRefusal},
		{name: "reacher", verifyPaths: []string{"/v0/check_email", "/v1/check_email"}, emailName: "to_email",
			verdict: reacherVerdict, refusal: reacherRefusal},
	}
}

func (v *vendor) key(p parameters, headers [][]byte) string { return keyOf(p, v.keyName, headers) }

// body is the body of POST /v1/verify/single. An address that was not sent is left out, and one
// that is not a string is sent as it is: both are refused there.
func (v *vendor) body(p parameters) string {
	request := map[string]any{"details": true}
	if email, sent := p[v.emailName]; sent {
		request["email"] = email.literal()
	}
	if seconds := p.seconds(v.timeoutUnit); seconds > 0 {
		request["timeout"] = seconds
	}
	body, err := json.Marshal(request)
	if err != nil {
		panic("BUG: a request is not JSON: " + err.Error())
	}
	return string(body)
}

// words are a vendor's words for a verdict.
type words struct{ status, reason string }

// choose returns the words of a verdict: those of its reason, if the table has it, else those of its status.
func choose(a *answer, byReason map[string]words, byStatus map[string]words, unknown words) words {
	if w, found := byReason[a.Reason]; found {
		return w
	}
	if w, found := byStatus[a.Status]; found {
		return w
	}
	return unknown
}

var zeroBounceReasons = map[string]words{
	"invalid_syntax":      {"invalid", "failed_syntax_check"},
	"provider_syntax":     {"invalid", "failed_syntax_check"},
	"domain_not_found":    {"invalid", "no_dns_entries"},
	"no_mail_server":      {"invalid", "no_dns_entries"},
	"null_mx":             {"invalid", "does_not_accept_mail"},
	"unroutable_mx":       {"invalid", "unroutable_ip_address"},
	"mailbox_not_found":   {"invalid", "mailbox_not_found"},
	"disposable":          {"do_not_mail", "disposable"},
	"role_account":        {"do_not_mail", "role_based"},
	"catch_all":           {"catch-all", ""},
	"accept_all_provider": {"catch-all", ""},
	"mailbox_full":        {"unknown", "mailbox_quota_exceeded"},
	"possible_typo":       {"unknown", "possible_typo"},
	"greylisted":          {"unknown", "greylisted"},
	"timeout":             {"unknown", "timeout_exceeded"},
	"blocked":             {"unknown", "antispam_system"},
	"connection_failed":   {"unknown", "failed_smtp_connection"},
	"rate_limited":        {"unknown", "mail_server_temporary_error"},
	"temporary_error":     {"unknown", "mail_server_temporary_error"},
}

var zeroBounceStatuses = map[string]words{valid: {"valid", ""}, invalid: {"invalid", ""}}

func zeroBounceVerdict(a *answer) any {
	w := choose(a, zeroBounceReasons, zeroBounceStatuses, words{"unknown", ""})
	if a.Status == valid && a.Details.Alias {
		w.reason = "alias_address"
	}
	account, domain := a.parts()
	var mx *string
	if len(a.MX) > 0 {
		mx = &a.MX[0]
	}
	return map[string]any{"address": a.sent, "status": w.status, "sub_status": w.reason, "free_email": a.Free,
		"did_you_mean": a.Details.DidYouMean, "account": account, "domain": domain, "domain_age_days": nil,
		"smtp_provider": a.Provider, "mx_found": strconv.FormatBool(len(a.MX) > 0), "mx_record": mx,
		"firstname": nil, "lastname": nil, "gender": nil, "country": nil, "region": nil, "city": nil, "zipcode": nil,
		"processed_at": a.verifiedAt("2006-01-02 15:04:05.000")}
}

func zeroBounceBalance(c credits) any {
	return map[string]any{"Credits": strconv.FormatInt(c.Balance, 10)}
}

// zeroBounceRefusal answers a bad key with 403, by which the vendor's clients know it.
func zeroBounceRefusal(status int, detail string) (int, any) {
	if status == http.StatusUnauthorized {
		status = http.StatusForbidden
	}
	return status, map[string]any{"error": detail}
}

// neverBouncePaths are the paths of an operation in the versions that the vendor's clients use.
func neverBouncePaths(path string) (all []string) {
	for _, version := range []string{"/v4", "/v4.1", "/v4.2"} {
		all = append(all, version+path)
	}
	return all
}

var neverBounceReasons = map[string]words{
	"disposable":          {"disposable", ""},
	"catch_all":           {"catchall", ""},
	"accept_all_provider": {"catchall", ""},
}

var neverBounceStatuses = map[string]words{valid: {"valid", ""}, invalid: {"invalid", ""}}

func neverBounceVerdict(a *answer) any {
	w := choose(a, neverBounceReasons, neverBounceStatuses, words{"unknown", ""})
	flags := []string{}
	for _, f := range []struct {
		name string
		is   bool
	}{
		{"has_dns", a.DomainExists && a.SyntaxValid && (len(a.MX) > 0 || a.connected())},
		{"has_dns_mx", len(a.MX) > 0},
		{"bad_syntax", !a.SyntaxValid},
		{"free_email_host", a.Free},
		{"role_account", a.RoleBased},
		{"disposable_email", a.Disposable},
		{"spelling_mistake", a.Details.DidYouMean != nil},
		{"bad_dns", a.Reason == "domain_not_found"},
		{"temporary_dns_error", a.Reason == "dns_error"},
		{"connect_fails", a.Reason == "connection_failed"},
		{"accepts_all", a.acceptsAll()},
		{"contains_alias", a.Details.Alias},
		{"smtp_connectable", a.connected()},
	} {
		if f.is {
			flags = append(flags, f.name)
		}
	}
	suggestion := ""
	if a.Details.DidYouMean != nil {
		suggestion = *a.Details.DidYouMean
	}
	return map[string]any{"status": "success", "result": w.status, "flags": flags,
		"suggested_correction": suggestion, "execution_time": a.milliseconds()}
}

func neverBounceBalance(c credits) any {
	return map[string]any{"status": "success", "execution_time": 0,
		"credits_info": map[string]any{"paid_credits_remaining": c.Balance}}
}

// neverBounceRefusal answers with 200: the vendor's clients read a refusal only then, by its member status.
func neverBounceRefusal(status int, detail string) (int, any) {
	word := "general_failure"
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		word = "auth_failure"
	case http.StatusTooManyRequests:
		word = "throttle_triggered"
	case http.StatusServiceUnavailable:
		word = "temp_unavail"
	}
	return http.StatusOK, map[string]any{"status": word, "message": detail, "execution_time": 0}
}

var kickboxReasons = map[string]words{
	"invalid_syntax":    {"undeliverable", "invalid_email"},
	"provider_syntax":   {"undeliverable", "invalid_email"},
	"domain_not_found":  {"undeliverable", "invalid_domain"},
	"null_mx":           {"undeliverable", "invalid_domain"},
	"no_mail_server":    {"undeliverable", "invalid_domain"},
	"unroutable_mx":     {"undeliverable", "invalid_domain"},
	"disposable":        {"risky", "low_quality"},
	"role_account":      {"risky", "low_quality"},
	"possible_typo":     {"risky", "low_quality"},
	"low_quality":       {"risky", "low_quality"},
	"timeout":           {"unknown", "timeout"},
	"connection_failed": {"unknown", "no_connect"},
	"protocol_error":    {"unknown", "invalid_smtp"},
	"greylisted":        {"unknown", "unavailable_smtp"},
	"rate_limited":      {"unknown", "unavailable_smtp"},
	"temporary_error":   {"unknown", "unavailable_smtp"},
}

var kickboxStatuses = map[string]words{valid: {"deliverable", "accepted_email"},
	invalid: {"undeliverable", "rejected_email"}, risky: {"risky", "low_deliverability"}}

func kickboxVerdict(a *answer) any {
	w := choose(a, kickboxReasons, kickboxStatuses, words{"unknown", "unexpected_error"})
	user, domain := a.parts()
	return map[string]any{"result": w.status, "reason": w.reason, "role": a.RoleBased, "free": a.Free,
		"disposable": a.Disposable, "accept_all": a.acceptsAll(), "did_you_mean": a.Details.DidYouMean,
		"sendex": float64(a.Score) / 100, "email": a.sent, "user": user, "domain": domain, "success": true,
		"message": nil}
}

func kickboxBalance(c credits) any {
	return map[string]any{"balance": c.Balance, "success": true, "message": nil}
}

func kickboxRefusal(status int, detail string) (int, any) {
	return status, map[string]any{"success": false, "message": detail}
}

var reacherStatuses = map[string]words{valid: {"safe", ""}, invalid: {"invalid", ""}, risky: {"risky", ""}}

func reacherVerdict(a *answer) any {
	w := choose(a, nil, reacherStatuses, words{"unknown", ""})
	user, domain := a.parts()
	var address *string
	username, host := "", ""
	if user != nil {
		address, username, host = &a.sent, *user, *domain
	}
	return map[string]any{"input": a.sent, "is_reachable": w.status,
		"misc": map[string]any{"is_disposable": a.Disposable, "is_role_account": a.RoleBased, "is_b2c": a.Free},
		"mx":   map[string]any{"accepts_mail": a.acceptsMail(), "records": append([]string{}, a.MX...)},
		"smtp": map[string]any{"can_connect_smtp": a.connected(), "has_full_inbox": a.Details.Full,
			"is_catch_all": a.acceptsAll(), "is_deliverable": a.SMTPValid, "is_disabled": a.Details.Disabled},
		"syntax": map[string]any{"address": address, "domain": host, "is_valid_syntax": a.SyntaxValid,
			"username": username, "normalized_email": a.Details.Normalized, "suggestion": a.Details.DidYouMean}}
}

func reacherRefusal(status int, detail string) (int, any) {
	return status, map[string]any{"error": detail}
}

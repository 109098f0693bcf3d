package facade

import (
	"time"

	"probity/engine"
)

// The statuses of verdicts that vendors have plain words for.
const (
	valid   = "VALID"
	risky   = "RISKY"
	invalid = "INVALID"
)

// answer is what the façades read of the answer of POST /v1/verify/single.
type answer struct {
	sent string // the address as the client sent it

	Status       string   `json:"status"`
	Score        int      `json:"score"`
	Reason       string   `json:"reason"` // empty of VALID
	SyntaxValid  bool     `json:"syntax_valid"`
	DomainExists bool     `json:"domain_exists"`
	SMTPValid    bool     `json:"smtp_valid"`
	Disposable   bool     `json:"is_disposable"`
	RoleBased    bool     `json:"is_role_based"`
	Free         bool     `json:"is_free_email"`
	Provider     string   `json:"smtp_provider"`
	MX           []string `json:"mx_records"`
	VerifiedAt   string   `json:"verified_at"`
	Details      struct {
		Normalized *string `json:"normalized_email"`
		DidYouMean *string `json:"did_you_mean"`
		CatchAll   *bool   `json:"is_catch_all"` // nil: not known
		Full       bool    `json:"mailbox_full"`
		Disabled   bool    `json:"mailbox_disabled"`
		Code       *int    `json:"smtp_code"` // nil: no mail server answered
		DurationMS *int64  `json:"duration_ms"`
		Alias      bool    `json:"is_alias"`
	} `json:"details"`
}

// credits are the answer of GET /v1/credits.
type credits struct {
	Balance int64 `json:"balance"`
}

// acceptsAll reports whether the domain is known to accept any address.
func (a *answer) acceptsAll() bool {
	return a.Details.CatchAll != nil && *a.Details.CatchAll || a.Reason == "catch_all" ||
		a.Reason == "accept_all_provider"
}

// acceptsMail reports whether the domain has a mail server that can be reached.
func (a *answer) acceptsMail() bool {
	switch a.Reason {
	case "invalid_syntax", "domain_not_found", "null_mx", "no_mail_server", "unroutable_mx":
		return false
	}
	return len(a.MX) > 0 || a.connected() // a domain without MX may receive by its address record
}

// connected reports whether a mail server answered.
func (a *answer) connected() bool { return a.Details.Code != nil }

// parts are the local part and the domain that were probed, with the dots and the tag that a provider ignores; nil of
// bad syntax.
func (a *answer) parts() (local, domain *string) {
	address, err := engine.ParseTrimmed(a.sent)
	if err != nil {
		return nil, nil
	}
	user, host := address.Local(), address.Domain()
	return &user, &host
}

// milliseconds returns how long the verification took; 0 if that is not known.
func (a *answer) milliseconds() int64 {
	if a.Details.DurationMS == nil {
		return 0
	}
	return *a.Details.DurationMS
}

// verifiedAt is the time of the evidence in another layout, in UTC; nil if it is not a time.
func (a *answer) verifiedAt(layout string) *string {
	at, err := time.Parse(time.RFC3339Nano, a.VerifiedAt)
	if err != nil {
		return nil
	}
	text := at.UTC().Format(layout)
	return &text
}

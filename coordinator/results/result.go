package results

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"probity/engine"
	"probity/internal/jsontext"
)

// Single is the result of a single call as the API returns it.
type Single struct {
	Email      string // as it was sent
	Verdict    engine.Verdict
	Normalized string // folded form; empty for bad syntax
	DidYouMean string
	Node       string // that probed; empty if none did
	Took       time.Duration
	Credits    int64
	Details    bool // include the 16th key, details
}

// AppendJSON appends the verification result of the API: 15 keys, or 16 with details. The score is as of now.
func (s *Single) AppendJSON(dst []byte, now time.Time) []byte {
	v := &s.Verdict
	r := row{email: s.Email, verdict: v, score: engine.Score(v, now), provider: v.ProviderName, mx: v.MX, credits: s.Credits}
	dst = r.appendKeys(append(dst, '{'))
	if s.Details {
		dst = s.appendDetails(append(dst, `,"details":`...), v, now)
	}
	return append(dst, '}')
}

// row is the part of a verification result that single calls and jobs share.
type row struct {
	email    string
	verdict  *engine.Verdict
	score    uint8
	provider string
	mx       []string
	credits  int64
}

// appendKeys appends the 15 keys of a verification result with their values, without braces.
func (r *row) appendKeys(dst []byte) []byte {
	v := r.verdict
	dst = jsontext.AppendString(append(dst, `"email":`...), r.email)
	dst = append(append(dst, `,"status":"`...), v.Status.String()...)
	dst = strconv.AppendUint(append(dst, `","score":`...), uint64(r.score), 10)
	dst = jsontext.AppendStringOrNull(append(dst, `,"reason":`...), v.Reason.String())
	for _, b := range [...]struct {
		key string
		on  bool
	}{
		{`,"syntax_valid":`, v.SyntaxValid()}, {`,"domain_exists":`, v.DomainExists()}, {`,"smtp_valid":`, v.SMTPValid},
		{`,"is_disposable":`, v.Flags.Has(engine.FlagDisposable)}, {`,"is_role_based":`, v.Flags.Has(engine.FlagRole)},
		{`,"is_free_email":`, v.Flags.Has(engine.FlagFree)},
	} {
		dst = strconv.AppendBool(append(dst, b.key...), b.on)
	}
	dst = jsontext.AppendString(append(dst, `,"smtp_provider":`...), r.provider)
	dst = append(dst, `,"mx_records":[`...)
	for i, host := range r.mx {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(dst, host)
	}
	dst = strconv.AppendBool(append(dst, `],"from_cache":`...), v.FromCache)
	dst = strconv.AppendInt(append(dst, `,"credits_used":`...), r.credits, 10)
	return jsontext.AppendTime(append(dst, `,"verified_at":`...), v.VerifiedAt)
}

func (s *Single) appendDetails(dst []byte, v *engine.Verdict, now time.Time) []byte {
	d := &v.Details
	enhanced, stage, wait := "", "", 0
	if e := d.Enhanced; e.Class != 0 {
		enhanced = fmt.Sprintf("%d.%d.%d", e.Class, e.Subject, e.Detail)
	}
	if d.Code != 0 { // else no reply decided
		stage = d.Stage.String()
	}
	if !d.NextRetry.IsZero() {
		wait = max(1, int(math.Ceil(d.NextRetry.Sub(now).Seconds())))
	}
	dst = jsontext.AppendStringOrNull(append(dst, `{"normalized_email":`...), s.Normalized)
	dst = jsontext.AppendStringOrNull(append(dst, `,"did_you_mean":`...), s.DidYouMean)
	if dst = append(dst, `,"is_catch_all":`...); d.CatchAll == engine.NotKnown {
		dst = append(dst, "null"...)
	} else {
		dst = strconv.AppendBool(dst, d.CatchAll == engine.Yes)
	}
	dst = strconv.AppendBool(append(dst, `,"mailbox_full":`...), d.Full)
	dst = strconv.AppendBool(append(dst, `,"mailbox_disabled":`...), d.Disabled)
	dst = jsontext.AppendStringOrNull(append(dst, `,"mx_host":`...), d.Host)
	dst = jsontext.AppendNumberOrNull(append(dst, `,"smtp_code":`...), d.Code)
	dst = jsontext.AppendStringOrNull(append(dst, `,"enhanced_code":`...), enhanced)
	dst = jsontext.AppendStringOrNull(append(dst, `,"smtp_message":`...), d.Message)
	dst = jsontext.AppendStringOrNull(append(dst, `,"stage":`...), stage)
	dst = strconv.AppendInt(append(dst, `,"attempts":`...), int64(d.Attempts), 10)
	dst = strconv.AppendInt(append(dst, `,"duration_ms":`...), s.Took.Milliseconds(), 10)
	dst = jsontext.AppendNumberOrNull(append(dst, `,"retry_after":`...), wait)
	dst = jsontext.AppendStringOrNull(append(dst, `,"checked_by":`...), s.Node)
	dst = jsontext.AppendStringOrNull(append(dst, `,"rule":`...), v.Rule)
	dst = append(dst, `,"score_parts":[`...)
	for i, p := range engine.ScoreParts(v, now) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendString(append(dst, `{"name":`...), p.Name)
		dst = append(strconv.AppendInt(append(dst, `,"points":`...), int64(p.Points), 10), '}')
	}
	return append(strconv.AppendBool(append(dst, `],"is_alias":`...), v.Flags.Has(engine.FlagAlias)), '}')
}

// Cost returns the credits for a verdict: UNKNOWN is free.
func Cost(s engine.Status) int64 {
	if s == engine.Unknown {
		return 0
	}
	return 1
}

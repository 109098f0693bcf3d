package results

import (
	"strconv"
	"time"

	"probity/coordinator/details"
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
	Details    bool           // include the 16th key, details
	Table      *engine.Table  // for details
	Chance     details.Chance // for details
}

// AppendJSON appends the verification result of the API: 15 keys, or 16 with details. The score is as of now.
func (s *Single) AppendJSON(dst []byte, now time.Time) []byte {
	v := &s.Verdict
	r := row{email: s.Email, verdict: v, score: engine.Score(v, now), provider: v.ProviderName, mx: v.MX,
		credits: s.Credits}
	dst = r.appendKeys(append(dst, '{'))
	if s.Details {
		d := details.Details{Verdict: v, Normalized: s.Normalized, DidYouMean: s.DidYouMean, Node: s.Node, Took: s.Took,
			Table: s.Table, Chance: s.Chance}
		dst = d.AppendJSON(append(dst, `,"details":`...), now)
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

// Cost returns the credits for a verdict: UNKNOWN is free.
func Cost(s engine.Status) int64 {
	if s == engine.Unknown {
		return 0
	}
	return 1
}

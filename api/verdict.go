package api

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"probity/engine"
)

// Answer is a verdict as a caller is told it.
type Answer struct {
	Email      string // as it was sent
	Verdict    engine.Verdict
	Normalized string // folded form; empty for bad syntax
	DidYouMean string
	Node       string // that took the evidence; empty when none did
	Took       time.Duration
	Credits    int64
	Details    bool // the 16th key was asked for
}

// AppendJSON appends the verification result of the interface: 15 keys, or 16 with details. now is when it is said.
func (a *Answer) AppendJSON(dst []byte, now time.Time) []byte {
	v := a.Verdict.AsOf(now)
	dst = append(dst, `{"email":`...)
	dst = appendText(dst, a.Email)
	dst = append(dst, `,"status":"`...)
	dst = append(dst, v.Status.String()...)
	dst = append(dst, `","score":`...)
	dst = strconv.AppendUint(dst, uint64(v.Score), 10)
	dst = append(dst, `,"reason":`...)
	dst = appendTextOrNull(dst, v.Reason.String())
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
	dst = append(dst, `,"smtp_provider":`...)
	dst = appendText(dst, v.ProviderName)
	dst = append(dst, `,"mx_records":[`...)
	for i, host := range v.MX {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, host)
	}
	dst = append(dst, `],"from_cache":`...)
	dst = strconv.AppendBool(dst, v.FromCache)
	dst = append(dst, `,"credits_used":`...)
	dst = strconv.AppendInt(dst, a.Credits, 10)
	dst = append(dst, `,"verified_at":`...)
	dst = appendTime(dst, v.VerifiedAt)
	if a.Details {
		dst = a.appendDetails(append(dst, `,"details":`...), &v, now)
	}
	return append(dst, '}')
}

func (a *Answer) appendDetails(dst []byte, v *engine.Verdict, now time.Time) []byte {
	d := &v.Details
	dst = appendTextOrNull(append(dst, `{"normalized_email":`...), a.Normalized)
	dst = appendTextOrNull(append(dst, `,"did_you_mean":`...), a.DidYouMean)
	dst = appendTri(append(dst, `,"is_catch_all":`...), d.CatchAll)
	dst = strconv.AppendBool(append(dst, `,"mailbox_full":`...), d.Full)
	dst = strconv.AppendBool(append(dst, `,"mailbox_disabled":`...), d.Disabled)
	dst = appendTextOrNull(append(dst, `,"mx_host":`...), d.Host)
	dst = appendNumberOrNull(append(dst, `,"smtp_code":`...), d.Code)
	dst = appendTextOrNull(append(dst, `,"enhanced_code":`...), enhancedText(d.Enhanced))
	dst = appendTextOrNull(append(dst, `,"smtp_message":`...), d.Message)
	dst = appendTextOrNull(append(dst, `,"stage":`...), stageText(d))
	dst = strconv.AppendInt(append(dst, `,"attempts":`...), int64(d.Attempts), 10)
	dst = strconv.AppendInt(append(dst, `,"duration_ms":`...), a.Took.Milliseconds(), 10)
	dst = appendNumberOrNull(append(dst, `,"retry_after":`...), secondsUntil(d.NextRetry, now))
	dst = appendTextOrNull(append(dst, `,"checked_by":`...), a.Node)
	return append(appendTextOrNull(append(dst, `,"rule":`...), v.Rule), '}')
}

func appendTri(dst []byte, t engine.Tri) []byte {
	if t == engine.NotKnown {
		return append(dst, "null"...)
	}
	return strconv.AppendBool(dst, t == engine.Yes)
}

func enhancedText(e engine.Enhanced) string {
	if e.Class == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", e.Class, e.Subject, e.Detail)
}

// stageText is the stage of the reply that decided; a verdict without a reply has none.
func stageText(d *engine.Details) string {
	if d.Code == 0 {
		return ""
	}
	return d.Stage.String()
}

// secondsUntil is the whole seconds from now to t, at least one; 0 when t is not set.
func secondsUntil(t, now time.Time) int {
	if t.IsZero() {
		return 0
	}
	return max(1, int(math.Ceil(t.Sub(now).Seconds())))
}

// Cost is what a verdict costs: an UNKNOWN is no verification.
func Cost(s engine.Status) int64 {
	if s == engine.Unknown {
		return 0
	}
	return 1
}

package prober

import (
	"time"

	"probity/engine"
	"probity/internal/spans"
)

// traceLookup records the cache's look-up of a single call.
func traceLookup(call *spans.Span, hit bool, began time.Time) {
	if call == nil {
		return
	}
	s := call.Child("cache.lookup", spans.Internal, began)
	s.Bool("probity.hit", hit)
	s.End(time.Now())
}

// traceProbe records the probe of a single call: the wait for a connection and for budgets, and then the dialogue,
// which lasted for some milliseconds, 0 if none is known. Its connection may have been opened before the call, and it
// may have been a list's. It says what was found, in our words. It does not name the mail server: the names of many
// contain their customer's domain.
func traceProbe(call *spans.Span, v *engine.Verdict, asked uint32, began time.Time) {
	if call == nil {
		return
	}
	now := time.Now()
	probe := call.Child("probe", spans.Internal, began)
	if asked > 0 {
		sent := now.Add(-time.Duration(asked) * time.Millisecond)
		if sent.Before(began) {
			sent = began
		}
		probe.Child("queue.wait", spans.Internal, began).End(sent)
		dialogue := probe.Child("smtp.dialogue", spans.Client, sent)
		dialogue.Text("probity.source", v.Details.Source)
		dialogue.Text("probity.stage", v.Details.Stage.String())
		if v.Details.Code != 0 {
			dialogue.Number("probity.code", v.Details.Code)
		}
		dialogue.End(now)
	}
	probe.Text("probity.provider", v.ProviderName)
	probe.Text("probity.outcome", v.Status.String())
	probe.Text("probity.reason", v.Reason.String())
	probe.Number("probity.attempts", v.Details.Attempts)
	probe.End(now)
}

package prober

import (
	"slices"
	"time"

	"probity/engine"
	"probity/prober/hostqueue"
	"probity/store/cache"
)

// outcome is the result of a probe.
type outcome struct {
	verdict   engine.Verdict
	deferred  bool
	due       time.Time
	attempt   int // deferred attempts, this one included
	source    string
	returned  bool // not finished: no budget, no memory, or no time
	fresh     bool // made now, not read from the cache
	cacheable bool // may be kept in the cache
}

// judge judges a probe whose evidence is complete.
func judge(p *hostqueue.Probe, now time.Time) outcome {
	except, lacks := p.Ev.LacksChecks()
	for i := range p.Facts { // what was known of the domain's catch-all checks counts for the score
		if f := &p.Facts[i]; lacks && f.Host != except {
			p.Ev.PrependCheck(f.Fact.Sighting(f.Host))
		}
	}
	o := outcome{fresh: true, verdict: engine.Judge(&p.Ev, p.Policy, now), attempt: p.Ev.Attempts}
	for i := len(p.Ev.Seen) - 1; i >= 0 && !o.cacheable; i-- {
		o.cacheable = cache.Keepable(&o.verdict, &p.Ev.Seen[i])
	}
	if o.verdict.Reason == engine.ReasonAcceptedUnconfirmed &&
		slices.ContainsFunc(p.Ev.Seen, func(s engine.Sighting) bool {
			return s.Finding.Rule == hostqueue.RuleSilentAcceptance
		}) {
		o.cacheable = false // unconfirmed only while the host may accept every recipient: cached, it would outlast that
	}
	return o
}

// deferUntil is the outcome of a probe that must be asked again by the same source at due, or now if that is past. A
// decoy that was asked after its target was greylisted moves due on: both must have waited long enough when they are
// asked together.
func deferUntil(p *hostqueue.Probe, due, now time.Time, sourceName string) outcome {
	for i := len(p.Ev.Seen) - 1; i > 0; i-- {
		s, target := &p.Ev.Seen[i], &p.Ev.Seen[i-1]
		if s.Subject == engine.SubjectDecoy && target.Finding.Meaning == engine.Greylisted && s.At.After(target.At) {
			due = due.Add(s.At.Sub(target.At))
			break
		}
	}
	if due.Before(now) {
		due = now
	}
	o := outcome{fresh: true, deferred: true, due: due, attempt: p.Ev.Attempts + 1, source: sourceName}
	o.verdict = engine.Judge(&p.Ev, p.Policy, now)
	o.verdict.Details.NextRetry = due
	return o
}

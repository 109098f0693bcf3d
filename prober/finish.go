package prober

import (
	"time"

	"probity/engine"
	"probity/prober/hostqueue"
	"probity/prober/readyqueue"
	"probity/prober/trace"
)

// finish judges probes that have left their queue, sends the outcomes to all waiters and ends the probes. One of the
// waiters stores an outcome in the cache; if none is left, it is stored here. No lock is held.
func (p *Prober) finish(q *readyqueue.Queue, out []hostqueue.Finished, now time.Time) {
	if len(out) == 0 {
		return
	}
	p.rows.Add(int64(-len(out)))
	for i := range out {
		pr, step := out[i].Probe, &out[i].Step
		v, kept := p.inFlight.remove(pr), false
		for _, a := range v.waiters {
			pr.Policy.Details = pr.Policy.Details || a.caller.details // it may have joined the probe of a list
		}
		var o outcome
		if step.Kind == engine.StepWait {
			o = deferUntil(pr, step.Until, now, q.Key.Source)
		} else {
			o = judge(pr, now)
		}
		nameSource(&o.verdict, pr, q)
		if (o.verdict.Rule == engine.RuleSourceBlocked || unconfirmed(pr, &o)) &&
			p.sources.OtherAvailable(q.Provider, q.Source, now) {
			o.returned, o.due, o.cacheable = true, now, false // another source has a budget of its own there
		}
		p.metrics.outcome(&o)
		p.recent.Record(trace.Probe{Key: pr.Key, Evidence: &pr.Ev, Verdict: &o.verdict, Deferred: o.deferred},
			q.Key.Source, now)
		retried, asked := v.retry, pr.Asked(now)
		for _, a := range v.waiters {
			d := doneRow{row: int(a.row), key: pr.Key, outcome: o, store: !kept, asked: asked}
			if a.flags != pr.Ev.Flags { // they follow from each row's own text
				ev := pr.Ev
				ev.Flags = a.flags
				d.outcome.verdict, d.store = engine.Judge(&ev, pr.Policy, now), false
				nameSource(&d.outcome.verdict, pr, q)
			}
			kept = a.caller.send(&d) && d.store || kept
			retried = retried || a.caller.isSingle()
		}
		if !kept && o.cacheable {
			p.storeResults([]doneRow{{key: pr.Key, outcome: o, store: true}})
		}
		if retried {
			p.retries.settle(pr, &o)
		}
		pr.Recycle()
	}
}

// nameSource fills in the egress source of a reply for those who want details.
func nameSource(v *engine.Verdict, p *hostqueue.Probe, q *readyqueue.Queue) {
	if p.Policy.Details && v.Details.Code != 0 {
		v.Details.Source = q.Key.Source
	}
}

// unconfirmed reports whether p was accepted and no decoy was asked for, because the receiver quarantined the source.
func unconfirmed(p *hostqueue.Probe, o *outcome) bool {
	last := len(p.Ev.Seen) - 1
	return o.verdict.Reason == engine.ReasonAcceptedUnconfirmed && p.Ev.Seen[last].Event == engine.EventSourceBlocked
}

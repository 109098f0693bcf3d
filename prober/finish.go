package prober

import (
	"time"

	"probity/engine"
	"probity/prober/trace"
)

// finish judges probes that have left their queue and sends the outcomes to all waiters. No lock is held.
func (p *Prober) finish(q *readyQueue, out []finishedProbe, now time.Time) {
	if len(out) == 0 {
		return
	}
	p.rows.Add(int64(-len(out)))
	for i := range out {
		e := &out[i]
		var o outcome
		if e.step.Kind == engine.StepWait {
			o = e.probe.deferUntil(e.step.Until, now, q.key.source)
		} else {
			o = e.probe.judge(now)
		}
		if (o.verdict.Rule == engine.RuleSourceBlocked || e.probe.unconfirmed(&o)) && p.sources.OtherAvailable(q.provider, q.source, now) {
			o.returned, o.due, o.cacheable = true, now, false // another source has a budget of its own there
		}
		p.metrics.outcome(&o)
		p.recent.Record(trace.Probe{Key: e.probe.key, Evidence: &e.probe.ev, Verdict: &o.verdict, Deferred: o.deferred}, q.key.source, now)
		p.sendOutcome(e.probe, &o, now)
	}
}

// unconfirmed reports an acceptance for which no decoy was asked, because the receiver quarantined the source.
func (p *probe) unconfirmed(o *outcome) bool {
	last := len(p.ev.Seen) - 1
	return o.verdict.Reason == engine.ReasonAcceptedUnconfirmed && p.ev.Seen[last].Event == engine.EventSourceBlocked
}

// sendOutcome sends an outcome to the probe's waiters and ends the probe. One of them stores it in the cache; if none is left,
// it is stored here.
func (p *Prober) sendOutcome(pr *probe, o *outcome, now time.Time) {
	waiters := p.inFlight.remove(pr)
	kept := false
	retried := pr.retry
	for _, a := range waiters {
		d := doneRow{row: int(a.row), key: pr.key, outcome: *o, store: !kept}
		if a.flags != pr.ev.Flags {
			d.outcome.verdict = p.judgeAgainWithFlags(pr, a.flags, now)
			d.store = false
		}
		kept = a.caller.send(&d) && d.store || kept
		retried = retried || a.caller.isSingle()
	}
	if !kept && o.cacheable {
		p.storeResults([]doneRow{{key: pr.key, outcome: *o, store: true}})
	}
	if retried {
		p.retries.settle(pr, o)
	}
	p.buffers.putSeen(pr)
}

// judgeAgainWithFlags judges the same evidence for a row of other flags, which follow from each row's own text.
func (p *Prober) judgeAgainWithFlags(pr *probe, flags engine.Flags, now time.Time) engine.Verdict {
	ev := pr.ev
	ev.Flags = flags
	return engine.Judge(&ev, pr.policy, now)
}

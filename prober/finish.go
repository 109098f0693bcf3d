package prober

import (
	"time"

	"probity/engine"
)

// finish judges probes that have left their lane and hands the outcomes to all who wait. No lock is held.
func (p *Prober) finish(l *lane, out []ended, now time.Time) {
	if len(out) == 0 {
		return
	}
	p.rows.Add(int64(-len(out)))
	for i := range out {
		e := &out[i]
		var o outcome
		if e.step.Kind == engine.StepWait {
			o = e.p.postpone(e.step.Until, now, l.key.egress)
		} else {
			o = e.p.conclude(now)
		}
		if (o.verdict.Rule == engine.RuleSourceBlocked || e.p.unconfirmed(&o)) && p.egress.others(l.provider, l.egress, now) {
			o.later, o.due, o.keep = true, now, false // another of our sources has a budget of its own there
		}
		p.metrics.outcome(&o)
		p.recent.note(e.p, &o, l.key.egress, now)
		p.deliver(e.p, &o, now)
	}
}

// unconfirmed reports an acceptance for which no decoy was asked, because its receiver wants no more of the source.
func (p *probe) unconfirmed(o *outcome) bool {
	last := len(p.ev.Seen) - 1
	return o.verdict.Reason == engine.ReasonAcceptedUnconfirmed && p.ev.Seen[last].Event == engine.EventSourceBlocked
}

// deliver gives an outcome to the probe's askers, and ends the probe. One of them keeps it in the cache; where none is left, it is kept here.
func (p *Prober) deliver(pr *probe, o *outcome, now time.Time) {
	askers := p.flight.end(pr)
	kept := false
	retried := pr.retry
	for _, a := range askers {
		d := done{row: int(a.row), key: pr.key, o: *o, store: !kept}
		if a.flags != pr.ev.Flags {
			d.o.verdict = p.reflag(pr, a.flags, now)
			d.store = false
		}
		kept = a.run.give(&d) && d.store || kept
		retried = retried || a.run.single()
	}
	if !kept && o.keep {
		p.keep([]done{{key: pr.key, o: *o, store: true}})
	}
	if retried {
		p.retries.settle(pr, o)
	}
	p.spare.forget(pr)
}

// reflag judges the same evidence for a row of other flags: they follow each row's own string.
func (p *Prober) reflag(pr *probe, flags engine.Flags, now time.Time) engine.Verdict {
	ev := pr.ev
	ev.Flags = flags
	return engine.Judge(&ev, pr.policy, now)
}

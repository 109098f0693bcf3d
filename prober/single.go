package prober

import (
	"context"
	"time"

	"probity/engine"
	"probity/internal/spans"
	"probity/prober/budget"
	"probity/prober/hostqueue"
	"probity/prober/readyqueue"
	"probity/prober/source"
	"probity/prober/wire"
	"probity/store/cache"
)

// refreshAfter is the age at which a cached answer to a single call is renewed in the background.
const refreshAfter = 7 * 24 * time.Hour

// Single implements wire.Prober.
func (p *Prober) Single(ctx context.Context, a wire.SingleRequest) (wire.Answer, error) {
	if err := p.awaitRun(ctx); err != nil {
		return wire.Answer{}, err
	}
	now := time.Now()
	if !a.Low && !a.Batch {
		p.singleCalls.Record(now)
	}
	answer := wire.Answer{Node: p.cfg.Node}
	key := p.cfg.Cache.Key(a.Address)
	span := spans.From(ctx)
	v, ok := p.cfg.Cache.Get(key, now)
	hit := ok && verdictFits(&v, a.Flags, a.Route, a.MaxAge, now)
	traceLookup(span, hit, now)
	if hit {
		p.metrics.hits.Inc()
		if now.Sub(v.VerifiedAt) > refreshAfter && !a.NoSMTP {
			p.startProbe(key, &a, waiter{}, 0, now)
		}
		answer.Verdict = v
		return answer, nil
	}
	if _, v := p.retries.pending(key); v != nil {
		answer.Verdict = *v
		return answer, nil
	}
	c := newSingleCaller()
	if o := p.startProbe(key, &a, waiter{c, 0, a.Flags}, 0, now); o != nil {
		answer.Verdict = o.verdict
		return answer, nil
	}
	began := now
	select {
	case <-c.wake:
	case <-p.stop:
		return wire.Answer{}, ErrStopped
	case <-ctx.Done():
	}
	if got := c.close(); len(got) > 0 { // at the deadline, too: it may have come at the last moment
		p.storeResults(got[0])
		answer.Verdict = got[0][0].outcome.verdict
		traceProbe(span, &answer.Verdict, got[0][0].asked, began)
		return answer, nil
	}
	// The probe goes on, so that the next call finds its answer.
	now = time.Now()
	ev := engine.Evidence{Address: a.Address, Flags: a.Flags, Route: a.Route}
	ev.Append(engine.Sighting{Event: engine.EventTimeout, At: now})
	answer.Verdict = engine.Judge(&ev, engine.Policy{Details: true}, now)
	traceProbe(span, &answer.Verdict, 0, began)
	return answer, nil
}

// startProbe begins the probe of one address, or joins the one in flight. It returns an outcome if no host need be
// asked. A waiter without a caller wants no answer.
func (p *Prober) startProbe(key cache.Key, a *wire.SingleRequest, w waiter, attempts int, now time.Time) *outcome {
	pr := &probeInFlight{Probe: hostqueue.Probe{Key: key, Priority: budget.Single,
		Facts: hostqueue.FactsOf(p.cfg.Cache, a.Address.Domain(), a.Route.Hosts, now)}}
	switch {
	case a.Low:
		pr.Priority = budget.LongJob
	case a.Batch:
		pr.Priority = budget.ShortJob
	}
	forbidden := p.cfg.SuppressedAddress(a.Address) ||
		p.mustNotAsk(&source.Target{Route: *a.Route, Domain: a.Address.Domain(), Hosts: a.Route.Hosts})
	pr.Policy = engine.Policy{NoSMTP: a.NoSMTP || forbidden, Details: true, Schedule: p.env.Table.Load().Schedule,
		CallerWaits: true}
	pr.Ev = engine.Evidence{Address: a.Address, Flags: a.Flags, Route: a.Route, Attempts: attempts}
	if kept, ok := p.cfg.Cache.Get(key, now); ok {
		pr.Ev.Earlier = engine.EarlierOf(&kept, now)
	}
	src := p.sources.Choose(a.Route, a.Address, a.Egress, now)
	if src == nil {
		pr.Ev.Append(engine.Sighting{Event: engine.EventSourceBlocked, At: now})
	}
	if engine.Next(&pr.Ev, pr.Policy).Kind != engine.StepAsk {
		o := judge(&pr.Probe, now)
		return &o
	}
	q := p.queueOf(a.Route, src, now)
	limit := p.cfg.MaxRows
	if !a.Batch && !a.Low { // lists and batches leave it some room
		limit += limit / 10
	}
	if q == nil || p.rows.Load() > int64(limit) {
		pr.Ev.Append(engine.Sighting{Event: engine.EventInternal, At: now})
		o := judge(&pr.Probe, now)
		return &o
	}
	if a.UsedByOthers.Used > 0 {
		q.SetUsedByOthers(a.UsedByOthers.Used, now.Add(a.UsedByOthers.Left))
	}
	p.rows.Add(1)
	if got := p.inFlight.join(pr, w); got != pr {
		p.rows.Add(-1)
		if !a.Low && !a.Batch {
			got.Urge()
		}
		if q := readyqueue.Of(&got.Probe); q != nil {
			q.Promote(&got.Probe, pr.Priority, now)
		}
		return nil
	}
	p.add(q, []*hostqueue.Probe{&pr.Probe}, now)
	return nil
}

package prober

import (
	"context"
	"time"

	"probity/engine"
	"probity/prober/wire"
	"probity/store/cache"
)

// refreshAfter is the age at which a cached answer to a single is renewed behind its back.
const refreshAfter = 7 * 24 * time.Hour

// Single implements wire.Prober.
func (p *Prober) Single(ctx context.Context, a wire.Ask) (wire.Answer, error) {
	if err := p.await(ctx); err != nil {
		return wire.Answer{}, err
	}
	now := time.Now()
	if !a.Low {
		p.calls.called(now)
	}
	key := p.cfg.Cache.Key(a.Address)
	if v, ok := p.cfg.Cache.Get(key, now); ok && fits(&v, a.Flags, a.Route, a.MaxAge, now) {
		p.metrics.hits.Inc()
		if now.Sub(v.VerifiedAt) > refreshAfter && !a.NoSMTP {
			p.launch(key, &a, asker{}, 0, now)
		}
		return p.answer(v), nil
	}
	if _, v := p.retries.pending(key); v != nil {
		return p.answer(*v), nil
	}
	r := newRun(nil)
	if o := p.launch(key, &a, asker{r, 0, a.Flags}, 0, now); o != nil {
		return p.answer(o.verdict), nil
	}
	select {
	case <-r.wake:
		got := r.take()[0]
		p.keep(got)
		return p.answer(got[0].o.verdict), nil
	case <-p.stop:
		return wire.Answer{}, ErrStopped
	case <-ctx.Done():
	}
	for _, got := range r.close() { // it may have come at the last moment
		p.keep(got)
		return p.answer(got[0].o.verdict), nil
	}
	return p.answer(p.tooLate(&a)), nil
}

func (p *Prober) answer(v engine.Verdict) wire.Answer {
	return wire.Answer{Verdict: v, Node: p.cfg.Node}
}

// tooLate is the verdict at the caller's deadline. The probe goes on, so that the next call finds its answer.
func (p *Prober) tooLate(a *wire.Ask) engine.Verdict {
	now := time.Now()
	ev := engine.Evidence{Address: a.Address, Flags: a.Flags, Route: a.Route}
	ev.Append(engine.Sighting{Event: engine.EventTimeout, At: now})
	return engine.Judge(&ev, engine.Policy{Details: true}, now)
}

// launch begins the probe of one address, or joins the one in flight. An outcome is returned where nothing need be asked.
// An asker without a run wants no answer.
func (p *Prober) launch(key cache.Key, a *wire.Ask, who asker, attempts int, now time.Time) *outcome {
	pr := &probe{key: key, who: single, facts: p.factsOf(a.Address.Domain(), a.Route.Hosts, now)}
	if a.Low {
		pr.who = bulk
	}
	forbidden := p.cfg.SuppressedAddress(a.Address) || p.forbids(&errand{*a.Route, a.Address.Domain(), a.Route.Hosts})
	pr.policy = engine.Policy{NoSMTP: a.NoSMTP || forbidden, Details: true, Schedule: p.table.Load().Schedule, Hasty: true}
	pr.ev = engine.Evidence{Address: a.Address, Flags: a.Flags, Route: a.Route, Attempts: attempts}
	if kept, ok := p.cfg.Cache.Get(key, now); ok {
		pr.ev.Earlier = engine.EarlierOf(&kept, now)
	}
	e := p.egress.choose(a.Route, a.Address, a.Egress, now)
	if e == nil {
		pr.ev.Append(engine.Sighting{Event: engine.EventSourceBlocked, At: now})
	}
	if engine.Next(&pr.ev, pr.policy, now).Kind != engine.StepAsk {
		o := pr.conclude(now)
		return &o
	}
	l := p.laneOf(a.Route, e, now)
	if l == nil || p.rows.Load() > int64(p.cfg.MaxRows+p.cfg.MaxRows/10) {
		pr.ev.Append(engine.Sighting{Event: engine.EventInternal, At: now})
		o := pr.conclude(now)
		return &o
	}
	if a.Elsewhere.Used > 0 {
		l.told(a.Elsewhere, now)
	}
	p.rows.Add(1)
	if got := p.flight.join(pr, who); got != pr {
		p.rows.Add(-1)
		p.hurry(got, a.Low, now)
		return nil
	}
	p.add(l, []*probe{pr}, now)
	return nil
}

// hurry promotes a probe in flight that was not asked for by a single.
func (p *Prober) hurry(got *probe, low bool, now time.Time) {
	if low {
		return
	}
	got.urgent.Store(true)
	if l := got.lane.Load(); l != nil {
		l.promote(got, single, now)
	}
}

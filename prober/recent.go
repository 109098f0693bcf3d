package prober

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"probity/engine"
	"probity/prober/wire"
	"probity/store/cache"
)

// The bounds of the recent probes that are kept for people: about 600 bytes a probe, 4 MB in all.
const (
	maxRecent         = 1000 // probes of any outcome
	maxUnknowns       = 5000 // those that ended UNKNOWN
	anyPerSecond      = 100  // a second, of those that ended otherwise
	unknownsPerSecond = 1000 // a second, of those that ended UNKNOWN
)

// recentProbes keeps recent probes for people. Probes that come faster than its bounds are skipped without a lock.
type recentProbes struct {
	anyGate, unknownGate rateGate
	keyer                func() *cache.Keyer // what decoys are made with

	mu       sync.Mutex // guards what follows
	latest   traceRing
	unknowns traceRing
}

func newRecentProbes(keyer func() *cache.Keyer) *recentProbes {
	return &recentProbes{keyer: keyer, anyGate: rateGate{limit: anyPerSecond}, unknownGate: rateGate{limit: unknownsPerSecond}, latest: traceRing{size: maxRecent}, unknowns: traceRing{size: maxUnknowns}}
}

// trace is one recent probe. It has no address, but a key that only this node can derive from one. Immutable.
type trace struct {
	key cache.Key
	wire.Trace
}

// record keeps a finished probe. The caller owns the probe.
func (r *recentProbes) record(p *probe, o *outcome, sourceName string, now time.Time) {
	unknown := !o.deferred && o.verdict.Status == engine.Unknown
	if unknown && !r.unknownGate.allow(now) || !unknown && !r.anyGate.allow(now) {
		return
	}
	t := r.traceOf(p, o, now)
	t.Egress = sourceName
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest.add(t)
	if unknown {
		r.unknowns.add(t)
	}
}

func (r *recentProbes) traceOf(p *probe, o *outcome, now time.Time) *trace {
	v := &o.verdict
	t := &trace{key: p.key, Trace: wire.Trace{At: now, Provider: p.ev.Route.Provider.ID, Host: v.Details.Host, Rule: v.Rule, Status: v.Status.String(),
		Reason: v.Reason.String(), Attempts: p.ev.Attempts + 1}}
	if o.deferred {
		t.Status = "DEFERRED"
	}
	if s := decidingSighting(p.ev.Seen, &v.Details); s != nil {
		t.Host, t.Event = s.Host, s.Event.String()
		if s.Event == engine.EventReply {
			t.Stage, t.Code, t.Meaning = s.Reply.Stage.String(), s.Reply.Code, s.Finding.Meaning.String()
			t.Enhanced = enhancedText(s.Reply.Enhanced)
			t.Message = engine.Redact(s.Reply.Text(), p.ev.Address)
		}
	}
	t.Decoy = r.decoyOf(p, t.Host)
	return t
}

// decoyOf is what the decoy showed last at the host that decided; nil where it was not asked there.
func (r *recentProbes) decoyOf(p *probe, host string) *wire.Decoy {
	for _, s := range slices.Backward(p.ev.Seen) {
		if s.Subject != engine.SubjectDecoy || s.Host != host {
			continue
		}
		d := &wire.Decoy{At: s.At, Event: s.Event.String()}
		if s.Event == engine.EventReply {
			d.Code, d.Enhanced, d.Meaning, d.Rule = s.Reply.Code, enhancedText(s.Reply.Enhanced), s.Finding.Meaning.String(), s.Finding.Rule
			d.Message = r.redactDecoy(s.Reply.Text(), p.ev.Address, s.At)
		}
		return d
	}
	return nil
}

// redactDecoy removes the target and the decoy from a reply to the decoy.
func (r *recentProbes) redactDecoy(text string, target engine.Address, at time.Time) string {
	if text == "" {
		return ""
	}
	if a, err := engine.Parse(decoyLocalPart(r.keyer(), target.Domain(), at) + "@" + target.Domain()); err == nil {
		text = engine.Redact(text, a)
	}
	return engine.Redact(text, target)
}

// decidingSighting is the sighting that a verdict rests on: the last reply that its details name, else the last sighting.
func decidingSighting(seen []engine.Sighting, d *engine.Details) *engine.Sighting {
	for i := len(seen) - 1; i >= 0; i-- {
		if s := &seen[i]; s.Subject != engine.SubjectDecoy && s.Host == d.Host && s.Reply.Code == d.Code && s.Reply.Stage == d.Stage {
			return s
		}
	}
	if len(seen) == 0 {
		return nil
	}
	return &seen[len(seen)-1]
}

// all lists the recent probes, each once, the newest first.
func (r *recentProbes) all() []*trace {
	r.mu.Lock()
	defer r.mu.Unlock()
	list, old := r.latest.newest(), r.unknowns.newest()
	if len(list) == 0 {
		return nil
	}
	oldest := list[len(list)-1]
	for i, t := range old {
		if t.At.Before(oldest.At) {
			return append(list, old[i:]...)
		}
	}
	return list
}

// rateGate admits about limit probes a second.
type rateGate struct {
	limit  int64
	second atomic.Int64
	n      atomic.Int64
}

func (g *rateGate) allow(now time.Time) bool {
	if s := now.Unix(); g.second.Load() != s {
		g.second.Store(s)
		g.n.Store(0)
	}
	return g.n.Load() < g.limit && g.n.Add(1) <= g.limit
}

// traceRing is a ring of the newest traces.
type traceRing struct {
	size  int
	items []*trace
	next  int // the oldest, once it is full
}

func (m *traceRing) add(t *trace) {
	if len(m.items) < m.size {
		m.items = append(m.items, t)
		return
	}
	m.items[m.next] = t
	m.next = (m.next + 1) % m.size
}

func (m *traceRing) newest() []*trace {
	list := make([]*trace, 0, len(m.items))
	for i := range m.items {
		list = append(list, m.items[(m.next+len(m.items)-1-i)%len(m.items)])
	}
	return list
}

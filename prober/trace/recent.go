package trace

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"probity/engine"
	"probity/engine/redact"
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

// Recent keeps recent probes for people. Probes that come faster than its bounds are skipped without a lock.
type Recent struct {
	anyGate, unknownGate rateGate
	decoy                func(domain string, at time.Time) string

	mu       sync.Mutex // guards what follows
	latest   traceRing
	unknowns traceRing
}

// New makes an empty Recent. decoy is the local part of a domain's decoy at a time: it is removed from replies.
func New(decoy func(domain string, at time.Time) string) *Recent {
	return &Recent{decoy: decoy, anyGate: rateGate{limit: anyPerSecond},
		unknownGate: rateGate{limit: unknownsPerSecond}, latest: traceRing{size: maxRecent},
		unknowns: traceRing{size: maxUnknowns}}
}

// Probe is a probe that has ended. It is read during Record only.
type Probe struct {
	Key      cache.Key // of its address
	Evidence *engine.Evidence
	Verdict  *engine.Verdict
	Deferred bool // it is asked again later
}

// trace is one recent probe. It has no address, but a key that only this node can derive from one. Immutable.
type trace struct {
	key cache.Key
	wire.Trace
}

// Record keeps a probe that was asked from a source.
func (r *Recent) Record(p Probe, source string, now time.Time) {
	v, ev := p.Verdict, p.Evidence
	unknown := !p.Deferred && v.Status == engine.Unknown
	if unknown && !r.unknownGate.allow(now) || !unknown && !r.anyGate.allow(now) {
		return
	}
	t := &trace{key: p.Key, Trace: wire.Trace{At: now, Egress: source, Provider: ev.Route.Provider.ID,
		Host: v.Details.Host, Rule: v.Rule,
		Status: v.Status.String(), Reason: v.Reason.String(), Attempts: ev.Attempts + 1}}
	if p.Deferred {
		t.Status = "DEFERRED"
	}
	if s := decidingSighting(ev.Seen, &v.Details); s != nil {
		t.Host, t.Event = s.Host, s.Event.String()
		if s.Event == engine.EventReply {
			t.Stage, t.Code, t.Meaning = s.Reply.Stage.String(), s.Reply.Code, s.Finding.Meaning.String()
			t.Enhanced = enhancedText(s.Reply.Enhanced)
			t.Message = redact.Text(s.Reply.Text(), ev.Address.Local())
		}
	}
	// What the decoy showed last at that host, if it was asked there.
	for _, s := range slices.Backward(ev.Seen) {
		if s.Subject != engine.SubjectDecoy || s.Host != t.Host {
			continue
		}
		t.Decoy = &wire.Decoy{At: s.At, Event: s.Event.String()}
		if s.Event == engine.EventReply {
			t.Decoy.Code = s.Reply.Code
			t.Decoy.Enhanced = enhancedText(s.Reply.Enhanced)
			t.Decoy.Meaning = s.Finding.Meaning.String()
			t.Decoy.Rule = s.Finding.Rule
			t.Decoy.Message = r.redactDecoy(s.Reply.Text(), ev.Address, s.At)
		}
		break
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.latest.add(t)
	if unknown {
		r.unknowns.add(t)
	}
}

// redactDecoy removes the target and the decoy from a reply to the decoy.
func (r *Recent) redactDecoy(text string, target engine.Address, at time.Time) string {
	if text == "" {
		return ""
	}
	return redact.Text(redact.Text(text, r.decoy(target.Domain(), at)), target.Local())
}

// decidingSighting is the sighting that a verdict rests on: the last reply that its details name, else the last
// sighting.
func decidingSighting(seen []engine.Sighting, d *engine.Details) *engine.Sighting {
	for i := len(seen) - 1; i >= 0; i-- {
		if s := &seen[i]; s.Subject != engine.SubjectDecoy && s.Host == d.Host && s.Reply.Code == d.Code &&
			s.Reply.Stage == d.Stage {
			return s
		}
	}
	if len(seen) == 0 {
		return nil
	}
	return &seen[len(seen)-1]
}

// all lists the recent probes, each once, the newest first.
func (r *Recent) all() []*trace {
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

func (tr *traceRing) add(t *trace) {
	if len(tr.items) < tr.size {
		tr.items = append(tr.items, t)
		return
	}
	tr.items[tr.next] = t
	tr.next = (tr.next + 1) % tr.size
}

func (tr *traceRing) newest() []*trace {
	list := make([]*trace, 0, len(tr.items))
	for i := range tr.items {
		list = append(list, tr.items[(tr.next+len(tr.items)-1-i)%len(tr.items)])
	}
	return list
}

func enhancedText(e engine.Enhanced) string {
	if e.Class == 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d.%d", e.Class, e.Subject, e.Detail)
}

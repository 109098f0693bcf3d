package hostqueue

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"

	"probity/engine"
	"probity/prober/budget"
	"probity/store/cache"
)

// Probe is one address on its way to a verdict.
//
// There is one for each row in memory, and the garbage collector scans them all, so the fields are small.
type Probe struct {
	Ev     engine.Evidence
	Policy engine.Policy
	Facts  []DomainFact // what was known of the domain's decoys when the row came; shared, read-only
	Key    cache.Key

	set    atomic.Pointer[Set]
	urgent atomic.Bool // a single call waits for it

	// Guarded by the ready queue's mutex while it has the probe; the code that removes it becomes the owner.
	Sends            uint8 // RCPTs sent, answered or not: at most MaxSends
	Priority         budget.Priority
	connectionLosses int16      // lost connections, as engine.Next weighs them: see Queue.retryFirst
	firstSent        uint32     // Unix milliseconds modulo 2^32 when it was first sent: see Group.MarkSent; 0: never
	domain           *Domain    // in which it waits or is asked
	prev, next       *Probe     // neighbours in the list that it waits in
	inList           *probeList // that list; nil while it is being asked
	answered         moment     // the last time
}

// MaxSends bounds how often one probe is sent. On each connection at least one recipient is answered or blamed, so only
// a hostile receiver can make a probe reach it.
const MaxSends = 24

// Set is the set that has the probe; nil if none has yet.
func (p *Probe) Set() *Set { return p.set.Load() }

// Urge raises the probe's priority when its queue moves it on or holds it next: a single call waits for it now.
// Set.Promote raises it at once if it is queued.
func (p *Probe) Urge() { p.urgent.Store(true) }

// ApplyUrgency raises the priority of a probe that a single call waits for.
func (p *Probe) ApplyUrgency() {
	if p.urgent.Load() {
		p.Priority, p.Policy.CallerWaits = budget.Single, true
	}
}

// MarkSent records when the work on the group's probes began, unless it had begun before: they were sent, or the
// connection for them was opened.
func (g *Group) MarkSent(at time.Time) {
	sent := uint32(at.UnixMilli()) | 1
	for i := range g.Recipients {
		if p := g.Recipients[i].Probe; p != nil && p.firstSent == 0 {
			p.firstSent = sent
		}
	}
}

// Asked returns how many milliseconds the work on the probe has taken until now, 1 or more; 0 if it was never sent.
func (p *Probe) Asked(now time.Time) uint32 {
	if p.firstSent == 0 {
		return 0
	}
	return max((uint32(now.UnixMilli())|1)-p.firstSent, 1)
}

// Queued reports whether no session has p.
func (p *Probe) Queued() bool { return p.inList != nil }

// lastWait returns how long the probe waited before this attempt; before the first, how long it will wait after it.
func (p *Probe) lastWait() time.Duration {
	s := p.Policy.Schedule
	if len(s) == 0 {
		return time.Minute
	}
	return max(s[min(max(0, p.Ev.Attempts-1), len(s)-1)], time.Millisecond)
}

// probeList is a queue of probes that also permits removal from the middle. The probes are linked in a ring.
type probeList struct {
	first *Probe // the one before it is the last
	n     int
}

func (l *probeList) push(p *Probe) {
	p.inList = l
	l.n++
	if l.n == 1 {
		l.first, p.prev, p.next = p, p, p
		return
	}
	p.prev, p.next = l.first.prev, l.first
	p.prev.next, p.next.prev = p, p
}

func (l *probeList) remove(p *Probe) {
	p.prev.next, p.next.prev = p.next, p.prev
	l.n--
	if l.n == 0 {
		l.first = nil
	} else if l.first == p {
		l.first = p.next
	}
	p.inList, p.prev, p.next = nil, nil, nil
}

func (l *probeList) pop() *Probe {
	p := l.first
	if p != nil {
		l.remove(p)
	}
	return p
}

// all iterates over the list, which must not change meanwhile.
func (l *probeList) all() iter.Seq[*Probe] {
	return func(yield func(*Probe) bool) {
		for p, n := l.first, l.n; n > 0 && yield(p); n-- {
			p = p.next
		}
	}
}

// sightings is room for what most probes see: a target and its decoy.
type sightings [2]engine.Sighting

// seenPool reuses them: probes are short-lived. BenchmarkVerify shows the bytes per row.
var seenPool sync.Pool

// DeliverTarget appends the reply to a target to its evidence, in pooled memory, and moves the probe on, unless it
// waits for its control.
func (r *Replies) DeliverTarget(p *Probe, seen engine.Sighting) {
	if p.Ev.Seen == nil {
		if a, ok := seenPool.Get().(*sightings); ok {
			p.Ev.Seen = a[:0]
		}
	}
	p.Ev.Append(seen)
	if r.awaitControl(p, &seen) {
		return
	}
	r.queue.set.Owner.Advance(p, r.Now, First)
}

// Recycle takes the sightings of a probe that has ended: its verdict has copies, and only its owner used them.
func (p *Probe) Recycle() {
	if seen := p.Ev.Seen; cap(seen) == len(sightings{}) {
		a := (*sightings)(seen[:cap(seen)])
		*a = sightings{}
		seenPool.Put(a)
	}
	p.Ev.Seen = nil
}

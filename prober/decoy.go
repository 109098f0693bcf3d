package prober

import (
	"strings"
	"time"

	"probity/engine"
	"probity/store/cache"
)

type decoyState uint8

const (
	decoyUnknown decoyState = iota
	decoyWanted             // in a ring of the group
	decoyAsking             // a session has it
	decoyKnown              // sighting holds
)

func (s decoyState) busy() bool { return s == decoyWanted || s == decoyAsking }

// decoy is what the random address of a domain has shown at one host. Guarded by the lane's mutex.
type decoy struct {
	state    decoyState
	sighting engine.Sighting
	waiting  list     // accepted or greylisted probes that wait for it
	turn     priority // theirs, in whose ring it stands while it is wanted
	tries    int      // times that it was asked and not answered
	nameless int      // times that the host's name could not be looked up
	asked    int      // times that it was sent
	suspect  uint64   // accepted under suspicion, at this of the lane's counts of answers; 0 when it was not (suspect.go)
}

// maxDecoyTries is how often a decoy goes unanswered before the domain is left unconfirmed.
const maxDecoyTries = 3

// maxNameless is the same where the host's name cannot be looked up, which is more often our resolver's fault: ten minutes.
const maxNameless = 20

// answers reports a sighting that may be used for a target. A decoy that was put off says nothing about a target that was
// accepted later: it is asked again after the wait that a target would have.
func (d *decoy) answers(target engine.Meaning, wait time.Duration, now time.Time) bool {
	if d.state != decoyKnown {
		return false
	}
	age := now.Sub(d.sighting.At)
	if d.sighting.Deferred() && !d.refused() && !deferral(target) {
		return age < wait
	}
	return age < cache.LifeFact
}

func deferral(m engine.Meaning) bool {
	return m == engine.Greylisted || m == engine.RateLimited || m == engine.Temporary
}

// domainFact is what a decoy proved about a domain at a host.
type domainFact struct {
	domain, host string
	fact         cache.Fact
}

// factsOf reads what is kept about a domain at the hosts that may be asked. No lock is held.
func (p *Prober) factsOf(domain string, hosts []string, now time.Time) (facts []domainFact) {
	const tried = 3 // hosts at most: see engine.Next
	for _, h := range hosts[:min(len(hosts), tried)] {
		if f, ok := p.cfg.Cache.Fact(domain, h, now); ok {
			facts = append(facts, domainFact{domain, h, f})
		}
	}
	return facts
}

// recall fills a place's decoy from what was kept about the domain when the probe came.
func (pl *place) recall(p *probe) {
	if pl.decoy.state != decoyUnknown {
		return
	}
	for i := range p.facts {
		if f := &p.facts[i]; f.host == pl.host {
			pl.decoy.state, pl.decoy.sighting = decoyKnown, f.fact.Sighting(pl.host)
		}
	}
}

// awaitDecoy lets a probe wait for the decoy of its place, and has it asked unless it is on its way.
func (l *lane) awaitDecoy(p *probe, pl *place) {
	p.place = pl
	pl.decoy.waiting.push(p)
	if !pl.decoy.state.busy() {
		l.wantDecoy(pl)
	} else if p.who != bulk {
		l.hastenDecoy(pl, p.who)
	}
}

// hastenDecoy has the decoy asked for somebody of a higher priority: it is wanted if those who wait were only in doubt.
func (l *lane) hastenDecoy(pl *place, who priority) {
	switch pl.decoy.state {
	case decoyWanted:
		pl.group.hasten(pl, who)
	case decoyKnown:
		l.wantDecoy(pl)
	}
	l.ringGroup(pl.group, who)
}

// hasten lets a place whose decoy is wanted stand among those of a priority, if it stands in the ring of a lower one.
func (g *group) hasten(pl *place, who priority) {
	if d := &pl.decoy; who > d.turn {
		without(g.wants(d), pl)
		d.turn = who
		g.wants(d).push(pl)
	}
}

// wantDecoy has the decoy of a place asked, in the turn of who waits for it.
func (l *lane) wantDecoy(pl *place) {
	d := &pl.decoy
	d.state, d.turn, d.suspect = decoyWanted, d.who(), 0
	pl.group.wants(d).push(pl)
	l.ringGroup(pl.group, d.turn)
}

// wants is the ring in which a wanted decoy stands.
func (g *group) wants(d *decoy) *ring[*place] {
	if d.tries > 0 {
		return &g.cutoff[d.turn]
	}
	return &g.wanted[d.turn]
}

// decoyShown gives a decoy's sighting to all who wait for it. The mutex is held.
func (l *lane) decoyShown(pl *place, seen engine.Sighting, now time.Time, out []ended) []ended {
	pl.decoy.state, pl.decoy.sighting, pl.decoy.tries, pl.decoy.nameless, pl.decoy.asked = decoyKnown, seen, 0, 0, 0
	for waiting := pl.decoy.waiting.n; waiting > 0; waiting-- {
		p := pl.decoy.waiting.pop()
		if !l.believes(p, pl, now) {
			l.doubt(p, pl)
			continue
		}
		p.ev.Append(seen)
		out = l.move(p, now, false, out)
	}
	return out
}

// noAnswer is the sighting of a decoy that met an event instead.
func noAnswer(pl *place, e engine.Event, now time.Time) engine.Sighting {
	if e == engine.EventReply {
		e = engine.EventClosed
	}
	return engine.Sighting{Subject: engine.SubjectDecoy, Event: e, Host: pl.host, At: now}
}

// decoysFailed counts a try for the decoys that were wanted of a host that is down, unless the fault may be ours. Their next try is
// soon after the first, as a greeting may be put off for a moment and somebody may wait for a single, and then when others may come
// again, too; after three, who waits is told that there was no answer. The mutex is held.
func (l *lane) decoysFailed(s *session, g *group, e engine.Event, now time.Time, out []ended) []ended {
	ours := s.dialled && s.from.health.doubts(s.began)
	pause := minBackoff
	for _, pl := range g.unwant() {
		d := &pl.decoy
		if d.count(e, ours) != 1 {
			pause = failureLife
		}
		switch {
		case d.waiting.n == 0:
			l.tidy(pl)
		case d.tries < maxDecoyTries && d.nameless < maxNameless:
			l.wantDecoy(pl)
		default:
			out = l.decoyShown(pl, noAnswer(pl, e, now), now, out)
			l.tidy(pl)
		}
	}
	if g.decoys() > 0 {
		l.block(g, single, now.Add(l.scaled(pause)), now)
	}
	return out
}

// count counts a failure, and tells how many there are now.
func (d *decoy) count(e engine.Event, ours bool) int {
	switch {
	case e == engine.EventHostServFail:
		d.nameless++
	case !ours:
		d.tries++
	}
	return d.tries + d.nameless
}

// unwant drops the decoys that are wanted, and says of which places those were.
func (g *group) unwant() (were []*place) {
	for who := range priorities {
		for _, r := range [...]*ring[*place]{&g.cutoff[who], &g.wanted[who]} {
			for r.n > 0 {
				pl := r.pop()
				pl.decoy.state = decoyUnknown
				were = append(were, pl)
			}
		}
	}
	return were
}

// who is the priority of a decoy: the highest of those who wait.
func (d *decoy) who() priority {
	who := bulk
	for p := d.waiting.first; p != nil && who != single; p = p.next {
		who = max(who, p.who)
	}
	return who
}

// decoyLocal is the local part of a domain's decoy: natural-looking, and beyond guessing by anyone who has not this node's
// secret. It follows from the domain and the week, so that a greylisted decoy ages under one name (RFC 6647 section 2.3).
func decoyLocal(k *cache.Keyer, domain string, now time.Time) string {
	week := now.Unix() / int64(cache.LifeFact/time.Second)
	d := k.Digest("decoy", domain+string(rune('a'+week%26)))
	var b strings.Builder
	for i, c := range d[:6] {
		if i == 3 {
			b.WriteByte('.')
		}
		b.WriteString(decoyOnsets[int(c)%len(decoyOnsets)])
		b.WriteString(decoyRimes[int(d[6+i])%len(decoyRimes)])
	}
	return b.String()
}

// Six syllables of one of 21 onsets and one of 20 rimes: 52 bits, 13 to 25 letters, and no provider's mailbox rule broken.
var (
	decoyOnsets = [...]string{"b", "br", "d", "dr", "f", "g", "gr", "h", "k", "kl", "l", "m", "n", "p", "r", "s", "st", "t", "tr", "v", "w"}
	decoyRimes  = [...]string{"a", "e", "i", "o", "u", "al", "an", "ar", "el", "en", "er", "il", "in", "ir", "ol", "on", "or", "ul", "un", "ur"}
)

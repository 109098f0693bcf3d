package prober

import (
	"slices"
	"time"

	"probity/engine"
	"probity/store/cache"
)

// A decoy that a host under suspicion accepts shows that its domain accepts everybody, or that the host has begun to accept everybody
// without a word. Which of the two, the next refusal of the host tells: a host that refuses a later recipient was not silent. So the probes that
// wait for the decoy wait for that refusal too, as accepted targets do (doubt.go). It makes the decoy's acceptance a fact of the domain, which
// no later suspicion touches. Where no refusal comes in time, or none can be expected, the probes are put off and nothing is kept: the domain
// is asked again when the suspicion is over.

// silenceLife is how long a receiver that accepts silently is left alone: past the hour that it counts.
const silenceLife = time.Hour

// silent is what is found of a host that may have begun to accept everybody: who waits asks again.
func silent() engine.Finding {
	return engine.Finding{Meaning: engine.RateLimited, Blame: engine.BlameUs, Rule: ruleSilent}
}

// ruleSilent is the rule of that finding.
const ruleSilent = "default/accepts-silently"

// suspect is a decoy that was accepted under suspicion, at this of the lane's counts of answers.
type suspect struct {
	place    *place
	accepted uint64
}

// unmask judges a decoy that a host under suspicion has accepted. Where it was refused before, the host has begun to accept everybody, and
// is left alone until its hour is over; else its acceptance is believed only next to a refusal that came later.
func (h *hearing) unmask(pl *place, seen *engine.Sighting) {
	g := pl.group
	switch {
	case seen.Finding.Meaning != engine.Accepted:
	case g.near && pl.decoy.refused():
		seen.Finding = silent()
		h.masked = seen
		h.s.leave = true
		h.l.pause(h.now.Add(h.l.scaled(silenceLife)))
		h.l.prober.metrics.actions.WithLabelValues(engine.ActionPause.String()).Inc()
	case g.hot && g.refusedNow <= h.l.heard: // no recipient behind it in the same transaction was refused
		pl.decoy.suspect = h.l.heard
		g.suspects.push(suspect{pl, h.l.heard})
	}
}

// confirm ends the suspicion of decoys that were accepted before a recipient was sent that is refused now: they have shown what they seemed to
// show. Those that no refusal has followed in time prove nothing. The mutex is held.
func (h *hearing) confirm() {
	g := h.s.group
	for ; g.suspects.n > 0; g.suspects.pop() {
		s := g.suspects.peek()
		d := &s.place.decoy
		until := d.sighting.At.Add(h.l.scaled(doubtLife))
		switch {
		case d.suspect != s.accepted: // it was asked again since, or given up
		case h.now.After(until):
			d.mistrust(until)
		case g.refusedAll >= s.accepted:
			d.suspect = 0
			h.keep(s.place)
		default:
			return
		}
	}
}

// keep has what a decoy has shown kept as a fact of its domain at the host, if it is one.
func (h *hearing) keep(pl *place) {
	if f, ok := cache.FactOf(&pl.decoy.sighting); ok {
		h.facts = append(h.facts, domainFact{pl.domain, pl.host, f})
	}
}

// giveUp lets no probe wait for a refusal after an accepted decoy where none can be expected: nothing more is asked or awaited of the host, it has
// shown that it is silent, or a single waits. The mutex is held.
func (h *hearing) giveUp() {
	g := h.s.group
	for _, pl := range slices.Clone(g.doubted) {
		who := pl.decoy.who()
		if pl.decoy.suspect == 0 || h.masked == nil && who != single && (!g.nobodyElse(who) || g.decoys()+len(g.volleys) > 0) {
			continue
		}
		pl.decoy.mistrust(h.now)
		h.release(pl)
		g.doubted = slices.DeleteFunc(g.doubted, func(other *place) bool { return other == pl })
	}
}

// mistrust makes nothing of a decoy's acceptance.
func (d *decoy) mistrust(at time.Time) {
	d.suspect, d.sighting.Finding, d.sighting.At = 0, silent(), at
}

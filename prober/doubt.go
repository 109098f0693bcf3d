package prober

import (
	"slices"
	"time"

	"probity/engine"
)

// Some receivers react to many unknown recipients by accepting every recipient, without a word, until the hour is over. What a
// decoy showed in the morning then proves nothing about an acceptance of now. So where a receiver may do that, and half of an
// hour's refusals have been heard, an acceptance is believed only when the host has refused a recipient after it: another target,
// or a decoy, which is asked when several wait in vain, or no other target of their kind of job is left to ask, or before the host
// is left alone as a tarpit (sticky.go). "After" is the host's order: later in the same transaction, or in one that was sent when
// the acceptance had been heard. Two connections are heard in any order: so where recipients under way may make up half of an
// hour's refusals, an acceptance waits until all that were sent before it was heard have been heard too, and is doubted or believed
// then. What is under way over other routes to the same address comes at a time that is not known here: it counts as heard for
// an acceptance, but not for a decoy that nothing was known of, or a busy catch-all host would never be called one.
// A doubt stays when the hour is over: the refusals of the next prove nothing about the silence of the last.
// An accepted decoy is an acceptance like any other (suspect.go): what one has shown without suspicion, or before a refusal, stays.

// doubtful reports a receiver that may accept silently: one that is known to, and any that is unknown.
func (l *lane) doubtful() bool { return l.shared || l.provider.AcceptsSilently }

// heat notes whether so many refusals have been heard of the group's host in this hour, over its route or at its address, that
// its acceptances are doubted, or would be if all who are under way were refused; and the last refusal of this transaction. The
// mutex is held.
func (h *hearing) heat() {
	l, g := h.l, h.s.group
	limit := l.provider.Limits.RefusalsPerHour / 2
	if !l.doubtful() || limit == 0 {
		return
	}
	heard, others := l.pace.refuse.heard(h.now), 0
	if dest := h.s.dest; dest != nil {
		dest.mu.Lock()
		heard = max(heard, dest.pace.refuse.heard(h.now))
		others = max(0, dest.pace.refuse.out-g.underWay())
		dest.mu.Unlock()
	}
	g.hot, g.near, g.warm = heard >= limit, heard+others >= limit, heard+others+g.underWay() >= limit
	g.base = l.heard
	for k, a := range h.s.seen {
		if a.finding.Blame == engine.BlameRecipient && a.reply.Permanent() || a.finding.NamesUnknown {
			g.refusedAll, g.refusedNow, h.refusing = max(g.refusedAll, h.s.sent), l.heard+uint64(k)+1, true
		}
	}
}

// heard is how many events of the window are over and done with.
func (w *window) heard(now time.Time) int {
	w.advance(now)
	return w.used
}

// volley is a group of transactions that was sent and is not heard yet.
type volley struct {
	sent uint64 // the lane's count of answers when it was taken
	n    int    // its recipients
}

// launch notes that the session's transactions are sent.
func (g *group) launch(s *session) { g.volleys = append(g.volleys, volley{s.sent, len(s.asks)}) }

// land notes that they are heard, or lost.
func (g *group) land(s *session) {
	if i := slices.Index(g.volleys, volley{s.sent, len(s.asks)}); i >= 0 {
		g.volleys = slices.Delete(g.volleys, i, i+1)
	}
}

// underWay is how many recipients have been sent and not heard.
func (g *group) underWay() (n int) {
	for _, v := range g.volleys {
		n += v.n
	}
	return n
}

// unheard reports that somebody is under way who was sent before the probe's acceptance was heard, and whose refusal may have come
// before it. Volleys stand in the order of their counts.
func (g *group) unheard(p *probe) bool {
	return g.warm && len(g.volleys) > 0 && g.volleys[0].sent < p.accepted
}

// mood is how an acceptance was heard: whether its host may have fallen silent by then.
type mood uint8

const (
	cool mood = iota // no: it had refused too few
	warm             // only if those who were under way had been refused by then
	hot              // yes
)

// suspicion is the same in the engine's words.
func (m mood) suspicion() engine.Suspicion { return engine.Suspicion(m) }

func (g *group) mood() mood {
	switch {
	case g.near:
		return hot
	case g.warm && len(g.volleys) > 0:
		return warm
	}
	return cool
}

// doubtLife is how soon after an acceptance a refusal must come to prove it: later the host's hour may be over, and with it its
// silence. Who was not proved by then is asked again.
const doubtLife = 2 * time.Minute

// provable is until when a refusal can prove an acceptance.
func (l *lane) provable(p *probe) time.Time {
	return l.prober.born.Add(p.answered + l.scaled(doubtLife))
}

// stale reports an acceptance that nothing can prove any more.
func (l *lane) stale(p *probe, now time.Time) bool { return p.mood != cool && now.After(l.provable(p)) }

// believes reports that what the place's decoy has shown may be used together with the acceptance of a probe.
func (l *lane) believes(p *probe, pl *place, now time.Time) bool {
	g := pl.group
	switch {
	case pl.decoy.suspect != 0:
		return false
	case !pl.decoy.refused() || p.mood == cool:
		return true
	case l.stale(p, now):
		return false
	case g.refusedAll >= p.accepted || p.accepted > g.base && g.refusedNow > p.accepted:
		return true
	case g.near:
		p.mood = hot
	case p.mood == warm && !g.unheard(p):
		p.mood = cool
		return true
	}
	return false
}

// refused reports a decoy whose last answer showed that the host refuses unknown recipients.
func (d *decoy) refused() bool { return d.sighting.RefusesUnknown() }

// doubt lets an accepted probe wait until its host refuses somebody.
func (l *lane) doubt(p *probe, pl *place) {
	p.place = pl
	pl.decoy.waiting.push(p)
	if !slices.Contains(pl.group.doubted, pl) {
		pl.group.doubted = append(pl.group.doubted, pl)
	}
}

// resolve ends the doubts that this transaction has answered, and has a decoy asked for those that it has not. Who only waits for
// others to be heard is not in doubt yet. The mutex is held.
func (h *hearing) resolve() {
	g := h.s.group
	if len(g.doubted) == 0 {
		return
	}
	waiting := g.doubted
	g.doubted = nil
	unsure, asking, first, who := 0, false, (*place)(nil), bulk
	for _, pl := range waiting {
		if h.release(pl); pl.decoy.waiting.n > 0 {
			if !slices.Contains(g.doubted, pl) {
				g.doubted = append(g.doubted, pl)
			}
			asking = asking || pl.decoy.state.busy()
			if n := pl.unsure(); n > 0 {
				unsure += n
				if p := pl.decoy.who(); first == nil || p > who {
					first, who = pl, p
				}
			}
		}
	}
	switch {
	case unsure == 0 || asking:
	case unsure >= maxUnsure || g.nobodyElse(who):
		h.l.wantDecoy(first)
	default:
		h.undecided, h.undecidedAt = unsure, first
	}
	h.giveUp()
}

// nobodyElse reports that no target will soon be refused for those in doubt, the highest of which has this priority. A single waits
// for no other probe, and a short job not for a long one, whose turn at the host may be hours away.
func (g *group) nobodyElse(who priority) bool {
	switch who {
	case single:
		return true
	case short:
		return g.queued[short]+g.queued[single] == 0
	}
	return g.queued[bulk]+g.queued[short]+g.queued[single] == 0
}

// unsure is how many acceptances wait for a refusal that the place's decoy may bring.
func (pl *place) unsure() (n int) {
	if pl.decoy.suspect != 0 {
		return 0
	}
	for p := pl.decoy.waiting.first; p != nil; p = p.next {
		if p.mood == hot {
			n++
		}
	}
	return n
}

// maxUnsure is how many acceptances may wait for a refusal of a target before a decoy is spent on them.
const maxUnsure = 8

// release sends on those of a place who are in doubt no more: the host has refused somebody since, or has shown its mask.
func (h *hearing) release(pl *place) {
	if pl.decoy.state.busy() || pl.decoy.suspect != 0 {
		return
	}
	for n := pl.decoy.waiting.n; n > 0; n-- {
		p := pl.decoy.waiting.pop()
		switch {
		case h.masked != nil:
			p.ev.Append(*h.masked)
		case h.l.believes(p, pl, h.now):
			p.ev.Append(pl.decoy.sighting)
		case h.l.stale(p, h.now):
			p.ev.Append(engine.Sighting{Subject: engine.SubjectDecoy, Host: pl.host, Reply: pl.decoy.sighting.Reply, Finding: silent(), At: h.l.provable(p)})
		default:
			pl.decoy.waiting.push(p)
			continue
		}
		h.out = h.l.move(p, h.now, false, h.out)
	}
	h.l.tidy(pl)
}

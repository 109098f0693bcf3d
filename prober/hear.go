package prober

import (
	"context"
	"slices"
	"strings"
	"time"

	"probity/engine"
	"probity/engine/smtp"
)

// answer is the reply to one recipient of a transaction.
type answer struct {
	i       int
	reply   engine.Reply
	finding engine.Finding
}

// ask sends the transaction that was taken and hands on what came back. False when the connection is of no more use.
func (s *session) ask(ctx context.Context) bool {
	s.seen = slices.Grow(s.seen[:0], len(s.asks))
	began := time.Now()
	o := s.conn.Transaction(ctx, s.rcpts, s.hear)
	l, now := s.lane, time.Now()
	l.mu.Lock()
	h := hearing{s: s, l: l, o: &o, now: now, out: slices.Grow(s.out[:0], len(s.asks))}
	h.all()
	h.unstick(now.Sub(began))
	if s.took(now.Sub(began), len(s.asks)-len(o.NoUTF8)) {
		l.ringAll(s.group)
	}
	l.prober.metrics.heard(len(s.asks), len(s.seen))
	s.asks = s.asks[:0]
	if !s.severed {
		l.kick(now)
	}
	l.mu.Unlock()
	for _, f := range h.facts {
		if err := l.prober.cfg.Cache.PutFact(f.domain, f.host, &f.fact); err != nil {
			l.prober.cfg.Log.Error("a decoy fact was not kept", "error", err)
		}
	}
	l.prober.finish(l, h.out, now)
	clear(h.out)
	s.out = h.out
	return !s.conn.Botched() && !s.leave
}

// took tells the distance how long a transaction of n recipients took beyond what more of them would not add to: the round trip
// that they make together. Without PIPELINING there is one for each, and for RSET and MAIL before. True where another connection
// may be worth its price now, and was not before: nothing else looks at the probes that wait already.
func (s *session) took(all time.Duration, n int) bool {
	l, g := s.lane, s.group
	worth := l.worth()
	switch {
	case n <= 0: // no recipient was asked
	case !s.conn.Extensions().Pipelining:
		l.far.asked(all, n+2)
	case g.apart || g.batch > 0:
		l.far.asked(all, n)
	default:
		l.far.asked(all-s.conn.Echo(), n)
	}
	return l.worth() < worth
}

// hear keeps a reply, classified; positive ones vouch for the connection.
func (s *session) hear(i int, r engine.Reply) {
	f := s.classify(r)
	s.seen = append(s.seen, answer{i, r, f})
	if f.Meaning == engine.Accepted {
		s.accepted[s.asks[i].place.domain] = true
	}
}

// hearing hands the replies of one transaction to the probes they are about. The lane's mutex is held all along.
type hearing struct {
	s   *session
	l   *lane
	o   *smtp.Outcome
	now time.Time

	out   []ended
	facts []domainFact
	first int // of the answers, the first of the transaction that is told

	refusing bool             // some recipient was refused for good
	masked   *engine.Sighting // the decoy that showed that everybody is accepted now

	undecided   int    // acceptances in doubt that wait for a target's refusal, no decoy being wanted for them
	undecidedAt *place // the first of them
}

func (h *hearing) all() {
	h.book()
	h.s.group.land(h.s)
	h.heat()
	h.confirm()
	for _, a := range h.s.asks {
		a.place.flying--
	}
	switch {
	case !h.refusedAtMail():
		h.answers()
	case len(h.s.seen) == 0:
		h.mailRefused()
	default:
		h.answers()
		h.usedUp()
	}
	h.resolve()
	for _, a := range h.s.asks {
		h.l.tidy(a.place)
	}
}

// refusedAtMail reports that no recipient of a transaction could be named: MAIL was refused or never answered.
func (h *hearing) refusedAtMail() bool {
	return !h.o.Mail.Positive() && len(h.o.NoUTF8) < len(h.s.asks)
}

// book settles the budgets.
func (h *hearing) book() {
	b := billOf(h.s.asks, h.s.seen, h.o, h.s.conn.Extensions().Pipelining)
	h.s.settle(len(h.s.asks), b.unsent, b.accepted, b.mild, h.now)
	h.s.spend(b.long, b.longRefused, h.now)
}

// mailRefused tells a refused MAIL. The first of a connection speaks about us at this host (RFC 5321 section 3.3); a later
// one says that the connection is used up.
func (h *hearing) mailRefused() {
	s, f := h.s, h.o.Fault
	if h.o.Mail.Code != 0 {
		f = smtp.Fault{Stage: engine.StageMail, Reply: h.o.Mail}
	}
	s.leave = true
	for _, a := range s.asks {
		if a.p == nil {
			h.decoyUnanswered(a.place, f.Event, !s.progress)
		}
	}
	if s.progress || f.Event == engine.EventInternal {
		h.internalOrUsedUp(f)
		return
	}
	seen := s.sighting(f, h.now)
	for _, a := range s.asks {
		if a.p != nil {
			a.p.ev.Append(seen)
			h.out = h.l.move(a.p, h.now, true, h.out)
		}
	}
	h.out = h.l.failed(s, f, seen, h.now, h.out)
}

// usedUp tells a refused MAIL behind transactions of the same group that were answered: the connection is used up, and where it
// was used up by the group, the host is spared groups.
func (h *hearing) usedUp() {
	s, r := h.s, h.o.Mail
	if r.Code == 0 {
		r = h.o.Fault.Reply
	}
	s.leave, s.group.apart = true, true
	if r.Code != 0 {
		h.out = h.l.act(s, r, s.classify(r), h.now, h.out)
	}
}

// internalOrUsedUp puts everyone back in front of the queue. A recipient of a transaction of one that cannot be sent at all
// is our own failure to tell.
func (h *hearing) internalOrUsedUp(f smtp.Fault) {
	s := h.s
	if f.Reply.Code != 0 {
		h.out = h.l.act(s, f.Reply, s.classify(f.Reply), h.now, h.out)
	}
	if f.Event == engine.EventInternal && f.Stage == engine.StageRcpt && !s.severed {
		s.group.batch = max(1, len(s.asks)/2)
		if len(s.asks) == 1 && s.asks[0].p != nil {
			s.asks[0].p.ev.Append(engine.Sighting{Event: engine.EventInternal, Host: s.group.host, At: h.now})
		}
	}
	for _, a := range slices.Backward(s.asks) {
		if a.p != nil {
			h.out = h.l.move(a.p, h.now, true, h.out)
		}
	}
}

// answers tells each recipient its reply, puts back who got none, and does what the replies ask of the lane.
func (h *hearing) answers() {
	s := h.s
	told := slices.Grow(s.told[:0], len(s.asks))[:len(s.asks)]
	clear(told)
	s.told = told
	for k, a := range s.seen {
		h.l.heard++
		if s.rcpts[a.i].Anew {
			h.first = k
		}
		if told[a.i] = true; h.notAnAnswer(k, a) {
			told[a.i] = false
			continue
		}
		h.tell(a)
	}
	for _, i := range h.o.NoUTF8 {
		told[i] = true
		h.target(s.asks[i], engine.Sighting{Subject: engine.SubjectTarget, Event: engine.EventNoSMTPUTF8, Host: s.group.host, At: h.now})
	}
	h.unanswered(told)
	h.revive()
	if len(s.seen) > 0 {
		s.proceed()
		h.l.backoff = 0
		delete(h.l.mute, s.group.host)
	} else if s.conn.Botched() && !s.severed {
		h.l.retreat(h.l.scaled(minBackoff), h.l.scaled(maxBackoff), h.now)
		h.mute()
	}
}

// mute notes a host that took recipients and answered none. When it has done so three times in a row, who comes to it is told
// at once: rows go home between two tries of a slow host, and would begin anew for ever.
func (h *hearing) mute() {
	l, host := h.l, h.s.group.host
	if h.o.Fault.Event == engine.EventInternal || h.s.group.healthy > 0 || len(l.mute) >= maxDown {
		return
	}
	set(&l.mute, host, l.mute[host]+1)
	if l.mute[host] < maxMute || len(l.down) >= maxDown {
		return
	}
	delete(l.mute, host)
	set(&l.down, host, failure{sighting: h.s.sighting(h.o.Fault, h.now), until: h.now.Add(l.scaled(muteLife))})
	h.out = l.emptyOut(h.s.group, h.now, h.out)
}

// notAnAnswer reports a reply that is about the transaction or the connection and not about its recipient, who is asked again:
// a 421 behind answers on its connection (RFC 5321 section 3.8), too many recipients (section 4.5.3.1.10), too many domains.
func (h *hearing) notAnAnswer(k int, a answer) bool {
	s := h.s
	closing := a.reply.Code == 421
	if k -= h.first; a.reply.Code/100 != 4 || k == 0 && !(closing && s.progress) {
		return false
	}
	switch {
	case closing:
		h.out = h.l.act(s, a.reply, a.finding, h.now, h.out)
		return true
	case tooMany(a.reply):
		if s.group.batch == 0 || k < s.group.batch {
			s.group.batch = k
		}
		return true
	case h.anotherDomain(a):
		s.group.oneDomain = true
		return true
	}
	return false
}

// tooMany reports 452 4.5.3 (RFC 3463 section 3.6).
func tooMany(r engine.Reply) bool {
	return r.Enhanced.Subject == 5 && r.Enhanced.Detail == 3 || r.Code == 452 && strings.Contains(strings.ToLower(r.Text()), "too many recipients")
}

// anotherDomain reports a deferral that only the recipients of other domains than the first got: some receivers take one
// domain a transaction. It is believed once.
func (h *hearing) anotherDomain(a answer) bool {
	first := h.s.seen[h.first]
	return !h.s.group.oneDomain && !deferral(first.finding.Meaning) && deferral(a.finding.Meaning) &&
		h.s.asks[a.i].place.domain != h.s.asks[first.i].place.domain
}

// tell hands a reply to its target, or to all who wait for its decoy.
func (h *hearing) tell(a answer) {
	s, who := h.s, h.s.asks[a.i]
	seen := engine.Sighting{Subject: engine.SubjectTarget, Host: s.group.host, Reply: a.reply, Finding: a.finding, At: h.now, Conn: s.name,
		Vouched: s.accepted[who.place.domain] && a.finding.Meaning != engine.Accepted}
	h.out = h.l.act(s, a.reply, who.findingDue(&seen), h.now, h.out)
	if who.p != nil {
		who.p.accepted, who.p.mood, who.p.answered = h.l.heard, s.group.mood(), h.now.Sub(h.l.prober.born)
		h.target(who, seen)
		return
	}
	h.decoy(who.place, seen)
}

// findingDue is the finding of a reply with the action that is due now. A refusal of the sender only slows the queue where it may not be the
// host's last word: the same connection accepted another recipient from this sender, or the refusal is temporary and its recipient will
// be asked again, when a callout to our domain may be complete.
func (a ask) findingDue(seen *engine.Sighting) engine.Finding {
	f := seen.Finding
	again := seen.Deferred() && (a.p == nil || a.p.ev.Attempts < len(a.p.policy.Schedule))
	if f.Meaning == engine.SenderRefused && f.Action.Kind == engine.ActionQuarantine && (again || seen.Vouched) {
		f.Action = engine.Action{Kind: engine.ActionSlow, For: 10 * time.Minute}
		if seen.Reply.Code == 421 {
			f.Action.Kind = engine.ActionClose
		}
	}
	return f
}

// decoy hands what a decoy has shown to all who wait for it, and to the cache, unless it is under suspicion.
func (h *hearing) decoy(pl *place, seen engine.Sighting) {
	seen.Subject = engine.SubjectDecoy
	h.unmask(pl, &seen)
	h.l.prober.metrics.decoys.Inc()
	h.out = h.l.decoyShown(pl, seen, h.now, h.out)
	if pl.decoy.suspect == 0 {
		h.keep(pl)
	}
}

func (h *hearing) target(a ask, seen engine.Sighting) {
	h.l.prober.spare.saw(a.p, seen)
	h.out = h.l.move(a.p, h.now, true, h.out)
}

// decoyUnanswered has a decoy asked again, boundedly; then the probes that wait are told that it was not answered. Where
// the lane asks nothing now they go on without it.
func (h *hearing) decoyUnanswered(pl *place, e engine.Event, wasAsked bool) {
	if wasAsked {
		pl.decoy.tries++
	}
	switch d := &pl.decoy; {
	case d.waiting.n == 0: // those who wanted it have gone
		d.state = decoyUnknown
		return
	case h.l.shut(h.now):
		d.state = decoyUnknown
		h.out = h.l.moveOn(pl, h.now, h.out)
		return
	case d.tries < maxDecoyTries && d.asked < maxAsked:
		h.l.wantDecoy(pl)
		return
	}
	h.out = h.l.decoyShown(pl, noAnswer(pl, e, h.now), h.now, h.out)
}

// unanswered puts back who got no reply. The first of them was asked, and so were all where a pipelined group was the first of
// its connection and came to nothing: that is evidence, and they come first on the next connection. Who merely stood behind
// was not asked.
func (h *hearing) unanswered(told []bool) {
	s, f := h.s, h.o.Fault
	whole := len(s.seen) == 0 && !s.progress && s.conn.Extensions().Pipelining
	silent := h.firstSilent(told)
	if n := h.answered(told); !f.None() && f.Event != engine.EventInternal && n > 0 && !h.refusedAtMail() {
		s.group.batch, s.group.bore = n, n
	}
	if f.Event == engine.EventOutOfStep {
		s.group.batch = max(1, len(s.asks)/2)
	}
	for i := len(told) - 1; i >= 0; i-- {
		if told[i] {
			continue
		}
		a := s.asks[i]
		evidence := whole || i == silent
		if a.p == nil {
			h.decoyUnanswered(a.place, f.Event, evidence)
			continue
		}
		if evidence && f.Event != engine.EventReply && f.Event != engine.EventInternal {
			a.p.ev.Append(engine.Sighting{Subject: engine.SubjectTarget, Event: f.Event, Host: s.group.host, At: h.now,
				Vouched: s.accepted[a.place.domain]})
			a.p.cutOff(f.Event)
		}
		h.out = h.l.move(a.p, h.now, true, h.out)
	}
}

// answered is how many replies were about their recipients.
func (h *hearing) answered(told []bool) (n int) {
	for _, a := range h.s.seen {
		if told[a.i] {
			n++
		}
	}
	return n
}

// firstSilent is the first recipient that the server read and did not answer.
func (h *hearing) firstSilent(told []bool) int {
	if h.o.Fault.None() || h.refusedAtMail() {
		return -1
	}
	return slices.Index(told, false)
}

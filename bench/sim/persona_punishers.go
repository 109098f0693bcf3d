package sim

import "time"

// temper is how a persona punishes by a measure of its own, which it does not announce: no excess in the referee's eyes, as a
// client can only learn it from the replies. A client that does not heed them is blocked, and that the referee counts.
// Figures in real time, before speed-up; 0 is none. With a speed-up of 0 no persona has a temper.
type temper struct {
	fallsAfter int           // recipients of one source after which it takes but fallen a minute
	fallen     int           // a tenth of what it took
	fallsFor   time.Duration // for so long
	cutsAfter  int           // refusals of a connection after which each further one is a 421
	silentPast int           // refusals of an hour after which it accepts everybody, without a word, until the hour is over
	stickier   time.Duration // longer before each reply, for each refusal of the last quarter of an hour
	stickiest  time.Duration // and no longer than this
	patience   int           // 450s of the rate and 421s of an hour after which it blocks the source for an hour
}

// punishers are receivers that bear a stranger at first and change their mind. They are part of a world only where Config.Punishers
// asks for them. Each says the truth to a client that heeds it.
func punishers() []*Persona {
	unsure := Outcome{"RISKY", "accepted_unconfirmed"}
	return []*Persona{
		punisher("limit-falls", or(candid, Outcome{"UNKNOWN", "rate_limited"}), Limits{Connections: 10, RcptsPerMinute: 120},
			habit{temper: temper{fallsAfter: 1000, fallen: 12, fallsFor: 30 * time.Minute, patience: 60}}),
		punisher("cuts-421", candid, Limits{Connections: 10}, habit{temper: temper{cutsAfter: 3, patience: 40}}),
		punisher("blocks-25", candid, Limits{Connections: 10, RefusalsPerHour: 25}, habit{}),
		punisher("silent-past", or(candid, unsure, Outcome{"UNKNOWN", "rate_limited"}), Limits{Connections: 10}, habit{temper: temper{silentPast: 12}}),
		punisher("stickier", or(candid, unsure, Outcome{"UNKNOWN", "timeout"}), Limits{Connections: 10},
			habit{temper: temper{stickier: 3 * time.Second, stickiest: 2 * time.Minute}}),
		punisher("greylist-source", or(candid, greylisted()), Limits{Connections: 10}, habit{grey: greySource, greyWait: 10 * time.Minute}),
	}
}

func punisher(name string, expect expectation, l Limits, h habit) *Persona {
	p := house(name, expect, h)
	p.Limits, p.hosts = l, under("mx")
	return p
}

// mood is what a persona with a temper remembers of a source. Guarded by the meter's mutex.
type mood struct {
	asked   int       // recipients in all, until the limit falls
	fell    time.Time // when it did
	few     window    // recipients in the minute, while it is low
	warned  window    // in the hour
	lately  window    // refusals in the last quarter of an hour
	angered time.Time // until when everybody is accepted
}

func newMood() mood {
	return mood{few: window{part: time.Second}, warned: window{part: time.Minute}, lately: window{part: 15 * time.Second}}
}

// endure is what the persona's temper makes of one more recipient.
func (v *visit) endure(t *temper, s *smtpServer, now time.Time) ruling {
	if s.world.config.Speedup <= 0 {
		return fine
	}
	m := v.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.silentPast > 0 && now.Before(m.mood.angered) {
		return silent
	}
	if t.fallsAfter == 0 {
		return fine
	}
	if m.mood.asked++; m.mood.asked == t.fallsAfter {
		m.mood.fell = now
	}
	if m.mood.asked < t.fallsAfter || now.Sub(m.mood.fell) > s.scaled(t.fallsFor) {
		return fine
	}
	if m.mood.few.add(now) <= times(t.fallen, s.world.config.Speedup) {
		return fine
	}
	return v.warn(t, s, now, tooFast)
}

// warn counts a warning; the last straw is a block. Holds m.mu.
func (v *visit) warn(t *temper, s *smtpServer, now time.Time, otherwise ruling) ruling {
	m := v.meter
	if t.patience > 0 && m.mood.warned.add(now) > times(t.patience, s.world.config.Speedup) {
		m.block(now.Add(s.scaled(time.Hour)))
		return blockedHour
	}
	return otherwise
}

// resent is what the persona's temper makes of one more refusal that it is about to speak.
func (v *visit) resent(t *temper, s *smtpServer, now time.Time) ruling {
	if s.world.config.Speedup <= 0 {
		return fine
	}
	m := v.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mood.lately.add(now)
	if t.silentPast > 0 && m.refusals.total > times(t.silentPast, s.world.config.Speedup) {
		m.mood.angered = now.Add(s.scaled(time.Hour))
		m.silences++
		return silent
	}
	if t.cutsAfter > 0 && v.refusals > t.cutsAfter {
		return v.warn(t, s, now, tooManyBad)
	}
	return fine
}

// stickiness is how long the persona takes over a reply to this source now.
func (v *visit) stickiness(t *temper, now time.Time) time.Duration {
	if t.stickier == 0 {
		return 0
	}
	m := v.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mood.lately.advance(now)
	return min(t.stickiest, time.Duration(m.mood.lately.total)*t.stickier)
}

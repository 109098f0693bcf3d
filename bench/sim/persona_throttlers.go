package sim

import "time"

// hiddenLimits is how a persona throttles by limits of its own, which it does not announce: no excess in the referee's eyes, as a
// client can only learn it from the replies. A client that does not slow down is blocked, and that the referee counts.
// Figures in real time, before speed-up; 0 is none. With a speed-up of 0 no persona has hidden limits.
type hiddenLimits struct {
	dropAfter      int           // recipients of one source after which it takes but fallen a minute
	droppedRate    int           // a tenth of what it took
	dropFor        time.Duration // for so long
	closeAfter     int           // refusals of a connection after which each further one is a 421
	acceptAllAfter int           // refusals of an hour after which it accepts every recipient, without a word, until the hour is over
	delayStep      time.Duration // longer before each reply, for each refusal of the last quarter of an hour
	maxDelay       time.Duration // and no longer than this
	maxWarnings    int           // 450s of the rate and 421s of an hour after which it blocks the source for an hour
}

// throttlers are receivers that tolerate a source at first and throttle it later. They are part of a world only where Config.Punishers
// asks for them. Each says the truth to a client that slows down.
func throttlers() []*Persona {
	unsure := Outcome{"RISKY", "accepted_unconfirmed"}
	return []*Persona{
		throttler("limit-falls", alsoAllow(truthful, Outcome{"UNKNOWN", "rate_limited"}), Limits{Connections: 10, RcptsPerMinute: 120},
			behaviour{hiddenLimits: hiddenLimits{dropAfter: 1000, droppedRate: 12, dropFor: 30 * time.Minute, maxWarnings: 60}}),
		throttler("cuts-421", truthful, Limits{Connections: 10}, behaviour{hiddenLimits: hiddenLimits{closeAfter: 3, maxWarnings: 40}}),
		throttler("blocks-25", truthful, Limits{Connections: 10, RefusalsPerHour: 25}, behaviour{}),
		throttler("silent-past", alsoAllow(truthful, unsure, Outcome{"UNKNOWN", "rate_limited"}), Limits{Connections: 10}, behaviour{hiddenLimits: hiddenLimits{acceptAllAfter: 12}}),
		throttler("stickier", alsoAllow(truthful, unsure, Outcome{"UNKNOWN", "timeout"}), Limits{Connections: 10},
			behaviour{hiddenLimits: hiddenLimits{delayStep: 3 * time.Second, maxDelay: 2 * time.Minute}}),
		throttler("greylist-source", alsoAllow(truthful, greylisted()), Limits{Connections: 10}, behaviour{grey: greySource, greyWait: 10 * time.Minute}),
	}
}

func throttler(name string, expect expectation, l Limits, h behaviour) *Persona {
	p := selfHosted(name, expect, h)
	p.Limits, p.hosts = l, hostsUnder("mx")
	return p
}

// sourceState is what a persona with hidden limits remembers of a source. Guarded by the meter's mutex.
type sourceState struct {
	recipients     int       // recipients in all, until the limit falls
	droppedAt      time.Time // when it did
	inMinute       window    // recipients in the minute, while it is low
	warnings       window    // in the hour
	recentRefusals window    // refusals in the last quarter of an hour
	acceptAllUntil time.Time // until when every recipient is accepted
}

func newSourceState() sourceState {
	return sourceState{inMinute: window{part: time.Second}, warnings: window{part: time.Minute}, recentRefusals: window{part: 15 * time.Second}}
}

// checkRecipient is what the persona's hidden limits make of one more recipient.
func (conn *connection) checkRecipient(t *hiddenLimits, s *smtpServer, now time.Time) replyRule {
	if s.world.config.Speedup <= 0 {
		return ruleNone
	}
	m := conn.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.acceptAllAfter > 0 && now.Before(m.state.acceptAllUntil) {
		return ruleAcceptAll
	}
	if t.dropAfter == 0 {
		return ruleNone
	}
	if m.state.recipients++; m.state.recipients == t.dropAfter {
		m.state.droppedAt = now
	}
	if m.state.recipients < t.dropAfter || now.Sub(m.state.droppedAt) > s.scaled(t.dropFor) {
		return ruleNone
	}
	if m.state.inMinute.add(now) <= scaleUp(t.droppedRate, s.world.config.Speedup) {
		return ruleNone
	}
	return conn.warn(t, s, now, ruleTooFast)
}

// warn counts a warning; the last straw is a block. Holds m.mu.
func (conn *connection) warn(t *hiddenLimits, s *smtpServer, now time.Time, otherwise replyRule) replyRule {
	m := conn.meter
	if t.maxWarnings > 0 && m.state.warnings.add(now) > scaleUp(t.maxWarnings, s.world.config.Speedup) {
		m.block(now.Add(s.scaled(time.Hour)))
		return ruleBlocked
	}
	return otherwise
}

// checkRefusal is what the persona's hidden limits make of one more refusal that it is about to speak.
func (conn *connection) checkRefusal(t *hiddenLimits, s *smtpServer, now time.Time) replyRule {
	if s.world.config.Speedup <= 0 {
		return ruleNone
	}
	m := conn.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.recentRefusals.add(now)
	if t.acceptAllAfter > 0 && m.refusalsInHour.total > scaleUp(t.acceptAllAfter, s.world.config.Speedup) {
		m.state.acceptAllUntil = now.Add(s.scaled(time.Hour))
		m.silences++
		return ruleAcceptAll
	}
	if t.closeAfter > 0 && conn.refusals > t.closeAfter {
		return conn.warn(t, s, now, ruleTooManyRefusals)
	}
	return ruleNone
}

// replyDelay is how long the persona takes over a reply to this source now.
func (conn *connection) replyDelay(t *hiddenLimits, now time.Time) time.Duration {
	if t.delayStep == 0 {
		return 0
	}
	m := conn.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.recentRefusals.advance(now)
	return min(t.maxDelay, time.Duration(m.state.recentRefusals.total)*t.delayStep)
}

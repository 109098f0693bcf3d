package sim

import "time"

// hiddenLimits are limits that a persona does not announce. The referee counts no excess of them, as a client can only learn them
// from the replies. A client that does not slow down is blocked, and the referee counts the block. Figures in real time, before
// speed-up; 0 is none. With a speed-up of 0 no persona has hidden limits.
type hiddenLimits struct {
	dropAfter      int           // recipients of one source after which it accepts only droppedRate a minute
	droppedRate    int           // recipients a minute
	dropFor        time.Duration // how long the lower rate lasts
	closeAfter     int           // refusals on a connection after which each further one is a 421
	acceptAllAfter int           // refusals in an hour after which it accepts every recipient for the rest of the hour, without saying so
	delayStep      time.Duration // added delay of each reply for each refusal in the last 15 minutes
	maxDelay       time.Duration // the longest delay
	maxWarnings    int           // 450 and 421 replies in an hour after which it blocks the source for an hour
}

// throttlers are receivers that tolerate a source at first and throttle it later. They are part of a world only with
// Config.Throttlers. Each answers truthfully to a client that slows down.
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
	recipients     int       // recipients in total, until the limit drops
	droppedAt      time.Time // when the limit dropped
	inMinute       window    // recipients in the minute, while the limit is low
	warnings       window    // warnings in the hour
	recentRefusals window    // refusals in the last quarter of an hour
	acceptAllUntil time.Time // end of the time in which every recipient is accepted
}

func newSourceState() sourceState {
	return sourceState{inMinute: window{part: time.Second}, warnings: window{part: time.Minute}, recentRefusals: window{part: 15 * time.Second}}
}

// checkRecipient applies the persona's hidden limits to one more recipient.
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

// warn counts a warning; one too many is a block. Holds m.mu.
func (conn *connection) warn(t *hiddenLimits, s *smtpServer, now time.Time, otherwise replyRule) replyRule {
	m := conn.meter
	if t.maxWarnings > 0 && m.state.warnings.add(now) > scaleUp(t.maxWarnings, s.world.config.Speedup) {
		m.block(now.Add(s.scaled(time.Hour)))
		return ruleBlocked
	}
	return otherwise
}

// checkRefusal applies the persona's hidden limits to one more refusal, before it is sent.
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

// replyDelay is the persona's current delay of a reply to this source.
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

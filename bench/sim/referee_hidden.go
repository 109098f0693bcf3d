package sim

import "time"

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
func (conn *connection) checkRecipient(t *hiddenLimits, now time.Time) replyRule {
	if conn.speedup <= 0 {
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
	if m.state.recipients < t.dropAfter || now.Sub(m.state.droppedAt) > scaleWait(t.dropFor, conn.speedup) {
		return ruleNone
	}
	if m.state.inMinute.add(now) <= scaleUp(t.droppedRate, conn.speedup) {
		return ruleNone
	}
	return conn.warn(t, now, ruleTooFast)
}

// warn counts a warning; one too many is a block. Holds m.mu.
func (conn *connection) warn(t *hiddenLimits, now time.Time, otherwise replyRule) replyRule {
	m := conn.meter
	if t.maxWarnings > 0 && m.state.warnings.add(now) > scaleUp(t.maxWarnings, conn.speedup) {
		m.block(now.Add(scaleWait(time.Hour, conn.speedup)))
		return ruleBlocked
	}
	return otherwise
}

// checkRefusal applies the persona's hidden limits to one more refusal, before it is sent.
func (conn *connection) checkRefusal(t *hiddenLimits, now time.Time) replyRule {
	if conn.speedup <= 0 {
		return ruleNone
	}
	m := conn.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.recentRefusals.add(now)
	if t.acceptAllAfter > 0 && m.refusalsInHour.total > scaleUp(t.acceptAllAfter, conn.speedup) {
		m.state.acceptAllUntil = now.Add(scaleWait(time.Hour, conn.speedup))
		m.silences++
		return ruleAcceptAll
	}
	if t.closeAfter > 0 && conn.refusals > t.closeAfter {
		return conn.warn(t, now, ruleTooManyRefusals)
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

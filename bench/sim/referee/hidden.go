package referee

import (
	"time"

	"probity/bench/sim/persona"
)

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
	return sourceState{inMinute: window{part: time.Second}, warnings: window{part: time.Minute},
		recentRefusals: window{part: 15 * time.Second}}
}

// CheckRecipient applies the persona's hidden limits to one more recipient.
func (conn *Connection) CheckRecipient(t *persona.HiddenLimits, now time.Time) Rule {
	if conn.speedup <= 0 {
		return RuleNone
	}
	m := conn.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	if t.AcceptAllAfter > 0 && now.Before(m.state.acceptAllUntil) {
		return RuleAcceptAll
	}
	if t.DropAfter == 0 {
		return RuleNone
	}
	m.state.recipients++
	if m.state.recipients == t.DropAfter {
		m.state.droppedAt = now
	}
	if m.state.recipients < t.DropAfter || now.Sub(m.state.droppedAt) > persona.ScaleWait(t.DropFor, conn.speedup) {
		return RuleNone
	}
	if m.state.inMinute.add(now) <= persona.ScaleUp(t.DroppedRate, conn.speedup) {
		return RuleNone
	}
	return conn.warn(t, now, RuleTooFast)
}

// warn counts a warning; one too many is a block. Holds m.mu.
func (conn *Connection) warn(t *persona.HiddenLimits, now time.Time, otherwise Rule) Rule {
	m := conn.meter
	if t.MaxWarnings > 0 && m.state.warnings.add(now) > persona.ScaleUp(t.MaxWarnings, conn.speedup) {
		m.block(now.Add(persona.ScaleWait(time.Hour, conn.speedup)))
		return ruleBlocked
	}
	return otherwise
}

// CheckRefusal applies the persona's hidden limits to one more refusal, before it is sent.
func (conn *Connection) CheckRefusal(t *persona.HiddenLimits, now time.Time) Rule {
	if conn.speedup <= 0 {
		return RuleNone
	}
	m := conn.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.recentRefusals.add(now)
	if t.AcceptAllAfter > 0 && m.refusalsInHour.total > persona.ScaleUp(t.AcceptAllAfter, conn.speedup) {
		m.state.acceptAllUntil = now.Add(persona.ScaleWait(time.Hour, conn.speedup))
		m.silences++
		return RuleAcceptAll
	}
	if t.CloseAfter > 0 && conn.refusals > t.CloseAfter {
		return conn.warn(t, now, RuleTooManyRefusals)
	}
	return RuleNone
}

// ReplyDelay is the persona's current delay of a reply to this source.
func (conn *Connection) ReplyDelay(t *persona.HiddenLimits, now time.Time) time.Duration {
	if t.DelayStep == 0 {
		return 0
	}
	m := conn.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.recentRefusals.advance(now)
	return min(t.MaxDelay, time.Duration(m.state.recentRefusals.total)*t.DelayStep)
}

package referee

import (
	"net/netip"
	"sync"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

// windowParts is how many parts a window has.
const windowParts = 60

// window counts events of the last minute or hour in parts of a 60th.
type window struct {
	part  time.Duration
	at    int64 // the newest part
	total int
	parts [windowParts]int
}

// add counts one event and returns the events in the window.
func (w *window) add(now time.Time) int {
	w.advance(now)
	w.parts[w.at%windowParts]++
	w.total++
	return w.total
}

// advance clears the parts that have expired.
func (w *window) advance(now time.Time) {
	at := now.UnixNano() / int64(w.part)
	if at-w.at >= windowParts {
		w.parts, w.total, w.at = [windowParts]int{}, 0, at
	}
	for w.at < at {
		w.at++
		w.total -= w.parts[w.at%windowParts]
		w.parts[w.at%windowParts] = 0
	}
}

// tally counts how often one kind of limit was exceeded, and keeps the highest
// value seen.
type tally struct{ count, seen int }

// meter is one source at one cluster of hosts.
type meter struct {
	limits persona.Limits // scaled

	mu             sync.Mutex // guards what follows
	open           int
	connections    int64
	recipients     int64
	refused        int64
	denied         int64  // answered 5xx, for any reason
	arrivals       window // connections in the minute
	rcptsInMinute  window // recipients in the minute
	refusalsInHour window // refusals in the hour
	tallies        [limitKinds]tally
	blocked        time.Time // end of the throttling by RefusalsPerHour
	throttled      int       // recipients sent while blocked
	blocks         int64     // how often a block began
	silences       int64     // how often it began to accept every recipient without saying so
	state          sourceState
}

func newMeter(l persona.Limits) *meter {
	return &meter{
		limits:         l,
		arrivals:       window{part: time.Second},
		rcptsInMinute:  window{part: time.Second},
		refusalsInHour: window{part: time.Minute},
		state:          newSourceState(),
	}
}

// exceeds reports whether seen exceeds limit; 0 is no limit.
func exceeds(seen, limit int) bool { return limit > 0 && seen > limit }

// record records a value of one kind. Holds m.mu.
func (m *meter) record(kind, seen, limit int) bool {
	t := &m.tallies[kind]
	t.seen = max(t.seen, seen)
	if !exceeds(seen, limit) {
		return false
	}
	t.count++
	return true
}

// recordRate counts an event in a window and records the window's total. Holds m.mu.
func (m *meter) recordRate(w *window, kind, limit int, now time.Time) bool {
	return m.record(kind, w.add(now), limit)
}

// limitOf is the limit of one kind.
func limitOf(l *persona.Limits, kind int) int {
	return [limitKinds]int{
		l.Connections, l.ConnectionsPerMinute, l.RcptsPerTransaction, l.RcptsPerConnection,
		l.RcptsPerMinute, l.TransactionsPerConnection, l.RefusalsPerConnection, l.RefusalsPerHour,
	}[kind]
}

// Rule is the limit that a client has exceeded, for the persona's reply.
type Rule uint8

const (
	RuleNone            Rule = iota
	RuleTooManyRcpts         // recipients in the transaction
	RuleConnectionUsed       // recipients or transactions on the connection
	RuleTooFast              // recipients in the minute
	RuleTooManyRefusals      // refused recipients on the connection
	ruleBlocked              // refused recipients in the hour; the block may have begun earlier
	RuleAcceptAll            // every recipient is accepted
)

// block begins a block. Holds m.mu.
func (m *meter) block(until time.Time) {
	m.blocked, m.throttled = until, 0
	m.blocks++
}

// Connection is the referee's record of one connection. It belongs to the
// goroutine that serves the connection.
type Connection struct {
	meter            *meter
	speedup          float64
	openAtStart      int  // connections open at its start, itself included
	OverLimit        bool // openAtStart was too many
	overRate         bool // too many connections came in the minute
	closed           bool
	transactions     int
	Rcpts            int // of the connection
	TransactionRcpts int // of the transaction
	refusals         int

	source netip.Addr    // of the client
	domain *world.Domain // of the last recipient
	route  *routeMeter   // of that domain; nil if it is wide
	routes []*routeMeter // the routes that it has used
}

// Admit records how many connections are open, and reports whether this one is
// served. If there were too many at its start, they are counted again now, so
// that a connection whose end was still on its way does not count.
func (conn *Connection) Admit() bool {
	m := conn.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := conn.openAtStart
	if conn.OverLimit {
		seen = m.open
	}
	return !m.record(overConnections, seen, m.limits.Connections) && !conn.overRate
}

// Close ends the connection. Further calls do nothing.
func (conn *Connection) Close() {
	if conn.closed {
		return
	}
	conn.closed = true
	conn.leaveRoutes()
	conn.meter.mu.Lock()
	conn.meter.open--
	conn.meter.mu.Unlock()
}

// CountTransaction begins a transaction.
func (conn *Connection) CountTransaction() Rule {
	conn.transactions++
	conn.TransactionRcpts = 0
	m := conn.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.record(overTransactionsPerConnection, conn.transactions, m.limits.TransactionsPerConnection) {
		return RuleConnectionUsed
	}
	return RuleNone
}

// CountRcpt counts one RCPT command, before it is answered.
func (conn *Connection) CountRcpt(now time.Time) Rule {
	conn.Rcpts++
	conn.TransactionRcpts++
	m := conn.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recipients++
	rate := m.recordRate(&m.rcptsInMinute, overRcptsPerMinute, m.limits.RcptsPerMinute, now)
	full := m.record(overRcptsPerConnection, conn.Rcpts, m.limits.RcptsPerConnection)
	many := m.record(overRcptsPerTransaction, conn.TransactionRcpts, m.limits.RcptsPerTransaction)
	switch {
	case now.Before(m.blocked):
		m.throttled++
		return ruleBlocked
	case full:
		return RuleConnectionUsed
	case many:
		return RuleTooManyRcpts
	case rate:
		return RuleTooFast
	}
	return RuleNone
}

// CountRefusal counts one recipient before its permanent refusal. If that is one
// too many in the hour, the persona blocks the source for an hour.
func (conn *Connection) CountRefusal(now time.Time) Rule {
	conn.refusals++
	conn.countRouteRefusal(now)
	m := conn.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused++
	hour := m.recordRate(&m.refusalsInHour, overRefusalsPerHour, m.limits.RefusalsPerHour, now)
	bad := m.record(overRefusalsPerConnection, conn.refusals, m.limits.RefusalsPerConnection)
	switch {
	case hour:
		m.block(now.Add(persona.ScaleWait(time.Hour, conn.speedup)))
		return ruleBlocked
	case bad:
		return RuleTooManyRefusals
	}
	return RuleNone
}

// CountDenied counts a recipient that was answered 5xx, for any reason.
func (conn *Connection) CountDenied() {
	conn.meter.mu.Lock()
	conn.meter.denied++
	conn.meter.mu.Unlock()
}

// ThrottledCount counts the recipients sent since the block began.
func (conn *Connection) ThrottledCount() int {
	conn.meter.mu.Lock()
	defer conn.meter.mu.Unlock()
	return conn.meter.throttled
}

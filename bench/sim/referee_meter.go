package sim

import (
	"net/netip"
	"sync"
	"time"
)

// windowParts is how finely a window forgets.
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

// advance forgets the parts that have gone by.
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

// tally is what is known of one kind of limit: how often it was exceeded, and
// the highest value seen at all.
type tally struct{ count, seen int }

// meter is one source at one cluster of hosts.
type meter struct {
	limits Limits // scaled

	mu          sync.Mutex // guards what follows
	open        int
	connections int64
	recipients  int64
	refused     int64
	denied      int64  // answered 5xx, for whatever reason
	arrivals    window // connections in the minute
	asked       window // recipients in the minute
	refusals    window // in the hour
	tallies     [kinds]tally
	blocked     time.Time // until when the persona punishes, by RefusalsPerHour
	punished    int       // recipients asked while blocked
	blocks      int64     // times that it lost its patience
	silences    int64     // times that it began to accept everybody without a word
	mood        mood
}

func newMeter(l Limits) *meter {
	return &meter{
		limits:   l,
		arrivals: window{part: time.Second},
		asked:    window{part: time.Second},
		refusals: window{part: time.Minute},
		mood:     newMood(),
	}
}

// over tells whether seen exceeds limit; 0 is no limit.
func over(seen, limit int) bool { return limit > 0 && seen > limit }

// note records a value of one kind. Holds m.mu.
func (m *meter) note(kind, seen, limit int) bool {
	t := &m.tallies[kind]
	t.seen = max(t.seen, seen)
	if !over(seen, limit) {
		return false
	}
	t.count++
	return true
}

// rate counts an event in a window and notes the window's total. Holds m.mu.
func (m *meter) rate(w *window, kind, limit int, now time.Time) bool {
	return m.note(kind, w.add(now), limit)
}

// limitOf is the limit of one kind.
func (l *Limits) limitOf(kind int) int {
	return [kinds]int{
		l.Connections, l.ConnectionsPerMinute, l.RcptsPerTransaction, l.RcptsPerConnection,
		l.RcptsPerMinute, l.TransactionsPerConnection, l.RefusalsPerConnection, l.RefusalsPerHour,
	}[kind]
}

// ruling is what the referee lets a persona know of a client's manners.
type ruling uint8

const (
	fine        ruling = iota
	tooMany            // recipients in the transaction
	spent              // recipients or transactions on the connection
	tooFast            // recipients in the minute
	tooManyBad         // refused recipients on the connection
	blockedHour        // refused recipients in the hour, now or lately
	silent             // everybody is accepted
)

// block begins a punishment. Holds m.mu.
func (m *meter) block(until time.Time) {
	m.blocked, m.punished = until, 0
	m.blocks++
}

// visit is one connection in the referee's eyes. It belongs to the goroutine
// that serves the connection.
type visit struct {
	meter        *meter
	nth          int  // connections open at its arrival, itself among them
	crowded      bool // these were too many
	hasty        bool // it came when too many had come in the minute
	left         bool
	transactions int
	rcpts        int // of the connection
	group        int // of the transaction
	refusals     int

	source netip.Addr    // who asks
	home   *Domain       // of the last recipient
	route  *routeMeter   // of that; nil where it is wide
	stays  []*routeMeter // those that it has asked
}

// settle notes how many connections are open, and tells whether this one is
// served. One that found the place crowded is counted again now, so that a
// connection whose end was still on its way is not held against anyone.
func (v *visit) settle() bool {
	m := v.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := v.nth
	if v.crowded {
		seen = m.open
	}
	return !m.note(overConnections, seen, m.limits.Connections) && !v.hasty
}

// leave ends the visit. Further calls do nothing.
func (v *visit) leave() {
	if v.left {
		return
	}
	v.left = true
	v.depart()
	v.meter.mu.Lock()
	v.meter.open--
	v.meter.mu.Unlock()
}

// mail begins a transaction.
func (v *visit) mail() ruling {
	v.transactions++
	v.group = 0
	m := v.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.note(overTransactionsPerConnection, v.transactions, m.limits.TransactionsPerConnection) {
		return spent
	}
	return fine
}

// rcpt counts one RCPT command, before it is answered.
func (v *visit) rcpt(now time.Time) ruling {
	v.rcpts++
	v.group++
	m := v.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recipients++
	rate := m.rate(&m.asked, overRcptsPerMinute, m.limits.RcptsPerMinute, now)
	full := m.note(overRcptsPerConnection, v.rcpts, m.limits.RcptsPerConnection)
	many := m.note(overRcptsPerTransaction, v.group, m.limits.RcptsPerTransaction)
	switch {
	case now.Before(m.blocked):
		m.punished++
		return blockedHour
	case full:
		return spent
	case many:
		return tooMany
	case rate:
		return tooFast
	}
	return fine
}

// refuse counts one recipient that is about to be refused for good. pause is
// how long the persona is angry when that is one too many in the hour.
func (v *visit) refuse(now time.Time, pause time.Duration) ruling {
	v.refusals++
	v.refusedOf(now)
	m := v.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	m.refused++
	hour := m.rate(&m.refusals, overRefusalsPerHour, m.limits.RefusalsPerHour, now)
	bad := m.note(overRefusalsPerConnection, v.refusals, m.limits.RefusalsPerConnection)
	switch {
	case hour:
		m.block(now.Add(pause))
		return blockedHour
	case bad:
		return tooManyBad
	}
	return fine
}

// punishedSoFar counts the recipients asked since the block began.
func (v *visit) punishedSoFar() int {
	v.meter.mu.Lock()
	defer v.meter.mu.Unlock()
	return v.meter.punished
}

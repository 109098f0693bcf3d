package referee

import (
	"net/netip"
	"sync"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

// Kinds of excess, as the referee reports them.
const (
	overConnections = iota
	overConnectionsPerMinute
	overRcptsPerTransaction
	overRcptsPerConnection
	overRcptsPerMinute
	overTransactionsPerConnection
	overRefusalsPerConnection
	overRefusalsPerHour
	limitKinds
)

// kindName is the name of a kind in the report.
func kindName(kind int) string {
	return [limitKinds]string{
		"connections", "connections_per_minute", "rcpts_per_transaction", "rcpts_per_connection",
		"rcpts_per_minute", "transactions_per_connection", "refusals_per_connection", "refusals_per_hour",
	}[kind]
}

// maxMeters bounds the referee's memory (about 1 KiB each). Further pairs of
// source and persona share one meter without limits.
const maxMeters = 1 << 16

// Referee counts what every source does at every persona, and every excess over
// the persona's limits. It is safe for concurrent use.
//
//  1. A connection counts as open from its acceptance until the client has
//     closed its side or the server has decided to close, whichever is first:
//     never longer than the client can know that it is open.
//  2. A window holds between 59 and 60 parts of its minute or hour, so that no
//     rate is overstated.
//  3. All hosts of a provider count as one, whatever the personas of its tenants.
//  4. A narrow route is also counted over all sources, and so are the sources of a tenant (referee_route.go).
type Referee struct {
	speedup float64

	mu     sync.Mutex // guards what follows
	meters map[meterKey]*meter
	routes map[string]*routeMeter // narrow ones and tenants, at most maxMeters
}

// meterKey is one source seen by one cluster of hosts.
type meterKey struct {
	source  netip.Addr
	persona string
	cluster int
}

// New makes a referee for a world of that speed-up: limits by the minute
// and the hour are multiplied by it. With 0 only limits that hold at any speed
// remain.
func New(speedup float64) *Referee {
	return &Referee{speedup: speedup, meters: map[meterKey]*meter{}, routes: map[string]*routeMeter{}}
}

// meterFor finds or makes the meter of a source at a host.
func (r *Referee) meterFor(source netip.Addr, host *world.Host) *meter {
	key := meterKey{source: source.Unmap(), persona: host.Persona.Name, cluster: host.Cluster}
	if p := host.Persona.Provider; p != "" {
		key.persona, key.cluster = p, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.meters[key]; m != nil {
		return m
	}
	limits := host.Persona.Limits.Scaled(r.speedup)
	if len(r.meters) >= maxMeters {
		key, limits = meterKey{}, persona.Limits{}
	}
	m := r.meters[key]
	if m == nil {
		m = newMeter(limits)
		r.meters[key] = m
	}
	return m
}

// Connect counts a new connection. If it is overLimit, the caller waits closeGrace.
// Then it calls admit before serving, and close at the end.
func (r *Referee) Connect(now time.Time, source netip.Addr, host *world.Host) *Connection {
	m := r.meterFor(source, host)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connections++
	m.open++
	return &Connection{
		meter:       m,
		speedup:     r.speedup,
		openAtStart: m.open,
		OverLimit:   exceeds(m.open, m.limits.Connections),
		overRate:    m.recordRate(&m.arrivals, overConnectionsPerMinute, m.limits.ConnectionsPerMinute, now),
	}
}

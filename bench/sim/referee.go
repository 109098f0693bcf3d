package sim

import (
	"math"
	"net/netip"
	"sync"
	"time"
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

// maxMeters bounds the referee's memory (about 1 KiB each). A source and
// persona past it are counted in the totals under one meter without limits.
const maxMeters = 1 << 16

// Referee counts what every source does to every persona and notes what
// exceeds the persona's limits. It is safe for concurrent use.
//
//  1. A connection counts as open from its acceptance until the client has
//     closed its side or the server has decided to close, whichever is first:
//     never longer than the client may know it to be open.
//  2. A window holds between 59 and 60 parts of its minute or hour, so that no
//     rate is overstated.
//  3. All hosts of a provider are one, whatever the personas of its tenants.
//  4. A narrow route is counted once more, over all sources, and so are the sources of a tenant (referee_route.go).
type Referee struct {
	speedup float64

	mu     sync.Mutex // guards what follows
	meters map[meterKey]*meter
	routes map[string]*routeMeter // narrow ones and tenants, maxMeters at most
}

// meterKey is one source seen by one cluster of hosts.
type meterKey struct {
	source  netip.Addr
	persona string
	cluster int
}

// NewReferee makes a referee for a world that runs speedup times as fast as
// the real one: limits by the minute and the hour are multiplied by it. With 0
// only what a persona can never take is a limit.
func NewReferee(speedup float64) *Referee {
	return &Referee{speedup: speedup, meters: map[meterKey]*meter{}, routes: map[string]*routeMeter{}}
}

// scaled is l as it holds in a world of that speed-up.
func (l Limits) scaled(speedup float64) Limits {
	if speedup <= 0 {
		if l.RcptsPerTransaction == 1 {
			return Limits{RcptsPerTransaction: 1}
		}
		return Limits{}
	}
	l.ConnectionsPerMinute = scaleUp(l.ConnectionsPerMinute, speedup)
	l.RcptsPerMinute = scaleUp(l.RcptsPerMinute, speedup)
	l.RefusalsPerHour = scaleUp(l.RefusalsPerHour, speedup)
	return l
}

// scaleUp multiplies a limit, rounding up: no persona tolerates less than it should.
func scaleUp(limit int, speedup float64) int {
	return int(min(math.Ceil(float64(limit)*speedup), math.MaxInt32))
}

// meterFor finds or makes the meter of a source at a host.
func (r *Referee) meterFor(source netip.Addr, host *Host) *meter {
	key := meterKey{source: source.Unmap(), persona: host.Persona.Name, cluster: host.Cluster}
	if p := host.Persona.Provider; p != "" {
		key.persona, key.cluster = p, 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.meters[key]; m != nil {
		return m
	}
	limits := host.Persona.Limits.scaled(r.speedup)
	if len(r.meters) >= maxMeters {
		key, limits = meterKey{}, Limits{}
	}
	m := r.meters[key]
	if m == nil {
		m = newMeter(limits)
		r.meters[key] = m
	}
	return m
}

// connect notes a new connection. If it finds the place crowded, wait a moment;
// then settle it before serving it, and leave when it ends.
func (r *Referee) connect(now time.Time, source netip.Addr, host *Host) *connection {
	m := r.meterFor(source, host)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.connections++
	m.open++
	return &connection{
		meter:       m,
		openAtStart: m.open,
		overLimit:   exceeds(m.open, m.limits.Connections),
		overRate:    m.recordRate(&m.arrivals, overConnectionsPerMinute, m.limits.ConnectionsPerMinute, now),
	}
}

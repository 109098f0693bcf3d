package smtpd

import (
	"net/netip"
	"sync"
	"time"

	"probity/bench/sim/persona"
	"probity/bench/sim/world"
)

// maxTurns bounds the states that outlive a connection. Further sources share one.
const maxTurns = 1 << 16

// turnBook has the states of hosts that turn for a source or for everyone. It is safe for concurrent use.
type turnBook struct {
	mu     sync.Mutex // guards states
	states map[turnKey]*turnState
}

// turnKey is a cluster of hosts, and a source if the hosts count by source.
type turnKey struct {
	cluster int
	source  netip.Addr
}

func newTurnBook() *turnBook { return &turnBook{states: map[turnKey]*turnState{}} }

// stateOf returns the state for a new connection; nil for a host that never turns.
func (b *turnBook) stateOf(host *world.Host, source netip.Addr) *turnState {
	turn := &host.Persona.Behaviour.Turn
	key := turnKey{cluster: host.Cluster, source: source}
	switch {
	case turn.After == 0:
		return nil
	case turn.Scope == persona.ScopeConnection, turn.Scope == persona.ScopeTransaction:
		return &turnState{}
	case turn.Scope == persona.ScopeEveryone:
		key.source = netip.Addr{}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.states) >= maxTurns && b.states[key] == nil {
		key = turnKey{}
	}
	if b.states[key] == nil {
		b.states[key] = &turnState{}
	}
	return b.states[key]
}

// turnState counts the answers of one scope. It is safe for concurrent use.
type turnState struct {
	mu      sync.Mutex // guards what follows
	answers int
	turned  bool
	until   time.Time // when it ends; zero: with the scope
}

// active reports whether the host has turned. A turn that is over begins the count again.
func (s *turnState) active(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turned && !s.until.IsZero() && !now.Before(s.until) {
		s.turned, s.answers = false, 0
	}
	return s.turned
}

// countForTurn counts one answer of that kind.
func (c *session) countForTurn(kind persona.TurnCount) {
	turn := &c.behaviour.Turn
	if c.turn == nil || turn.Counts != kind {
		return
	}
	s := c.turn
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turned {
		return
	}
	if s.answers++; s.answers < turn.After {
		return
	}
	s.turned = true
	if turn.For > 0 {
		s.until = c.now.Add(c.server.scaled(turn.For))
	}
}

// refusesName reports whether the host refuses this name whatever mailbox it has: by its look, or because the directory of this back
// end is old and lacks it. It does so for a third of all names.
func (c *session) refusesName() bool {
	old := c.otherBackEnd && c.behaviour.BackEnds == persona.OneHasOldNames
	if !old && !c.behaviour.RefusesByLook {
		return false
	}
	return len(c.values.User) > 0 && c.values.User[0]%3 == 0
}

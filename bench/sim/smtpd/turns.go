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

// turnState counts the answers of one scope; a nil one counts nothing. It is safe for concurrent use.
type turnState struct {
	mu      sync.Mutex // guards what follows
	answers int
	turned  bool
	until   time.Time // when it ends; zero: with the scope
}

// active reports whether the host has turned. A turn that is over begins the count again.
func (s *turnState) active(now time.Time) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turned && !s.until.IsZero() && !now.Before(s.until) {
		s.turned, s.answers = false, 0
	}
	return s.turned
}

// count counts one answer of that kind, as turn says; a turn lasts for lasts.
func (s *turnState) count(turn *persona.Turn, kind persona.TurnCount, now time.Time, lasts time.Duration) {
	if s == nil || turn.Counts != kind && turn.Counts != persona.CountRecipients {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turned {
		return
	}
	s.answers++
	if s.answers < turn.After {
		return
	}
	s.turned = true
	if turn.For > 0 {
		s.until = now.Add(lasts)
	}
}

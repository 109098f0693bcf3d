package readyqueue

import (
	"time"

	"probity/prober/budget"
)

// maxAddressWait bounds the wait for a wake-up by the address limit.
const maxAddressWait = 30 * time.Second

// reserveAddress reserves a connection in the budget of the session's address. If there is no room, the host is blocked
// until there is. It is blocked before it waits, so that no wake-up is missed.
func (s *session) reserveAddress() bool {
	q, env, now := s.queue, s.queue.env, time.Now()
	limit, err := env.AddressLimits.Acquire(s.source.Name, s.addr,
		s.source.WarmUpLimits(env.Table.Load().Unknown.Limits, now), now)
	if err != nil {
		budget.LogUnreadable(env.Log, err)
	}
	if limit == nil {
		return true
	}
	l := q.lock()
	longBacklog := l.budget.Pacing.Until()
	l.limitedAt = s.addr
	l.unlock()
	noRoom := limit.Connect(s.priority, longBacklog, now)
	if !noRoom.Denied {
		s.addressLimit = limit
		return true
	}
	l = q.lock()
	l.limitedUntil = noRoom.Until
	s.host.deny(s.priority, noRoom.Until, now)
	if s.priority == budget.Single {
		hurry(l.working) // a connection of this queue may have the place
	}
	l.unlock()
	limit.Wait(q, addressWaiter{q, s.host}, s.priority, now)
	limit.Release()
	env.Metrics.AddressWaits.Inc()
	return false
}

// addressWaiter is a host that waits for room at its address.
type addressWaiter struct {
	queue *Queue
	host  *mxHost
}

// UseRoom implements addresslimit.Waiter: the room is used if a session of the host has begun to work.
func (w addressWaiter) UseRoom(now time.Time) (used bool) {
	q, m := w.queue, w.host
	l := q.lock()
	defer l.unlock()
	m.endDenial()
	busy := m.sessions - len(m.idle)
	l.dispatch(now)
	return m.sessions-len(m.idle) > busy
}

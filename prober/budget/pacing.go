package budget

import "time"

// Pacing spreads a long backlog's use of an hourly budget over the hour, so that a short job finds room in each minute
// instead of waiting for the next hour. The backlog takes no longer for it. The zero value does nothing. It limits long
// jobs only, in addition to the window. The budget of a shared address is paced while one of its queues has a long
// backlog.
//
// It is a virtual schedule, as in ATM's generic cell rate algorithm (GCRA): each refusal costs the time in which the
// budget earns it, and earnedAt is when all that was used is earned again.
type Pacing struct {
	until      time.Time // the backlog counts as long until then, unless a batch says so again
	earnedAt   time.Time
	lastCost   time.Duration // of a refusal, when there was room last
	closed     bool          // until a portion is earned, so that a connection carries more than one recipient
	shortUntil time.Time     // a short job wants the same budget until then
	lastShort  time.Time     // when a short job wanted it last
	reserved   int           // recipients reserved and not settled
}

const (
	longBacklogLife = time.Hour // how long a coordinator's report of a long backlog holds
	// an hourly budget is given out in so many portions of at least one refusal; one may be saved for the next
	portionsPerHour = 8
	shortJobLife    = 10 * time.Second
	reservedWait    = 2 * time.Second // reservations are settled soon
)

// RecordLongBacklog records that rows for many hours wait, as a coordinator reports it. It holds for longBacklogLife.
func (p *Pacing) RecordLongBacklog(now time.Time) { p.Extend(now.Add(longBacklogLife)) }

// Extend makes the backlog count as long until a time at least.
func (p *Pacing) Extend(until time.Time) {
	if until.After(p.until) {
		p.until = until
	}
}

// Until is until when the backlog counts as long.
func (p *Pacing) Until() time.Time { return p.until }

// active reports whether long jobs are paced.
func (p *Pacing) active(now time.Time) bool { return now.Before(p.until) }

// RecordShortJob records that a short job wants the budget.
func (p *Pacing) RecordShortJob(now time.Time) {
	p.shortUntil, p.lastShort = now.Add(shortJobLife), now
}

// shortJobSeen reports whether there was a short job in the last hour while the backlog is long. Its rows are returned
// if there is no room; until they come again, the backlog would take all room that the hour frees.
func (p *Pacing) shortJobSeen(now time.Time) bool {
	return p.active(now) && now.Sub(p.lastShort) < time.Hour
}

// refusalCost is the cost of a refusal. While a short job wants the budget too, long jobs get only their share: see
// FairShare.
func (p *Pacing) refusalCost(limit int, now time.Time) time.Duration {
	cost := time.Hour / time.Duration(max(1, limit))
	if now.Before(p.shortUntil) {
		return cost * (1 + shortWeight)
	}
	return cost
}

// room returns how many refusals long jobs may reserve now under an hourly limit; else the denial says when to try
// again.
func (p *Pacing) room(limit int, now time.Time) (int, Denial) {
	each, portion := p.refusalCost(limit, now), time.Hour/time.Duration(min(portionsPerHour, max(1, limit)))
	opens := p.earnedAt.Add(max(0, each-portion))
	if p.closed && now.Before(opens) {
		return 0, Denial{Denied: true, Until: opens}
	}
	p.closed = false
	if least := now.Add(-max(portion, each-portion)); p.earnedAt.Before(least) {
		p.earnedAt = least
	}
	have := int(now.Add(portion).Sub(p.earnedAt)/each) - p.reserved
	switch {
	case have > 0:
		p.lastCost = each
		return have, Denial{}
	case p.reserved > 0:
		return 0, Denial{Denied: true, Until: now.Add(reservedWait)}
	}
	p.closed = true
	return 0, Denial{Denied: true, Until: opens}
}

// settle ends n reservations, of which `refused` count. They cost no more than when they were reserved: a short job
// that came since, or a budget that others have used, could otherwise make them expensive enough to stop long jobs for
// hours.
func (p *Pacing) settle(n, refused, limit int, now time.Time) {
	p.reserved = max(0, p.reserved-n)
	if !p.active(now) {
		return
	}
	if p.earnedAt.IsZero() {
		p.earnedAt = now
	}
	cost := p.refusalCost(limit, now)
	if p.lastCost > 0 {
		cost = min(cost, p.lastCost)
	}
	p.earnedAt = p.earnedAt.Add(time.Duration(refused) * cost)
}

package prober

import "time"

// pacing spreads over the hour what the rows of a long backlog spend of an hourly budget. Spent at once, the budget would be gone
// when a short job comes, which would wait for the rest of the hour; spent evenly, it gives the short job some room in each
// minute, and takes as long for all of it. The zero value spreads nothing. It bounds bulk only, together with the window,
// which holds whatever this allows. An address that queues share is spent so while one of them has a long backlog.
//
// It is a virtual schedule, as ATM's generic cell rate algorithm: each refusal costs the time in which the budget earns it, and
// `debt` is when all that was spent is earned again.
type pacing struct {
	until      time.Time // the backlog is long until then, if no batch says so again
	earnedAt   time.Time
	lastCost   time.Duration // of a refusal, when there was room last
	closed     bool          // until a portion is earned: a connection should carry more than one recipient
	shortUntil time.Time     // until then a short job wants the same budget
	lastShort  time.Time     // when one wanted it last
	reserved   int           // reserved and not settled
}

const (
	longBacklogLife = time.Hour // a coordinator's word of a long backlog holds so long
	portionsPerHour = 8         // an hour's budget goes out in so many, of one refusal at least; one may be saved up with the next
	shortJobLife    = 10 * time.Second
	reservedWait    = 2 * time.Second // what is reserved is settled soon
)

// active reports that bulk is paced.
func (e *pacing) active(now time.Time) bool { return now.Before(e.until) }

// recordShortJob tells of a short job that wants the budget.
func (e *pacing) recordShortJob(now time.Time) {
	e.shortUntil, e.lastShort = now.Add(shortJobLife), now
}

// shortJobSeen reports a short job of this hour while the backlog is long. Its rows are returned where there is no room, and when they are here
// again the backlog, which always waits, would have taken what the hour has given back.
func (e *pacing) shortJobSeen(now time.Time) bool {
	return e.active(now) && now.Sub(e.lastShort) < time.Hour
}

// refusalCost is what a refusal costs. While a short job wants the budget too, bulk has only its own share of what is earned: see turns.
func (e *pacing) refusalCost(limit int, now time.Time) time.Duration {
	cost := time.Hour / time.Duration(max(1, limit))
	if now.Before(e.shortUntil) {
		return cost * (1 + shortWeight)
	}
	return cost
}

// room is how many refusals bulk may reserve now, of a limit an hour; else when it may look again.
func (e *pacing) room(limit int, now time.Time) (int, denial) {
	each, portion := e.refusalCost(limit, now), time.Hour/time.Duration(min(portionsPerHour, max(1, limit)))
	opens := e.earnedAt.Add(max(0, each-portion))
	if e.closed && now.Before(opens) {
		return 0, denial{denied: true, until: opens}
	}
	e.closed = false
	if least := now.Add(-max(portion, each-portion)); e.earnedAt.Before(least) {
		e.earnedAt = least
	}
	have := int(now.Add(portion).Sub(e.earnedAt)/each) - e.reserved
	switch {
	case have > 0:
		e.lastCost = each
		return have, denial{}
	case e.reserved > 0:
		return 0, denial{denied: true, until: now.Add(reservedWait)}
	}
	e.closed = true
	return 0, denial{denied: true, until: opens}
}

// settle ends n reservations, of which `refused` count. They cost no more than when there was room for them: were those under way
// charged for a short job that came since, or for a budget that others turn out to have used, they could shut bulk out for hours.
func (e *pacing) settle(n, refused, limit int, now time.Time) {
	e.reserved = max(0, e.reserved-n)
	if !e.active(now) {
		return
	}
	if e.earnedAt.IsZero() {
		e.earnedAt = now
	}
	cost := e.refusalCost(limit, now)
	if e.lastCost > 0 {
		cost = min(cost, e.lastCost)
	}
	e.earnedAt = e.earnedAt.Add(time.Duration(refused) * cost)
}

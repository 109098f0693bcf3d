package prober

import "time"

// even spreads over the hour what the rows of a long backlog spend of an hourly budget. Spent at once, the budget would be gone
// when a short job comes, which would wait for the rest of the hour; spent evenly, it gives the short job some room in each
// minute, and takes as long for all of it. The zero value spreads nothing. It bounds bulk only, together with the window,
// which holds whatever this allows. An address that lanes share is spent so while one of them has a long backlog.
//
// It is a virtual schedule, as ATM's generic cell rate algorithm: each refusal costs the time in which the budget earns it, and
// `debt` is when all that was spent is earned again.
type even struct {
	until time.Time // the backlog is long until then, if no batch says so again
	debt  time.Time
	price time.Duration // of a refusal, when there was room last
	shut  bool          // until a portion is earned: a connection should carry more than one recipient
	shorn time.Time     // until then a short job wants the same budget
	came  time.Time     // when one wanted it last
	out   int           // reserved and not settled
}

const (
	steadyFor   = time.Hour // a coordinator's word of a long backlog holds so long
	portions    = 8         // an hour's budget goes out in so many, of one refusal at least; one may be saved up with the next
	shortLinger = 10 * time.Second
	outWait     = 2 * time.Second // what is reserved is settled soon
)

// on reports that bulk is paced.
func (e *even) on(now time.Time) bool { return now.Before(e.until) }

// short tells of a short job that wants the budget.
func (e *even) short(now time.Time) { e.shorn, e.came = now.Add(shortLinger), now }

// guest reports a short job of this hour while the backlog is long. Its rows come home where there is no room, and when they are here
// again the backlog, which always waits, would have taken what the hour has given back.
func (e *even) guest(now time.Time) bool { return e.on(now) && now.Sub(e.came) < time.Hour }

// each is what a refusal costs. While a short job wants the budget too, bulk has only its own share of what is earned: see turns.
func (e *even) each(limit int, now time.Time) time.Duration {
	cost := time.Hour / time.Duration(max(1, limit))
	if now.Before(e.shorn) {
		return cost * (1 + shortShare)
	}
	return cost
}

// room is how many refusals bulk may reserve now, of a limit an hour; else when it may look again.
func (e *even) room(limit int, now time.Time) (int, denial) {
	each, portion := e.each(limit, now), time.Hour/time.Duration(min(portions, max(1, limit)))
	opens := e.debt.Add(max(0, each-portion))
	if e.shut && now.Before(opens) {
		return 0, denial{denied: true, until: opens}
	}
	e.shut = false
	if least := now.Add(-max(portion, each-portion)); e.debt.Before(least) {
		e.debt = least
	}
	have := int(now.Add(portion).Sub(e.debt)/each) - e.out
	switch {
	case have > 0:
		e.price = each
		return have, denial{}
	case e.out > 0:
		return 0, denial{denied: true, until: now.Add(outWait)}
	}
	e.shut = true
	return 0, denial{denied: true, until: opens}
}

// settle ends n reservations, of which `refused` count. They cost no more than when there was room for them: were those under way
// charged for a short job that came since, or for a budget that others turn out to have used, they could shut bulk out for hours.
func (e *even) settle(n, refused, limit int, now time.Time) {
	e.out = max(0, e.out-n)
	if !e.on(now) {
		return
	}
	if e.debt.IsZero() {
		e.debt = now
	}
	cost := e.each(limit, now)
	if e.price > 0 {
		cost = min(cost, e.price)
	}
	e.debt = e.debt.Add(time.Duration(refused) * cost)
}

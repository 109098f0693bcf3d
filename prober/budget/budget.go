package budget

import (
	"time"

	"probity/engine"
)

// Budget limits what one egress source asks of one receiver. It is pure and not safe for concurrent use. A zero limit
// is no limit.
//
// Invariants: open connections <= Connections; in any minute, connections begun and recipients sent stay within their
// limits; in any hour, refused recipients stay within theirs, whatever the receiver answers: each recipient is reserved
// as a refusal before it is sent and released when it is accepted.
type Budget struct {
	Limits           engine.Limits // in force; what was used stays used when they change
	QuarantinedUntil time.Time     // until then, nothing: the receiver has quarantined this source
	HalvedUntil      time.Time     // until then, half of every budget
	UsedByOthers     OthersUsage   // refusals of the cluster's hour that other sources have used
	Pacing           Pacing        // of long jobs

	openConns     int
	connWindow    window
	rcptWindow    window
	refusalWindow window
	lease         lease
	singleCalls   SingleCalls // nil: single calls are always expected
}

// SingleCalls says whether single calls are expected: jobs leave them a part of the budgets.
type SingleCalls interface{ Expected(now time.Time) bool }

// New makes an unused budget. Without s, single calls are always expected.
func New(l engine.Limits, s SingleCalls, now time.Time) Budget {
	return Budget{Limits: l, singleCalls: s, connWindow: newWindow(time.Minute, now), rcptWindow: newWindow(time.Minute, now), refusalWindow: newWindow(time.Hour, now)}
}

// Denial says until when a budget denies. A zero time means that only an event of the queue can end it.
type Denial struct {
	Denied bool
	Until  time.Time
	Lease  bool // a lease is missing
}

func expected(s SingleCalls, now time.Time) bool { return s == nil || s.Expected(now) }

// effectiveLimit is the usable part of a limit: half of it after ActionSlow.
func (p *Budget) effectiveLimit(limit int, now time.Time) int {
	if now.Before(p.HalvedUntil) {
		return max(1, limit/2)
	}
	return limit
}

// Open is how many connections are open or being opened.
func (p *Budget) Open() int { return p.openConns }

// MaxOpen is how many connections a class may have open now.
func (p *Budget) MaxOpen(class Class, now time.Time) int {
	limit := p.effectiveLimit(p.Limits.Connections, now)
	if class.IsJob() {
		limit -= reservedForSingles(limit)
	}
	return limit
}

// allowed is the part of a limit per minute or hour that a class may use now.
func (p *Budget) allowed(class Class, limit int, now time.Time) int {
	limit = p.effectiveLimit(limit, now)
	switch {
	case !class.IsJob():
		return limit
	case expected(p.singleCalls, now):
		return limit - reservedForSingles(limit)
	}
	return limit - reservedForFirst(limit)
}

// MayConnect checks whether a connection may be begun.
func (p *Budget) MayConnect(class Class, now time.Time) Denial {
	l := &p.Limits
	if l.Connections > 0 && p.openConns >= p.MaxOpen(class, now) {
		return Denial{Denied: true}
	}
	if limit := p.allowed(class, l.ConnectionsPerMinute, now); l.ConnectionsPerMinute > 0 && p.connWindow.room(limit, now) == 0 {
		return Denial{Denied: true, Until: p.connWindow.nextRoom(limit, now)}
	}
	return Denial{}
}

// ReserveConnect reserves a connection, if there is room.
func (p *Budget) ReserveConnect(class Class, now time.Time) Denial {
	d := p.MayConnect(class, now)
	if d.Denied {
		return d
	}
	p.openConns++
	if p.Limits.ConnectionsPerMinute > 0 {
		p.connWindow.reserve(1)
	}
	return d
}

// SettleConnect counts the connection in the rate, once the peer has seen it or can no longer see it.
func (p *Budget) SettleConnect(now time.Time) {
	if p.Limits.ConnectionsPerMinute > 0 {
		p.connWindow.settle(1, now)
	}
}

// CancelConnect releases a connection for which no packet was sent.
func (p *Budget) CancelConnect() {
	p.openConns--
	p.connWindow.release(1)
}

// ConnectionClosed releases a connection that the peer has closed.
func (p *Budget) ConnectionClosed() { p.openConns-- }

// Room is how many recipients a class may send now over connection c.
func (p *Budget) Room(c *Conn, class Class, now time.Time) (int, Denial) {
	n, d := p.refusalRoom(class, now)
	if l := p.Limits.RecipientsPerMinute; l > 0 && n > 0 {
		limit := p.allowed(class, l, now)
		if n = min(n, p.rcptWindow.room(limit, now)); n == 0 {
			d = Denial{Denied: true, Until: p.rcptWindow.nextRoom(limit, now)}
		}
	}
	return min(n, c.room(&p.Limits, class)), d
}

// refusalsAllowed is how many of the hour's refusals a class may use now. Short jobs leave single calls half of what long
// jobs leave, so that they find room after a long job has used all it may. If no single calls are expected, a long backlog
// leaves short jobs as much.
func (p *Budget) refusalsAllowed(class Class, now time.Time) int {
	l := p.Limits.RefusalsPerHour
	limit := p.allowed(class, l, now)
	switch expectSingles := expected(p.singleCalls, now); {
	case expectSingles && class == ShortJob:
		limit += reservedForSingles(p.effectiveLimit(l, now)) / 2
	case !expectSingles && class == LongJob && p.Pacing.shortJobSeen(now):
		limit -= reservedForSingles(p.effectiveLimit(l, now)) / 2
	}
	return limit - p.UsedByOthers.at(now)
}

// JobClassesDiffer reports that short jobs may use more than long ones.
func (p *Budget) JobClassesDiffer(now time.Time) bool {
	return p.Pacing.active(now) || p.singleCalls.Expected(now)
}

// SettleLong settles n recipients of long jobs in the pacing; `refused` of them count in the hour.
func (p *Budget) SettleLong(n, refused int, now time.Time) {
	if p.Limits.RefusalsPerHour > 0 {
		p.Pacing.settle(n, refused, p.refusalsAllowed(LongJob, now), now)
	}
}

// refusalRoom is room in the refusal budget.
func (p *Budget) refusalRoom(class Class, now time.Time) (int, Denial) {
	l := p.Limits.RefusalsPerHour
	if l == 0 {
		return MaxTransaction, Denial{}
	}
	limit := p.refusalsAllowed(class, now)
	n := p.refusalWindow.room(limit, now)
	if n == 0 && limit <= 0 {
		return 0, Denial{Denied: true, Until: p.UsedByOthers.Until}
	}
	if n == 0 {
		return 0, Denial{Denied: true, Until: p.refusalWindow.nextRoom(limit, now)}
	}
	if class == LongJob && p.Pacing.active(now) {
		m, d := p.Pacing.room(limit, now)
		if n = min(n, m); d.Denied {
			return 0, d
		}
	}
	if p.lease.needed {
		if p.lease.left <= 0 || !now.Before(p.lease.until) {
			return 0, Denial{Denied: true, Lease: true}
		}
		n = min(n, p.lease.left)
	}
	return min(n, MaxTransaction), Denial{}
}

// Reserve reserves n recipients, at most room, in all budgets.
func (p *Budget) Reserve(c *Conn, n int) {
	c.Sent += n
	c.pending += n
	if p.Limits.RecipientsPerMinute > 0 {
		p.rcptWindow.reserve(n)
	}
	if p.Limits.RefusalsPerHour > 0 {
		p.refusalWindow.reserve(n)
		p.lease.left -= n
	}
}

// Release releases n reserved recipients that were not sent.
func (p *Budget) Release(c *Conn, n int) {
	c.Sent -= n
	c.pending -= n
	p.rcptWindow.release(n)
	if p.Limits.RefusalsPerHour > 0 {
		p.refusalWindow.release(n)
		p.lease.left += n
	}
}

// Settle records that n reserved recipients were sent. Of those not accepted, `deferred` got a 4xx that says nothing about
// the mailbox: they count on the connection, not in the hour.
func (p *Budget) Settle(c *Conn, n, accepted, deferred int, now time.Time) {
	notCharged := accepted + deferred
	c.pending -= n
	c.refused += n - accepted
	if p.Limits.RecipientsPerMinute > 0 {
		p.rcptWindow.settle(n, now)
	}
	if p.Limits.RefusalsPerHour > 0 {
		p.refusalWindow.settle(n-notCharged, now)
		p.refusalWindow.release(notCharged)
		p.lease.left += notCharged
	}
}

// Idle reports that all budgets are full, so that the budget can be dropped.
func (p *Budget) Idle(now time.Time) bool {
	return p.openConns == 0 && !now.Before(p.QuarantinedUntil) && p.connWindow.empty(now) && p.rcptWindow.empty(now) && p.refusalWindow.empty(now)
}

// MinuteBudgetsFull reports that only the hourly budget is not full.
func (p *Budget) MinuteBudgetsFull(now time.Time) bool {
	return p.openConns == 0 && p.connWindow.empty(now) && p.rcptWindow.empty(now) && !now.Before(p.HalvedUntil)
}

// Usage is how much of a limit is used or reserved; the zero value is no limit.
type Usage struct{ Used, Limit int }

// Usage is what is used of the recipients a minute and of the refusals an hour.
func (p *Budget) Usage(now time.Time) (perMinute, refusals Usage) {
	return p.rcptWindow.usage(p.Limits.RecipientsPerMinute, now), p.refusalWindow.usage(p.Limits.RefusalsPerHour, now)
}

// Refusals counts the refusals of the last hour, and the recipients that are reserved as refusals.
func (p *Budget) Refusals(now time.Time) (settled, reserved int) {
	p.refusalWindow.advance(now)
	return p.refusalWindow.used, p.refusalWindow.reserved
}

// OthersUsage is what other sources have used of an hour's refusals, and until when it counts.
type OthersUsage struct {
	Used  int
	Until time.Time
}

func (e *OthersUsage) at(now time.Time) int {
	if now.Before(e.Until) {
		return e.Used
	}
	return 0
}

package budget

import (
	"math"
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
	Blocklisted      bool          // it has because a public blocklist names the source
	HalvedUntil      time.Time     // until then, half of every budget
	UsedByOthers     OthersUsage   // refusals of the cluster's hour that other sources have used
	Pacing           Pacing        // of long jobs

	openConns     int
	connWindow    window
	rcptWindow    window
	refusalWindow window
	lease         lease
	writtenAt     time.Time   // of the state that it was restored from
	singleCalls   SingleCalls // nil: single calls are always expected
}

// SingleCalls says whether single calls are expected: jobs leave them a part of the budgets.
type SingleCalls interface{ Expected(now time.Time) bool }

// New makes an unused budget. Without s, single calls are always expected.
func New(l engine.Limits, s SingleCalls, now time.Time) Budget {
	return Budget{Limits: l, singleCalls: s, connWindow: newWindow(time.Minute, now),
		rcptWindow: newWindow(time.Minute, now), refusalWindow: newWindow(time.Hour, now)}
}

// Denial says until when a budget denies. A zero time means that only an event of the queue can end it.
type Denial struct {
	Denied bool
	Until  time.Time
	Lease  bool // a lease is missing
}

func expected(s SingleCalls, now time.Time) bool { return s == nil || s.Expected(now) }

// effectiveLimit is the usable part of a limit: half of it after ActionSlow.
func (b *Budget) effectiveLimit(limit int, now time.Time) int {
	if now.Before(b.HalvedUntil) {
		return max(1, limit/2)
	}
	return limit
}

// Open returns how many connections are open or being opened.
func (b *Budget) Open() int { return b.openConns }

// MaxOpen returns how many connections a priority may have open now.
func (b *Budget) MaxOpen(priority Priority, now time.Time) int {
	limit := b.effectiveLimit(b.Limits.Connections, now)
	if priority.IsJob() {
		limit -= reservedForSingles(limit)
	}
	return limit
}

// allowed is the part of a limit per minute or hour that a priority may use now.
func (b *Budget) allowed(priority Priority, limit int, now time.Time) int {
	limit = b.effectiveLimit(limit, now)
	switch {
	case !priority.IsJob():
		return limit
	case expected(b.singleCalls, now):
		return limit - reservedForSingles(limit)
	}
	return limit - reservedForFirst(limit)
}

// MayConnect checks whether a connection may be begun.
func (b *Budget) MayConnect(priority Priority, now time.Time) Denial {
	l := &b.Limits
	if l.Connections > 0 && b.openConns >= b.MaxOpen(priority, now) {
		return Denial{Denied: true}
	}
	if limit := b.allowed(priority, l.ConnectionsPerMinute, now); l.ConnectionsPerMinute > 0 &&
		b.connWindow.room(limit, now) == 0 {
		return Denial{Denied: true, Until: b.connWindow.nextRoom(limit, now)}
	}
	return Denial{}
}

// ReserveConnect reserves a connection, if there is room.
func (b *Budget) ReserveConnect(priority Priority, now time.Time) Denial {
	if d := b.MayConnect(priority, now); d.Denied {
		return d
	}
	b.openConns++
	if b.Limits.ConnectionsPerMinute > 0 {
		b.connWindow.reserve(1)
	}
	return Denial{}
}

// SettleConnect counts the connection in the rate, once the peer has seen it or can no longer see it.
func (b *Budget) SettleConnect(now time.Time) {
	if b.Limits.ConnectionsPerMinute > 0 {
		b.connWindow.settle(1, now)
	}
}

// CancelConnect releases a connection for which no packet was sent.
func (b *Budget) CancelConnect() {
	b.openConns--
	b.connWindow.release(1)
}

// ConnectionClosed releases a connection that the peer has closed.
func (b *Budget) ConnectionClosed() { b.openConns-- }

// Room returns how many recipients a priority may send now over connection c. Jobs leave the last of several
// transactions of a connection to a single call.
func (b *Budget) Room(c *Conn, priority Priority, now time.Time) (int, Denial) {
	l, n := &b.Limits, MaxTransaction
	if l.RefusalsPerHour > 0 {
		limit := b.refusalsAllowed(priority, now)
		n = min(n, b.refusalWindow.room(limit, now))
		switch {
		case n == 0 && limit <= 0:
			return 0, Denial{Denied: true, Until: b.UsedByOthers.Until}
		case n == 0:
			return 0, Denial{Denied: true, Until: b.refusalWindow.nextRoom(limit, now)}
		case priority == LongJob && b.Pacing.active(now):
			m, d := b.Pacing.room(limit, now)
			n = min(n, m)
			if d.Denied {
				return 0, d
			}
		}
		if b.lease.needed {
			if b.lease.left <= 0 || !now.Before(b.lease.until) {
				return 0, Denial{Denied: true, Lease: true}
			}
			n = min(n, b.lease.left)
		}
	}
	if l.RecipientsPerMinute > 0 {
		limit := b.allowed(priority, l.RecipientsPerMinute, now)
		n = min(n, b.rcptWindow.room(limit, now))
		if n == 0 {
			return 0, Denial{Denied: true, Until: b.rcptWindow.nextRoom(limit, now)}
		}
	}
	for _, of := range [...]struct{ limit, used int }{{l.RecipientsPerTransaction, 0},
		{l.RecipientsPerConnection, c.Sent}, {l.RefusalsPerConnection, c.refused + c.pending}} {
		if of.limit > 0 {
			n = min(n, of.limit-of.used)
		}
	}
	if t := l.TransactionsPerConnection; t > 0 {
		if priority.IsJob() && t > 1 {
			t--
		}
		if c.Transactions >= t {
			n = 0
		}
	}
	return max(0, n), Denial{}
}

// RefusalsLeft returns how many more recipients may be refused over a connection.
func (b *Budget) RefusalsLeft(c *Conn) int {
	if b.Limits.RefusalsPerConnection == 0 {
		return math.MaxInt
	}
	return b.Limits.RefusalsPerConnection - c.refused - c.pending
}

// RecipientsLeft returns how many more recipients a connection may have.
func (b *Budget) RecipientsLeft(c *Conn) int {
	if b.Limits.RecipientsPerConnection == 0 {
		return math.MaxInt
	}
	return b.Limits.RecipientsPerConnection - c.Sent
}

// refusalsAllowed returns how many of the hour's refusals a priority may use now. Short jobs leave single calls half of
// what long jobs leave, so that they find room after a long job has used all it may. If no single calls are expected, a
// long backlog leaves short jobs as much and one more: what controls a refusal has to come within minutes of it.
func (b *Budget) refusalsAllowed(priority Priority, now time.Time) int {
	limit := b.allowed(priority, b.Limits.RefusalsPerHour, now)
	switch expectSingles := expected(b.singleCalls, now); {
	case expectSingles && priority == ShortJob:
		limit += reservedForSingles(b.effectiveLimit(b.Limits.RefusalsPerHour, now)) / 2
	case !expectSingles && priority == LongJob && b.Pacing.shortJobSeen(now):
		if ofShort := reservedForSingles(b.effectiveLimit(b.Limits.RefusalsPerHour, now)) / 2; ofShort > 0 {
			limit -= ofShort + 1
		}
	}
	if now.Before(b.UsedByOthers.Until) {
		limit -= b.UsedByOthers.Used
	}
	return limit
}

// JobPrioritiesDiffer reports whether short jobs may use more than long ones.
func (b *Budget) JobPrioritiesDiffer(now time.Time) bool {
	return b.Pacing.active(now) || b.singleCalls.Expected(now)
}

// Reserve reserves a transaction of n recipients, at most room, in all budgets; `long` of them are for long jobs.
func (b *Budget) Reserve(c *Conn, n, long int) {
	c.Transactions++
	c.Sent += n
	c.pending += n
	b.Pacing.reserved += long
	if b.Limits.RecipientsPerMinute > 0 {
		b.rcptWindow.reserve(n)
	}
	if b.Limits.RefusalsPerHour > 0 {
		b.refusalWindow.reserve(n)
		b.lease.left -= n
	}
}

// Cost is what a transaction is charged with. What is neither unsent, accepted nor deferred counts as refused.
type Cost struct {
	Recipients int // reserved
	// deferred: with a 4xx that says nothing about the mailbox; it counts on the connection, not in the hour
	Unsent, Accepted, Deferred int
	// recipients for long jobs, and those of them that count as refused: what pacing charges
	Long, LongRefused int
}

// Settle ends the reservation of a transaction, and charges it.
func (b *Budget) Settle(c *Conn, x Cost, now time.Time) {
	sent := x.Recipients - x.Unsent
	c.Sent -= x.Unsent
	c.pending -= x.Recipients
	c.refused += sent - x.Accepted
	b.rcptWindow.release(x.Unsent)
	if b.Limits.RecipientsPerMinute > 0 {
		b.rcptWindow.settle(sent, now)
	}
	if b.Limits.RefusalsPerHour > 0 {
		notCharged := x.Unsent + x.Accepted + x.Deferred
		b.refusalWindow.release(notCharged)
		b.refusalWindow.settle(x.Recipients-notCharged, now)
		b.lease.left += notCharged
		b.Pacing.settle(x.Long, x.LongRefused, b.refusalsAllowed(LongJob, now), now)
	}
}

// Idle reports whether all budgets are full, so that the budget can be dropped.
func (b *Budget) Idle(now time.Time) bool {
	return b.openConns == 0 && !now.Before(b.QuarantinedUntil) && b.connWindow.empty(now) && b.rcptWindow.empty(now) &&
		b.refusalWindow.empty(now)
}

// MinuteBudgetsFull reports whether only the hourly budget is not full.
func (b *Budget) MinuteBudgetsFull(now time.Time) bool {
	return b.openConns == 0 && b.connWindow.empty(now) && b.rcptWindow.empty(now) && !now.Before(b.HalvedUntil)
}

// Usage is how much of a limit is used or reserved; the zero value is no limit.
type Usage struct{ Used, Limit int }

// Usage returns what is used of the recipients a minute and of the refusals an hour.
func (b *Budget) Usage(now time.Time) (perMinute, refusals Usage) {
	return b.rcptWindow.usage(b.Limits.RecipientsPerMinute, now), b.refusalWindow.usage(b.Limits.RefusalsPerHour, now)
}

// Refusals counts the refusals of the last hour.
func (b *Budget) Refusals(now time.Time) int {
	b.refusalWindow.advance(now)
	return b.refusalWindow.used
}

// OthersUsage is what other sources have used of an hour's refusals, and until when it counts.
type OthersUsage struct {
	Used  int
	Until time.Time
}

// Least returns the least of n and the limits; 0 is no limit.
func Least(n int, limits ...int) int {
	for _, limit := range limits {
		if limit > 0 {
			n = min(n, limit)
		}
	}
	return n
}

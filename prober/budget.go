package prober

import (
	"encoding/binary"
	"time"

	"probity/engine"
)

// priority is the class of a probe. Single calls may use what jobs must leave; short jobs get the larger share of the rest.
type priority uint8

const (
	bulk priority = iota
	short
	single
	numPriorities
)

// isJob reports a row of a short or long job.
func (p priority) isJob() bool { return p != single }

// maxTransaction caps the recipients of one transaction if the receiver sets no limit: RFC 5321 section 4.5.3.1.8
// requires room for 100.
const maxTransaction = 100

// reservedForSingles is the part of a budget that jobs leave to single calls while they are expected: 20 %, rounded down.
func reservedForSingles(limit int) int { return limit / 5 }

// reservedForFirst is what jobs leave of a rate to the first single call while none is expected.
func reservedForFirst(limit int) int { return limit / 100 }

// budget limits what one egress source asks of one receiver. It is pure and not safe for concurrent use. A zero limit
// is no limit.
//
// Invariants: open connections <= Connections; in any minute, connections begun and recipients sent stay within their
// limits; in any hour, refused recipients stay within theirs, whatever the receiver answers: each recipient is reserved
// as a refusal before it is sent and released when it is accepted.
type budget struct {
	limits           engine.Limits
	openConns        int
	connWindow       window
	rcptWindow       window
	refusalWindow    window
	lease            lease
	singleCalls      SingleCalls // nil: single calls are always expected
	usedByOthers     othersUsage // refusals of the cluster's hour that other sources have used
	pacing           pacing
	halvedUntil      time.Time // until then, half of every budget
	quarantinedUntil time.Time // until then, nothing: the receiver has quarantined this source
}

// lease is the part of the refusal budget that may be used before the state must be on disk again. A restart counts it
// as used at the lease's end.
type lease struct {
	needed bool // false: nothing is persisted
	left   int
	until  time.Time
}

const (
	leaseLife  = 2 * time.Minute
	leaseParts = 20              // a lease is a twentieth of the hourly budget, at least 4: a crash costs what is leased and in flight
	leaseTail  = 5 * time.Minute // reservations under a lease are settled at most this long after its end
)

// SingleCalls says whether single calls are expected: jobs leave them a part of the budgets.
type SingleCalls interface{ Expected(now time.Time) bool }

// newBudget makes an unused budget. Without s, single calls are always expected.
func newBudget(l engine.Limits, s SingleCalls, now time.Time) budget {
	return budget{limits: l, singleCalls: s, connWindow: newWindow(time.Minute, now), rcptWindow: newWindow(time.Minute, now), refusalWindow: newWindow(time.Hour, now)}
}

// denial says until when a budget denies. A zero time means that only an event of the queue can end it.
type denial struct {
	denied bool
	until  time.Time
	lease  bool // a lease is missing
}

// Limits are the limits in force.
func (p *budget) Limits() engine.Limits { return p.limits }

// SetLimits replaces the limits. What was used stays used.
func (p *budget) SetLimits(l engine.Limits) {
	p.limits = l
	p.lease.needed = l.RefusalsPerHour > 0
}

// Quarantine ends all use until a time; the zero time ends the quarantine.
func (p *budget) Quarantine(until time.Time) { p.quarantinedUntil = until }

// QuarantinedUntil is when the receiver's quarantine of the source ends.
func (p *budget) QuarantinedUntil() time.Time { return p.quarantinedUntil }

// Halve halves all limits until a time.
func (p *budget) Halve(until time.Time) { p.halvedUntil = until }

// HalvedUntil is until when all limits are halved.
func (p *budget) HalvedUntil() time.Time { return p.halvedUntil }

// singlesExpected reports that single calls are expected.
func (p *budget) singlesExpected(now time.Time) bool {
	return p.singleCalls == nil || p.singleCalls.Expected(now)
}

// effectiveLimit is the usable part of a limit: half of it after ActionSlow.
func (p *budget) effectiveLimit(limit int, now time.Time) int {
	if now.Before(p.halvedUntil) {
		return max(1, limit/2)
	}
	return limit
}

// Open is how many connections are open or being opened.
func (p *budget) Open() int { return p.openConns }

// maxOpen is how many connections a priority may have open now.
func (p *budget) maxOpen(class priority, now time.Time) int {
	limit := p.effectiveLimit(p.limits.Connections, now)
	if class.isJob() {
		limit -= reservedForSingles(limit)
	}
	return limit
}

// allowed is the part of a limit per minute or hour that a priority may use now.
func (p *budget) allowed(class priority, limit int, now time.Time) int {
	limit = p.effectiveLimit(limit, now)
	switch {
	case !class.isJob():
		return limit
	case p.singlesExpected(now):
		return limit - reservedForSingles(limit)
	}
	return limit - reservedForFirst(limit)
}

// mayConnect checks whether a connection may be begun.
func (p *budget) mayConnect(class priority, now time.Time) denial {
	l := &p.limits
	if l.Connections > 0 && p.openConns >= p.maxOpen(class, now) {
		return denial{denied: true}
	}
	if limit := p.allowed(class, l.ConnectionsPerMinute, now); l.ConnectionsPerMinute > 0 && p.connWindow.room(limit, now) == 0 {
		return denial{denied: true, until: p.connWindow.nextRoom(limit, now)}
	}
	return denial{}
}

// reserveConnect reserves a connection, if there is room.
func (p *budget) reserveConnect(class priority, now time.Time) denial {
	d := p.mayConnect(class, now)
	if d.denied {
		return d
	}
	p.openConns++
	if p.limits.ConnectionsPerMinute > 0 {
		p.connWindow.reserve(1)
	}
	return d
}

// settleConnect counts the connection in the rate, once the peer has seen it or can no longer see it.
func (p *budget) settleConnect(now time.Time) {
	if p.limits.ConnectionsPerMinute > 0 {
		p.connWindow.settle(1, now)
	}
}

// cancelConnect releases a connection for which no packet was sent.
func (p *budget) cancelConnect() {
	p.openConns--
	p.connWindow.release(1)
}

// connectionClosed releases a connection that the peer has closed.
func (p *budget) connectionClosed() { p.openConns-- }

// room is how many recipients a priority may send now over connection c.
func (p *budget) room(c *connUsage, class priority, now time.Time) (int, denial) {
	n, d := p.refusalRoom(class, now)
	if l := p.limits.RecipientsPerMinute; l > 0 && n > 0 {
		limit := p.allowed(class, l, now)
		if n = min(n, p.rcptWindow.room(limit, now)); n == 0 {
			d = denial{denied: true, until: p.rcptWindow.nextRoom(limit, now)}
		}
	}
	return min(n, c.room(&p.limits, class)), d
}

// refusalsAllowed is how many of the hour's refusals a priority may use now. Short jobs leave single calls half of what long
// jobs leave, so that they find room after a long job has used all it may. If no single calls are expected, a long backlog
// leaves short jobs as much.
func (p *budget) refusalsAllowed(class priority, now time.Time) int {
	l := p.limits.RefusalsPerHour
	limit := p.allowed(class, l, now)
	switch expectSingles := p.singlesExpected(now); {
	case expectSingles && class == short:
		limit += reservedForSingles(p.effectiveLimit(l, now)) / 2
	case !expectSingles && class == bulk && p.pacing.shortJobSeen(now):
		limit -= reservedForSingles(p.effectiveLimit(l, now)) / 2
	}
	return limit - p.usedByOthers.at(now)
}

// jobClassesDiffer reports that short jobs may use more than long ones.
func (p *budget) jobClassesDiffer(now time.Time) bool {
	return p.pacing.active(now) || p.singleCalls.Expected(now)
}

// ReserveLong reserves n recipients of long jobs in the pacing.
func (p *budget) ReserveLong(n int) { p.pacing.reserved += n }

// settleLong settles n recipients of long jobs in the pacing; `refused` of them count in the hour.
func (p *budget) settleLong(n, refused int, now time.Time) {
	if p.limits.RefusalsPerHour > 0 {
		p.pacing.settle(n, refused, p.refusalsAllowed(bulk, now), now)
	}
}

// RecordLongBacklog records that rows for many hours wait. It holds for longBacklogLife.
func (p *budget) RecordLongBacklog(now time.Time) { p.ExtendLongBacklog(now.Add(longBacklogLife)) }

// ExtendLongBacklog makes the backlog count as long until a time at least.
func (p *budget) ExtendLongBacklog(until time.Time) {
	if until.After(p.pacing.until) {
		p.pacing.until = until
	}
}

// LongBacklogUntil is until when the backlog counts as long.
func (p *budget) LongBacklogUntil() time.Time { return p.pacing.until }

// RecordShortJob records that a short job wants the budget.
func (p *budget) RecordShortJob(now time.Time) { p.pacing.recordShortJob(now) }

// SetUsedByOthers records what other sources have used of the hour's refusals, and until when it counts. A newer report replaces an
// older one.
func (p *budget) SetUsedByOthers(used int, until time.Time) {
	p.usedByOthers = othersUsage{used: used, until: until}
}

// refusalRoom is room in the refusal budget.
func (p *budget) refusalRoom(class priority, now time.Time) (int, denial) {
	l := p.limits.RefusalsPerHour
	if l == 0 {
		return maxTransaction, denial{}
	}
	limit := p.refusalsAllowed(class, now)
	n := p.refusalWindow.room(limit, now)
	if n == 0 && limit <= 0 {
		return 0, denial{denied: true, until: p.usedByOthers.until}
	}
	if n == 0 {
		return 0, denial{denied: true, until: p.refusalWindow.nextRoom(limit, now)}
	}
	if class == bulk && p.pacing.active(now) {
		m, d := p.pacing.room(limit, now)
		if n = min(n, m); d.denied {
			return 0, d
		}
	}
	if p.lease.needed {
		if p.lease.left <= 0 || !now.Before(p.lease.until) {
			return 0, denial{denied: true, lease: true}
		}
		n = min(n, p.lease.left)
	}
	return min(n, maxTransaction), denial{}
}

// reserve reserves n recipients, at most room, in all budgets.
func (p *budget) reserve(c *connUsage, n int) {
	c.sent += n
	c.pending += n
	if p.limits.RecipientsPerMinute > 0 {
		p.rcptWindow.reserve(n)
	}
	if p.limits.RefusalsPerHour > 0 {
		p.refusalWindow.reserve(n)
		p.lease.left -= n
	}
}

// release releases n reserved recipients that were not sent.
func (p *budget) release(c *connUsage, n int) {
	c.sent -= n
	c.pending -= n
	p.rcptWindow.release(n)
	if p.limits.RefusalsPerHour > 0 {
		p.refusalWindow.release(n)
		p.lease.left += n
	}
}

// settle records that n reserved recipients were sent. Of those not accepted, `deferred` got a 4xx that says nothing about
// the mailbox: they count on the connection, not in the hour.
func (p *budget) settle(c *connUsage, n, accepted, deferred int, now time.Time) {
	notCharged := accepted + deferred
	c.pending -= n
	c.refused += n - accepted
	if p.limits.RecipientsPerMinute > 0 {
		p.rcptWindow.settle(n, now)
	}
	if p.limits.RefusalsPerHour > 0 {
		p.refusalWindow.settle(n-notCharged, now)
		p.refusalWindow.release(notCharged)
		p.lease.left += notCharged
	}
}

// idle reports that all budgets are full, so that the budget can be dropped.
func (p *budget) idle(now time.Time) bool {
	return p.openConns == 0 && !now.Before(p.quarantinedUntil) && p.connWindow.empty(now) && p.rcptWindow.empty(now) && p.refusalWindow.empty(now)
}

// minuteBudgetsFull reports that only the hourly budget is not full.
func (p *budget) minuteBudgetsFull(now time.Time) bool {
	return p.openConns == 0 && p.connWindow.empty(now) && p.rcptWindow.empty(now) && !now.Before(p.halvedUntil)
}

// Usage is how much of a limit is used or reserved; the zero value is no limit.
type Usage struct{ Used, Limit int }

// MinuteUsage is what is used of the recipients a minute.
func (p *budget) MinuteUsage(now time.Time) Usage {
	return p.rcptWindow.usage(p.limits.RecipientsPerMinute, now)
}

// HourUsage is what is used of the refusals an hour.
func (p *budget) HourUsage(now time.Time) Usage {
	return p.refusalWindow.usage(p.limits.RefusalsPerHour, now)
}

// Refusals counts the refusals of the last hour, and the recipients that are reserved as refusals.
func (p *budget) Refusals(now time.Time) (settled, reserved int) {
	p.refusalWindow.advance(now)
	return p.refusalWindow.used, p.refusalWindow.reserved
}

// leaseSize is how many refusals one lease allows.
func (p *budget) leaseSize() int { return max(4, p.limits.RefusalsPerHour/leaseParts) }

// connUsage counts what one connection has carried.
type connUsage struct {
	sent, pending, refused, transactions int
}

// room is what the connection's own limits leave. Jobs leave the last of several transactions to a single call.
func (c *connUsage) room(l *engine.Limits, class priority) int {
	n := maxTransaction
	bound := func(limit, used int) {
		if limit > 0 {
			n = min(n, limit-used)
		}
	}
	bound(l.RecipientsPerTransaction, 0)
	bound(l.RecipientsPerConnection, c.sent)
	bound(l.RefusalsPerConnection, c.refused+c.pending)
	if t := l.TransactionsPerConnection; t > 0 {
		if class.isJob() && t > 1 {
			t--
		}
		if c.transactions >= t {
			return 0
		}
	}
	return max(0, n)
}

// othersUsage is what other sources have used of an hour's refusals, and until when it counts.
type othersUsage struct {
	used  int
	until time.Time
}

func (e *othersUsage) at(now time.Time) int {
	if now.Before(e.until) {
		return e.used
	}
	return 0
}

const budgetVersion = 1

// append encodes what a restart needs: the quarantine, the hour's refusals, and what a fresh lease of `leased` and the open
// reservations may still use. The budgets per minute are not stored: a restart waits a minute instead.
func (p *budget) append(dst []byte, leased int, now time.Time) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, budgetVersion), uint64(now.UnixMilli()))
	dst = binary.BigEndian.AppendUint64(dst, uint64(max(0, p.quarantinedUntil.UnixMilli())))
	dst = binary.AppendUvarint(dst, uint64(leased+p.refusalWindow.reserved))
	return p.refusalWindow.append(dst, now)
}

// snapshot encodes the state for the disk and ends the current lease; grantLease begins the next one once the state is written.
func (p *budget) snapshot(dst []byte, now time.Time) (state []byte, leased int) {
	leased = min(p.leaseSize(), max(0, p.limits.RefusalsPerHour-p.refusalWindow.used-p.refusalWindow.reserved))
	p.lease.left = 0
	return p.append(dst, leased, now), leased
}

func (p *budget) grantLease(leased int, snapshotAt time.Time) {
	p.lease.left += leased
	p.lease.until = snapshotAt.Add(leaseLife)
}

// read restores what append wrote; false if it is unreadable. The lease counts as used at the last moment at which it
// can have been used.
func (p *budget) read(src []byte, now time.Time) bool {
	if len(src) < 17 || src[0] != budgetVersion {
		return false
	}
	written, rest := time.UnixMilli(int64(binary.BigEndian.Uint64(src[1:]))), int64(binary.BigEndian.Uint64(src[9:]))
	leased, k := binary.Uvarint(src[17:])
	if k <= 0 || leased > 1<<31-1 {
		return false
	}
	w := newWindow(time.Hour, now)
	elapsed := now.Sub(written)
	if left, ok := w.read(src[17+k:], elapsed); !ok || len(left) > 0 {
		return false
	}
	if age := floorDiv(max(0, elapsed-leaseLife-leaseTail), w.slot); age <= windowSlots {
		*w.slotAt(-age) += uint32(leased)
		w.used += int(leased)
	}
	p.refusalWindow = w
	if rest > 0 {
		left := time.UnixMilli(rest)
		p.quarantinedUntil = now.Add(min(left.Sub(now), left.Sub(written))) // not longer than it was to last, even if the clock was set back
	}
	return true
}

// exhaust uses up the hourly budget, for a state that cannot be read.
func (p *budget) exhaust(now time.Time) {
	p.refusalWindow = newWindow(time.Hour, now)
	p.refusalWindow.add(p.limits.RefusalsPerHour, now)
}

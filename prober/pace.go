package prober

import (
	"encoding/binary"
	"time"

	"probity/engine"
)

// priority says whose turn a probe takes. Singles may use what bulk must leave; short jobs have the larger part of that.
type priority uint8

const (
	bulk priority = iota
	short
	single
	priorities
)

// isBulk reports a row of a job, be it short or long.
func (p priority) isBulk() bool { return p != single }

// maxTransaction caps the recipients of one transaction where the receiver names no limit: RFC 5321 section 4.5.3.1.8
// promises room for 100.
const maxTransaction = 100

// kept is the part of a budget that bulk leaves to singles while they come: 20 %, rounded down.
func kept(limit int) int { return limit / 5 }

// keptForFirst is what bulk leaves of a rate while none comes, for the first.
func keptForFirst(limit int) int { return limit / 100 }

// pace is the patience of one egress identity towards one receiver: pure, not safe for concurrent use. A zero limit
// is no limit.
//
// Laws, at every instant: open connections <= Connections; in any minute, connections begun and recipients sent stay
// within their limits; in any hour, refused recipients stay within theirs, whatever the receiver answers: each recipient
// is reserved as a refusal before it is sent and given back when it is accepted.
type pace struct {
	limits    engine.Limits
	open      int
	conns     window
	rcpts     window
	refuse    window
	lease     lease
	calls     *calls    // of singles; nil where they always come
	elsewhere elsewhere // used of the hour by other sources of the cluster
	even      even
	slow      time.Time // until then, half of every budget
	rest      time.Time // until then, nothing: the receiver has quarantined this source
}

// lease is what of the refusal budget may be used before the state must be on disk again. A restart counts what was
// leased as used at the lease's end.
type lease struct {
	needed bool // false: nothing is persisted
	left   int
	until  time.Time
}

const (
	leaseLife  = 2 * time.Minute
	leaseParts = 20              // a lease is a twentieth of the hour's budget, 4 at least: a crash costs what is leased and under way
	leaseTail  = 5 * time.Minute // what was reserved under a lease is settled at the latest so long after its end
)

func newPace(l engine.Limits, now time.Time) pace {
	return pace{limits: l, conns: newWindow(time.Minute, now), rcpts: newWindow(time.Minute, now), refuse: newWindow(time.Hour, now)}
}

// denial says until when a budget forbids; a zero time means that nothing but an event of the lane can lift it.
type denial struct {
	denied bool
	until  time.Time
	lease  bool // what is missing is a lease
}

// usable is what may be used of a limit now.
func (p *pace) usable(limit int, now time.Time) int {
	if now.Before(p.slow) {
		return max(1, limit/2)
	}
	return limit
}

// connections is how many who may have open now.
func (p *pace) connections(who priority, now time.Time) int {
	limit := p.usable(p.limits.Connections, now)
	if who.isBulk() {
		limit -= kept(limit)
	}
	return limit
}

// allowed is what who may use now of a limit by the minute or the hour.
func (p *pace) allowed(who priority, limit int, now time.Time) int {
	limit = p.usable(limit, now)
	switch {
	case !who.isBulk():
		return limit
	case p.calls.come(now):
		return limit - kept(limit)
	}
	return limit - keptForFirst(limit)
}

// mayConnect says whether a connection may be begun.
func (p *pace) mayConnect(who priority, now time.Time) denial {
	l := &p.limits
	if l.Connections > 0 && p.open >= p.connections(who, now) {
		return denial{denied: true}
	}
	if limit := p.allowed(who, l.ConnectionsPerMinute, now); l.ConnectionsPerMinute > 0 && p.conns.room(limit, now) == 0 {
		return denial{denied: true, until: p.conns.next(limit, now)}
	}
	return denial{}
}

// connect reserves a connection.
func (p *pace) connect(who priority, now time.Time) denial {
	d := p.mayConnect(who, now)
	if d.denied {
		return d
	}
	p.open++
	if p.limits.ConnectionsPerMinute > 0 {
		p.conns.reserve(1)
	}
	return d
}

// connected settles the connection's place in the rate, once the peer has seen it or cannot see it any more.
func (p *pace) connected(now time.Time) {
	if p.limits.ConnectionsPerMinute > 0 {
		p.conns.settle(1, now)
	}
}

// unconnect takes back a connect that came to nothing before a packet was sent.
func (p *pace) unconnect() {
	p.open--
	p.conns.giveBack(1)
}

// closed frees the connection's place, once the peer has counted it out.
func (p *pace) closed() { p.open-- }

// room is how many recipients who may send now over connection c.
func (p *pace) room(c *connPace, who priority, now time.Time) (int, denial) {
	n, d := p.hourly(who, now)
	if l := p.limits.RecipientsPerMinute; l > 0 && n > 0 {
		limit := p.allowed(who, l, now)
		if n = min(n, p.rcpts.room(limit, now)); n == 0 {
			d = denial{denied: true, until: p.rcpts.next(limit, now)}
		}
	}
	return min(n, c.room(&p.limits, who)), d
}

// anHour is what who may use now of the hour's refusals. Short jobs leave singles half of what long ones leave them: so they find
// something even where a long one has used all that it may. Where no singles come, a long backlog leaves short jobs as much.
func (p *pace) anHour(who priority, now time.Time) int {
	l := p.limits.RefusalsPerHour
	limit := p.allowed(who, l, now)
	switch come := p.calls.come(now); {
	case come && who == short:
		limit += kept(p.usable(l, now)) / 2
	case !come && who == bulk && p.even.guest(now):
		limit -= kept(p.usable(l, now)) / 2
	}
	return limit - p.elsewhere.now(now)
}

// apart reports that short jobs may have more than long ones.
func (p *pace) apart(now time.Time) bool { return p.even.on(now) || p.calls.come(now) }

// spend settles n recipients of long jobs, of which `refused` count in the hour.
func (p *pace) spend(n, refused int, now time.Time) {
	if p.limits.RefusalsPerHour > 0 {
		p.even.settle(n, refused, p.anHour(bulk, now), now)
	}
}

// hourly is room in the refusal budget.
func (p *pace) hourly(who priority, now time.Time) (int, denial) {
	l := p.limits.RefusalsPerHour
	if l == 0 {
		return maxTransaction, denial{}
	}
	limit := p.anHour(who, now)
	n := p.refuse.room(limit, now)
	if n == 0 && limit <= 0 {
		return 0, denial{denied: true, until: p.elsewhere.until}
	}
	if n == 0 {
		return 0, denial{denied: true, until: p.refuse.next(limit, now)}
	}
	if who == bulk && p.even.on(now) {
		m, d := p.even.room(limit, now)
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

// reserve takes n recipients, at most room, from all budgets.
func (p *pace) reserve(c *connPace, n int) {
	c.sent += n
	c.pending += n
	if p.limits.RecipientsPerMinute > 0 {
		p.rcpts.reserve(n)
	}
	if p.limits.RefusalsPerHour > 0 {
		p.refuse.reserve(n)
		p.lease.left -= n
	}
}

// release returns n reserved recipients that were not sent.
func (p *pace) release(c *connPace, n int) {
	c.sent -= n
	c.pending -= n
	p.rcpts.giveBack(n)
	if p.limits.RefusalsPerHour > 0 {
		p.refuse.giveBack(n)
		p.lease.left += n
	}
}

// settle records that n reserved recipients were sent. Of those not accepted, `mild` were put off without a word about the
// mailbox: they count on the connection, not in the hour.
func (p *pace) settle(c *connPace, n, accepted, mild int, now time.Time) {
	spared := accepted + mild
	c.pending -= n
	c.refused += n - accepted
	if p.limits.RecipientsPerMinute > 0 {
		p.rcpts.settle(n, now)
	}
	if p.limits.RefusalsPerHour > 0 {
		p.refuse.settle(n-spared, now)
		p.refuse.giveBack(spared)
		p.lease.left += spared
	}
}

// idle reports full budgets: forgetting this pace forgets nothing.
func (p *pace) idle(now time.Time) bool {
	return p.open == 0 && !now.Before(p.rest) && p.conns.idle(now) && p.rcpts.idle(now) && p.refuse.idle(now)
}

// leaseSize is how many refusals one lease allows.
func (p *pace) leaseSize() int { return max(4, p.limits.RefusalsPerHour/leaseParts) }

// connPace counts what one connection has carried.
type connPace struct {
	sent, pending, refused, transactions int
}

// room is what the connection's own limits leave. While another transaction may follow, bulk leaves the last to a single.
func (c *connPace) room(l *engine.Limits, who priority) int {
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
		if who.isBulk() && t > 1 {
			t--
		}
		if c.transactions >= t {
			return 0
		}
	}
	return max(0, n)
}

const paceVersion = 1

// append encodes the quarantine, the hour's refusals and what may yet be used under a fresh lease of `lend`, reservations included: what
// a restart must believe. The minute budgets are not kept: a restart waits a minute instead.
func (p *pace) append(dst []byte, lend int, now time.Time) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, paceVersion), uint64(now.UnixMilli()))
	dst = binary.BigEndian.AppendUint64(dst, uint64(max(0, p.rest.UnixMilli())))
	dst = binary.AppendUvarint(dst, uint64(lend+p.refuse.out))
	return p.refuse.append(dst, now)
}

// snapshot encodes the state for the disk and ends the present lease; granted begins the next one once that is written.
func (p *pace) snapshot(dst []byte, now time.Time) (state []byte, lend int) {
	lend = min(p.leaseSize(), max(0, p.limits.RefusalsPerHour-p.refuse.used-p.refuse.out))
	p.lease.left = 0
	return p.append(dst, lend, now), lend
}

func (p *pace) granted(lend int, snapshotAt time.Time) {
	p.lease.left += lend
	p.lease.until = snapshotAt.Add(leaseLife)
}

// read restores what append wrote; false when it is unreadable. The lease counts as used at the last moment at which it
// can have been.
func (p *pace) read(src []byte, now time.Time) bool {
	if len(src) < 17 || src[0] != paceVersion {
		return false
	}
	written, rest := time.UnixMilli(int64(binary.BigEndian.Uint64(src[1:]))), int64(binary.BigEndian.Uint64(src[9:]))
	lent, k := binary.Uvarint(src[17:])
	if k <= 0 || lent > 1<<31-1 {
		return false
	}
	w := newWindow(time.Hour, now)
	elapsed := now.Sub(written)
	if left, ok := w.read(src[17+k:], elapsed); !ok || len(left) > 0 {
		return false
	}
	if age := floorDiv(max(0, elapsed-leaseLife-leaseTail), w.slot); age <= windowSlots {
		*w.at(-age) += uint32(lent)
		w.used += int(lent)
	}
	p.refuse = w
	if rest > 0 {
		left := time.UnixMilli(rest)
		p.rest = now.Add(min(left.Sub(now), left.Sub(written))) // never longer than it was to last, whatever the clock shows
	}
	return true
}

// exhaust empties the hour's budget: what an unreadable state means.
func (p *pace) exhaust(now time.Time) {
	p.refuse = newWindow(time.Hour, now)
	p.refuse.add(p.limits.RefusalsPerHour, now)
}

package addresslimit

import (
	"sync"
	"time"

	"probity/prober/budget"
)

// Limit is the budget of one source towards one address. Lock keeps the room that was looked for until it is reserved:
// Room, Reserve, JobPrioritiesDiffer and RecordDemand need the lock. All other methods take it.
type Limit struct {
	registry *Registry
	users    int // guarded by the registry's mutex

	mu      sync.Mutex // guards what follows
	budget  budget.Persisted
	waiting waiters
	share   budget.FairShare // between waiting short and long jobs
}

// Waiter waits for room at a limit.
type Waiter interface {
	// UseRoom ends the wait and uses the room that there may be. It returns false if it does not use it. No lock is
	// held.
	UseRoom(now time.Time) (used bool)
}

// Release removes a user.
func (l *Limit) Release() {
	l.registry.mu.Lock()
	defer l.registry.mu.Unlock()
	l.users--
}

// Lock keeps its room for the caller until Unlock.
func (l *Limit) Lock() { l.mu.Lock() }

// Unlock lets others look for room.
func (l *Limit) Unlock() { l.mu.Unlock() }

// Room returns how many recipients a priority may send now on a connection.
func (l *Limit) Room(c *budget.Conn, priority budget.Priority, now time.Time) (int, budget.Denial) {
	return l.budget.Room(c, priority, now)
}

// Reserve reserves a transaction of n recipients, of which some are for long jobs.
func (l *Limit) Reserve(c *budget.Conn, n, longJobs int) { l.budget.Reserve(c, n, longJobs) }

// JobPrioritiesDiffer reports whether short jobs may have more than long ones.
func (l *Limit) JobPrioritiesDiffer(now time.Time) bool { return l.budget.JobPrioritiesDiffer(now) }

// RecordDemand records what a route reports: until when it has a long backlog, and the priority that asks.
func (l *Limit) RecordDemand(priority budget.Priority, longBacklog, now time.Time) {
	l.budget.Pacing.Extend(longBacklog)
	if priority == budget.ShortJob {
		l.budget.Pacing.RecordShortJob(now)
	}
}

// Connect reserves a connection for a priority of a route, if there is room for it and for a recipient on it. It
// records the demand.
func (l *Limit) Connect(priority budget.Priority, longBacklog, now time.Time) budget.Denial {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.RecordDemand(priority, longBacklog, now)
	if noRoom := mayConnect(&l.budget, priority, now); noRoom.Denied {
		return noRoom
	}
	return l.budget.ReserveConnect(priority, now)
}

// mayConnect checks that there is room for a connection and for a recipient on it.
func mayConnect(b *budget.Persisted, priority budget.Priority, now time.Time) budget.Denial {
	if n, noRoom := b.Room(&budget.Conn{}, priority, now); n == 0 {
		return noRoom
	}
	return b.MayConnect(priority, now)
}

// SettleConnect counts the connection in the rate, once the peer has seen it or can no longer see it.
func (l *Limit) SettleConnect(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.budget.SettleConnect(now)
}

// Settle ends the reservation of a group of transactions by what its replies cost.
func (l *Limit) Settle(c *budget.Conn, cost budget.Cost, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.budget.Settle(c, cost, now)
}

// Refusals returns how many refusals of the hour are settled.
func (l *Limit) Refusals(now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.budget.Refusals(now)
}

// ConnectionClosed releases a connection and wakes a waiter.
func (l *Limit) ConnectionClosed(now time.Time) {
	l.mu.Lock()
	l.budget.ConnectionClosed()
	l.mu.Unlock()
	l.onRoom(now)
}

// Wait has a waiter of a ready queue called when there is room for its priority; it must be ready for the call. The
// queue is what its waiters are told apart by. Room that has come meanwhile is offered at once; what its priority may
// not use, to higher ones: their wake-up may have gone to this queue.
func (l *Limit) Wait(queue any, w Waiter, priority budget.Priority, now time.Time) {
	least := priority
	l.mu.Lock()
	l.waiting.add(queue, w, priority)
	noRoom := mayConnect(&l.budget, least, now)
	for noRoom.Denied && !noRoom.Lease && least < budget.Single {
		least++
		noRoom = mayConnect(&l.budget, least, now)
	}
	if noRoom.Lease {
		l.registry.leases.RequestLease(&l.budget)
	}
	l.mu.Unlock()
	if !noRoom.Denied {
		l.offerRoom(least, now)
	}
}

// AwaitLease requests a lease and has a waiter of a ready queue called when there is room.
func (l *Limit) AwaitLease(queue any, w Waiter, priority budget.Priority) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting.add(queue, w, priority)
	l.registry.leases.RequestLease(&l.budget)
}

// waiters are those of each priority, by the ready queue that waits. A ready queue waits in one priority.
type waiters [budget.NumPriorities]map[any]Waiter

// add records the only wait of a ready queue.
func (w *waiters) add(queue any, one Waiter, priority budget.Priority) {
	for _, queues := range w {
		delete(queues, queue)
	}
	if w[priority] == nil {
		w[priority] = map[any]Waiter{}
	}
	w[priority][queue] = one
}

// onRoom wakes one waiter that can use the room.
func (l *Limit) onRoom(now time.Time) { l.offerRoom(budget.LongJob, now) }

// offerRoom wakes one waiter of this priority or a higher one that can use the room. One that cannot use it passes it
// on.
func (l *Limit) offerRoom(least budget.Priority, now time.Time) {
	for w := l.nextWaiter(least); w != nil && !w.UseRoom(now); {
		w = l.nextWaiter(least)
	}
}

// nextWaiter takes the waiter whose turn it is: single calls first, then short and long jobs by their share. It is nil
// if none waits in this priority or a higher one.
func (l *Limit) nextWaiter(least budget.Priority) Waiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	priority, shorts := budget.Single, len(l.waiting[budget.ShortJob]) > 0
	if len(l.waiting[budget.Single]) == 0 {
		both := shorts && len(l.waiting[budget.LongJob]) > 0 && least == budget.LongJob
		priority = l.share.Next(both, shorts)
		if both {
			l.share.Record(priority, 1)
		}
	}
	if priority < least {
		return nil
	}
	for queue, w := range l.waiting[priority] {
		delete(l.waiting[priority], queue)
		return w
	}
	return nil
}

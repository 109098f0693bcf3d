package addresslimit

import (
	"net/netip"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/budget"
	"probity/store/cache"
)

var addr = netip.MustParseAddr("198.51.100.1")

func newCache(t *testing.T) *cache.Cache {
	c, err := cache.Open(cache.Config{FS: vfs.NewMem(), Dir: "cache", FilterBytes: 1 << 16})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func newRegistry(t *testing.T) *Registry {
	c := newCache(t)
	return NewRegistry(c, budget.NewLog(c), nil)
}

func (r *Registry) acquire(t *testing.T, limits engine.Limits, now time.Time) *Limit {
	l, err := r.Acquire("us", addr, limits, now)
	require.NoError(t, err)
	return l
}

// full is a limit whose connections are all open.
func full(t *testing.T, now time.Time) *Limit {
	l := newRegistry(t).acquire(t, engine.Limits{Connections: 5}, now)
	for range 5 {
		require.False(t, l.Connect(budget.Single, time.Time{}, now).Denied)
	}
	require.True(t, l.Connect(budget.Single, time.Time{}, now).Denied)
	return l
}

// fakeWaiter notes when it was called; it opens a connection if it wants one.
type fakeWaiter struct {
	limit    *Limit
	priority budget.Priority
	wants    bool
	called   int
}

func (w *fakeWaiter) UseRoom(now time.Time) bool {
	w.called++
	return w.wants && !w.limit.Connect(w.priority, time.Time{}, now).Denied
}

// TestRoutesShareALimit: whichever route leads to the address. It stays while it has users, or its hour is not over.
func TestRoutesShareALimit(t *testing.T) {
	now := time.Now()
	r := newRegistry(t)
	limits := engine.Limits{Connections: 5, RecipientsPerConnection: 7}
	one := r.acquire(t, limits, now)
	require.Same(t, one, r.acquire(t, limits, now))
	other, err := r.Acquire("another source", addr, limits, now)
	require.NoError(t, err)
	require.NotSame(t, one, other)
	n, _ := one.Room(&budget.Conn{Sent: 7}, budget.Single, now)
	require.Positive(t, n, "the limits of a connection hold for its route only")

	one.Release()
	r.ReleaseIdle(now)
	require.Same(t, one, r.acquire(t, limits, now))
	one.Release()
	one.Release()
	require.False(t, one.Connect(budget.Single, time.Time{}, now).Denied)
	r.ReleaseIdle(now)
	require.Same(t, one, r.acquire(t, limits, now), "a connection is open")
	one.Release()
	one.ConnectionClosed(now)
	r.ReleaseIdle(now)
	require.NotSame(t, one, r.acquire(t, limits, now))
	require.Nil(t, r.acquire(t, engine.Limits{RecipientsPerConnection: 7}, now), "nothing limits an address")
}

// TestReadyQueueWaitsOnce: the newer wait replaces the older one, also in another priority.
func TestReadyQueueWaitsOnce(t *testing.T) {
	now := time.Now()
	l := full(t, now)
	older, newer := &fakeWaiter{limit: l}, &fakeWaiter{limit: l}
	l.Wait("queue", older, budget.Single, now)
	l.Wait("queue", newer, budget.LongJob, now)
	for range 2 {
		l.ConnectionClosed(now)
	}
	require.Zero(t, older.called)
	require.Equal(t, 1, newer.called)
}

// TestSingleCallsGetRoomFirst: then short and long jobs, three to one.
func TestSingleCallsGetRoomFirst(t *testing.T) {
	now := time.Now()
	l := full(t, now)
	all := map[string]*fakeWaiter{}
	wait := func(queue string, priority budget.Priority) {
		all[queue] = &fakeWaiter{limit: l, priority: budget.Single, wants: true} // its priority only finds room
		l.Wait(queue, all[queue], priority, now)
	}
	wait("long", budget.LongJob)
	for _, queue := range []string{"short 1", "short 2", "short 3", "short 4", "short 5", "short 6", "short 7",
		"short 8"} {
		wait(queue, budget.ShortJob)
	}
	wait("single", budget.Single)
	l.ConnectionClosed(now)
	require.Equal(t, 1, all["single"].called)
	for range 4 {
		l.ConnectionClosed(now)
	}
	shorts := 0
	for queue, w := range all {
		if queue != "single" && queue != "long" {
			shorts += w.called
		}
	}
	require.Equal(t, 3, shorts)
	require.Equal(t, 1, all["long"].called)
}

// TestUnusedRoomIsPassedOn: until some queue uses it.
func TestUnusedRoomIsPassedOn(t *testing.T) {
	now := time.Now()
	l := full(t, now)
	idle, busy, last := &fakeWaiter{limit: l}, &fakeWaiter{limit: l, priority: budget.Single, wants: true},
		&fakeWaiter{limit: l, priority: budget.Single, wants: true}
	l.Wait("idle", idle, budget.Single, now)
	l.Wait("busy", busy, budget.ShortJob, now)
	l.Wait("last", last, budget.LongJob, now)
	l.ConnectionClosed(now)
	require.Equal(t, []int{1, 1, 0}, []int{idle.called, busy.called, last.called})
}

// TestNoWakeUpIsMissed: room that came before the wait is offered at once; what jobs must leave to single calls, to
// these.
func TestNoWakeUpIsMissed(t *testing.T) {
	now := time.Now()
	l := full(t, now)
	single, job := &fakeWaiter{limit: l, priority: budget.Single, wants: true},
		&fakeWaiter{limit: l, priority: budget.LongJob, wants: true}
	l.Wait("single", single, budget.Single, now)
	require.Zero(t, single.called)
	l.Lock()
	l.budget.ConnectionClosed() // its wake-up is lost with a queue that has left
	l.Unlock()
	l.Wait("job", job, budget.LongJob, now)
	require.Equal(t, 1, single.called)
	require.Zero(t, job.called, "jobs leave the last connections to single calls")
	l.ConnectionClosed(now)
	l.Lock()
	l.budget.ConnectionClosed()
	l.Unlock()
	l.Wait("again", single, budget.Single, now)
	require.Equal(t, 2, single.called)
}

// TestHeldRoomIsReserved: what Room returns under the lock is still there when it is reserved, and settling frees it.
func TestHeldRoomIsReserved(t *testing.T) {
	now := time.Now()
	l := newRegistry(t).acquire(t, engine.Limits{RecipientsPerMinute: 10}, now)
	var c budget.Conn
	l.Lock()
	n, _ := l.Room(&c, budget.Single, now)
	l.Reserve(&c, n, 0)
	more, _ := l.Room(&c, budget.Single, now)
	l.Unlock()
	require.Equal(t, 10, n)
	require.Zero(t, more)
}

// TestUnreadableBudgetIsUsedUp: its stored name is one that earlier versions wrote.
func TestUnreadableBudgetIsUsedUp(t *testing.T) {
	now := time.Now()
	r := newRegistry(t)
	require.NoError(t, r.cache.PutBudgets([]cache.Budget{{Name: "destination us 198.51.100.1",
		State: []byte("no budget"), Until: now.Add(time.Hour)}}))
	require.Zero(t, room(t, r, now))
}

// TestBudgetSurvivesARestart: refusals of the hour count in the next registry.
func TestBudgetSurvivesARestart(t *testing.T) {
	now := time.Now()
	r := newRegistry(t)
	require.Zero(t, room(t, r, now), "nothing is used before it is on disk")
	r.RequestLeases()
	require.NoError(t, r.leases.GrantLeases(now))
	before := room(t, r, now)
	require.Positive(t, before)
	l := r.acquire(t, engine.Limits{RefusalsPerHour: 100}, now)
	var c budget.Conn
	l.Lock()
	l.Reserve(&c, 1, 0)
	l.Unlock()
	l.Settle(&c, budget.Cost{Recipients: 1}, now)
	require.Equal(t, 1, l.Refusals(now))
	require.NoError(t, r.cache.PutBudgets(r.FinalStates(now)))
	again := NewRegistry(r.cache, r.leases, nil)
	require.GreaterOrEqual(t, again.acquire(t, engine.Limits{RefusalsPerHour: 100}, now).Refusals(now), 1)
}

// room is the room of a limit of 100 refusals an hour.
func room(t *testing.T, r *Registry, now time.Time) int {
	n, _ := r.acquire(t, engine.Limits{RefusalsPerHour: 100}, now).Room(&budget.Conn{}, budget.Single, now)
	return n
}

// TestLeaseIsAwaited: a queue that needs a lease is called when it is granted.
func TestLeaseIsAwaited(t *testing.T) {
	now := time.Now()
	r := newRegistry(t)
	l := r.acquire(t, engine.Limits{RefusalsPerHour: 100}, now)
	require.True(t, l.Connect(budget.Single, time.Time{}, now).Lease)
	w := &fakeWaiter{limit: l, priority: budget.Single, wants: true}
	l.AwaitLease("queue", w, budget.Single)
	require.Zero(t, w.called)
	require.NoError(t, r.leases.GrantLeases(now))
	require.Equal(t, 1, w.called)
}

// TestALimitFollowsTheTable: a limit in use allows what the limits of a later table allow.
func TestALimitFollowsTheTable(t *testing.T) {
	r, now := newRegistry(t), time.Now()
	l := r.acquire(t, engine.Limits{Connections: 5}, now)
	require.False(t, l.Connect(budget.Single, time.Time{}, now).Denied)
	require.False(t, l.Connect(budget.Single, time.Time{}, now).Denied)
	require.Same(t, l, r.acquire(t, engine.Limits{Connections: 2}, now))
	require.True(t, l.Connect(budget.Single, time.Time{}, now).Denied)
	r.acquire(t, engine.Limits{Connections: 3}, now)
	require.False(t, l.Connect(budget.Single, time.Time{}, now).Denied)
}

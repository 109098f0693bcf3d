package readyqueue

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/engine/smtp"
	"probity/prober/addresslimit"
	"probity/prober/admission"
	"probity/prober/budget"
	"probity/prober/conn"
	"probity/prober/hosthealth"
	"probity/prober/hostqueue"
	"probity/prober/source"
	"probity/prober/wire"
	"probity/store/cache"
)

// withTestQueue runs f with the ready queue of a host, in a bubble. The queue's budgets hold ten connections, and no
// goroutine works for it.
func withTestQueue(t *testing.T, host string, f func(q *Queue)) {
	synctest.Test(t, func(t *testing.T) {
		results, err := cache.Open(cache.Config{FS: vfs.NewMem(), Dir: "cache", FilterBytes: 1 << 16})
		require.NoError(t, err)
		defer func() { require.NoError(t, results.Close()) }()
		table, err := engine.DefaultTable().Override([]byte("[defaults.limits]\nconnections = 10\n[[provider]]\nid = \"big\"\nname = \"Big\"\nmx = [\".big.example\"]\n"))
		require.NoError(t, err)
		sources, err := source.New([]source.Identity{{EHLO: "mail.us.example"}}, "probe@us.example")
		require.NoError(t, err)
		counter := func() prometheus.Counter { return prometheus.NewCounter(prometheus.CounterOpts{Name: "n"}) }
		singles := &admission.SingleCalls{}
		leases := budget.NewLog(results)
		env := &Env{Cache: results, Log: slog.New(slog.DiscardHandler), Created: time.Now(),
			Opener: &conn.Opener{Port: 25, AllowPrivate: true, MailFrom: "probe@us.example",
				ConnectTimeout: 15 * time.Second},
			MaxSessions: 100, MaxQueueSessions: 16, BudgetLog: leases, Slots: admission.NewSlots(100),
			SingleCalls:   singles,
			AddressLimits: addresslimit.NewRegistry(results, leases, singles),
			Gate:          admission.NewGate(100, 2, func() int { return 0 }, singles),
			Start:         func(func(soft, hard context.Context)) bool { return true },
			Finish:        func(*Queue, []hostqueue.Finished, time.Time) {}, DropUnwanted: func(*Queue) {},
			Suspect: func(*source.Source) {}}
		env.Metrics.Connections, env.Metrics.AddressWaits = counter(), counter()
		env.Metrics.Failures = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "n"}, []string{"event"})
		env.Table.Store(table)
		q := New(env, table, &engine.Route{Fact: engine.FactMX, Key: host, Provider: table.Match([]string{host}),
			Hosts: []string{host}}, sources.List[0], time.Time{}, time.Now())
		f(q)
		q.Close(time.Now())
	})
}

// TestIdleAddressPoolIsRemoved: a host that has left an address, or is removed, requests no session there any more.
func TestIdleAddressPoolIsRemoved(t *testing.T) {
	withTestQueue(t, "mx0.big.example", func(q *Queue) {
		l := q.lock()
		defer l.unlock()
		here, there := netip.MustParseAddr("10.2.2.1"), netip.MustParseAddr("10.2.2.2")
		l.hosts = map[string]*mxHost{}
		var hostQueues []*mxHost
		for i := range 10 {
			m := l.newHost(fmt.Sprint(i), []string{fmt.Sprint(i)})
			m.lookup.Addr, m.lookup.At = here, time.Now()
			l.hosts[m.Key] = m
			l.shared.request(m, budget.LongJob)
			l.shared.request(m, budget.LongJob)
			l.shared.request(m, budget.Single)
			hostQueues = append(hostQueues, m)
		}
		require.Equal(t, 20, l.shared.pools[here].requestCount())
		l.shared.setHostAddr(hostQueues[0], there)
		require.Equal(t, 18, l.shared.pools[here].requestCount())
		l.shared.request(hostQueues[0], budget.LongJob)
		require.Equal(t, 1, l.shared.pools[there].requestCount())
		for _, m := range hostQueues {
			m.removeIfEmpty()
		}
		require.Empty(t, l.hosts)
		require.Empty(t, l.shared.pools)
	})
}

// newTestSession makes a session at a host that nothing waits for.
func newTestSession(q *Queue, host string) *session {
	l := q.lock()
	defer l.unlock()
	return l.newSession(l.newHost(host, []string{host}), budget.LongJob)
}

// waitingHost makes a host with a row of a priority, whose host is known at an address since it was looked up.
func waitingHost(l *locked, host string, at netip.Addr, lookedUp time.Time, priority budget.Priority) *mxHost {
	m := l.newHost(host, []string{host})
	m.lookup.Addr, m.lookup.At = at, lookedUp
	if l.hosts == nil {
		l.hosts = map[string]*mxHost{}
	}
	l.hosts[m.Key] = m
	m.AddDomain("d.example").Enqueue(&hostqueue.Probe{Priority: priority}, hostqueue.Last)
	return m
}

// TestReservedConnectionStaysWithSingles: a connection that jobs could not have opened goes on to singles, and to jobs
// when others have ended.
func TestReservedConnectionStaysWithSingles(t *testing.T) {
	withTestQueue(t, "mx0.big.example", func(q *Queue) {
		now, at := time.Now(), netip.MustParseAddr("10.2.2.1")
		l := q.lock()
		defer l.unlock()
		waits := func(key string, priority budget.Priority) *mxHost {
			return waitingHost(l, key, at, now, priority)
		}
		free := l.budget.MaxOpen(budget.LongJob, now)
		require.Less(t, free, 10)
		opened := map[budget.Priority]*session{}
		for _, priority := range [...]budget.Priority{budget.Single, budget.LongJob} {
			opened[priority] = l.newSession(l.newHost("", nil), priority)
			opened[priority].pool = l.shared.poolAt(at)
		}
		for range free + 1 {
			require.False(t, l.budget.ReserveConnect(budget.Single, now).Denied)
		}
		job := waits("a job's", budget.LongJob)
		require.Nil(t, l.shared.nextHost(opened[budget.Single], now))
		one := waits("a single's", budget.Single)
		require.Equal(t, one, l.shared.nextHost(opened[budget.Single], now))
		require.Equal(t, job, l.shared.nextHost(opened[budget.LongJob], now))
		job = waits("another job's", budget.LongJob)
		l.budget.CancelConnect()
		require.Equal(t, job, l.shared.nextHost(opened[budget.Single], now))
		for l.budget.Open() > 0 {
			l.budget.CancelConnect()
		}
		clear(l.hosts)
		clear(l.shared.pools)
	})
}

// TestStaleAddressIsNotShared: no connection is shared at an address where the host was long ago, and no session is
// taken there.
func TestStaleAddressIsNotShared(t *testing.T) {
	withTestQueue(t, "mx0.big.example", func(q *Queue) {
		now, at := time.Now(), netip.MustParseAddr("10.2.2.9")
		l := q.lock()
		defer l.unlock()
		s := l.newSession(l.newHost("here", []string{"here"}), budget.LongJob)
		l.shared.attach(s, at)
		s.host.idle, s.pool.idle, l.idleCount = []*session{s}, []*session{s}, 1
		m := waitingHost(l, "mx0.big.example", at, now.Add(-time.Minute), budget.LongJob)
		require.False(t, l.shared.handOverIdle(m, budget.LongJob, now))
		require.Nil(t, l.shared.nextHost(s, now))
		require.True(t, m.lookup.Running, "it is looked up")
		m = waitingHost(l, "mx1.big.example", at, now, budget.LongJob)
		require.Equal(t, m, s.host, "it was lent at once")
		require.Zero(t, l.idleCount)
		clear(l.hosts)
		clear(l.shared.pools)
	})
}

// TestConnectFailureAtAWorkingAddress: that others are answered at an address speaks for a host there whose connection
// fails, not for one that answers no recipient, nor for one that cannot be found.
func TestConnectFailureAtAWorkingAddress(t *testing.T) {
	const name = "mx0.big.example"
	for what, tt := range map[string]struct {
		dialled bool
		fail    func(rh *replyHandler)
		down    bool
	}{
		"connection refused": {true, (*replyHandler).failConnection, false},
		"name not found":     {false, (*replyHandler).failConnection, true},
		"silence":            {true, (*replyHandler).fallSilentThreeTimes, true},
	} {
		t.Run(what, func(t *testing.T) {
			withTestQueue(t, "mx0.big.example", func(q *Queue) {
				now := time.Now()
				l := q.lock()
				defer l.unlock()
				s := l.newSession(l.newHost(name, []string{name}), budget.LongJob)
				l.shared.attach(s, netip.MustParseAddr("10.2.2.9"))
				s.pool.healthy, s.dialled = 1, tt.dialled
				tt.fail(&replyHandler{Replies: hostqueue.Replies{Now: now}, s: s, l: l, o: &smtp.Outcome{}})
				_, down := l.hostHealth.Down(name, now)
				require.Equal(t, tt.down, down)
				require.Equal(t, tt.down, l.delay.ConnectAt.IsZero())
				clear(l.shared.pools)
			})
		})
	}
}

func (rh *replyHandler) failConnection() {
	f := smtp.Fault{Event: engine.EventTimeout}
	rh.s.handleFailure(rh.l, f, engine.Sighting{Event: f.Event, Host: rh.s.host.Name, At: rh.Now}, rh.Now)
}

func (rh *replyHandler) fallSilentThreeTimes() {
	for range 3 {
		rh.recordUnresponsive()
	}
}

// TestFailureIsConfirmedByASecondOne: within a while, and by nothing but another in a row; meanwhile no back-off is
// shortened.
func TestFailureIsConfirmedByASecondOne(t *testing.T) {
	withTestQueue(t, "mx.a.example", func(q *Queue) {
		s := newTestSession(q, "mx.a.example")
		waits := func() bool {
			time.Sleep(time.Minute)
			s.began = time.Now()
			l := q.lock()
			defer l.unlock()
			return s.needsSecondFailure(l, smtp.Fault{Event: engine.EventConnectFailed}, false, time.Now())
		}
		late := time.Now().Add(10 * time.Minute)
		l := q.lock()
		l.delay.ConnectAt = late
		l.unlock()
		require.True(t, waits())
		q.lock()
		require.Equal(t, late, l.delay.ConnectAt)
		l.unlock()
		require.False(t, waits(), "it came again")
		require.True(t, waits())
		time.Sleep(2 * unconfirmedLife)
		require.True(t, waits(), "too long ago to prove anything")
		host, ours := net.Pipe()
		q.env.Opener.DialFunc = func(context.Context, netip.Addr, string, string) (net.Conn, error) { return ours, nil }
		go func() {
			defer host.Close()
			for in, reply := bufio.NewReader(host), "220 mx.a.example"; ; reply = "250 mx.a.example" {
				fmt.Fprintf(host, "%s\r\n", reply)
				if _, err := in.ReadString('\n'); err != nil {
					return
				}
			}
		}()
		q.lock()
		require.False(t, l.budget.ReserveConnect(budget.Single, time.Now()).Denied)
		reached := l.newSession(s.host, budget.LongJob)
		reached.addr = netip.MustParseAddr("10.1.1.1")
		l.unlock()
		require.True(t, reached.dial(context.Background()).None())
		reached.conn.Quit(context.Background())
		require.True(t, waits(), "it was reached meanwhile")
	})
}

// Rows that are returned carry a budget's due time if a budget limits them, and none otherwise: the bound of a wait is
// no due time.
func TestReturnedRowsCarryTheBudgetDueTime(t *testing.T) {
	withTestQueue(t, "mx.a.example", func(q *Queue) {
		now := time.Now()
		require.Zero(t, q.BudgetAllowsAt(budget.LongJob, now))
		l := q.lock()
		l.domainOf(&engine.Evidence{Route: &engine.Route{Hosts: []string{"mx.a.example"}}}, "mx.a.example")
		m := l.hosts["mx.a.example"]
		l.unlock()
		for _, x := range []struct{ until, want time.Time }{
			{time.Time{}, time.Time{}},
			{now.Add(20 * time.Second), now.Add(20 * time.Second)},
			{now.Add(time.Hour), now.Add(time.Hour)},
		} {
			q.lock()
			m.deny(budget.LongJob, x.until, now)
			l.unlock()
			require.Equal(t, x.want, q.BudgetAllowsAt(budget.LongJob, now))
		}
		q.lock()
		m.endDenial()
		l.delay.Pause(now.Add(time.Minute))
		l.unlock()
		require.Equal(t, now.Add(time.Minute), q.BudgetAllowsAt(budget.LongJob, now))
	})
}

// TestDisabledProbingLeavesNothing: a table that excludes a receiver empties its queue, pending decoys included.
func TestDisabledProbingLeavesNothing(t *testing.T) {
	withTestQueue(t, "mx.a.example", func(q *Queue) {
		var finished []hostqueue.Finished
		q.env.Finish = func(_ *Queue, out []hostqueue.Finished, _ time.Time) { finished = append(finished, out...) }
		addr, err := engine.Parse("ann@a.example")
		require.NoError(t, err)
		route := &engine.Route{Fact: engine.FactMX, Key: "mx.a.example", Provider: q.Provider,
			Hosts: []string{"mx.a.example"}}
		accepted := &hostqueue.Probe{Ev: engine.Evidence{Address: addr, Route: route}}
		accepted.Ev.Append(engine.Sighting{Subject: engine.SubjectTarget, Event: engine.EventReply,
			Host: "mx.a.example", Finding: engine.Finding{Meaning: engine.Accepted}, At: time.Now()})
		require.True(t, q.Add([]*hostqueue.Probe{accepted}, time.Now()))
		require.Empty(t, finished)
		l := q.lock()
		require.NotEmpty(t, l.hosts)
		l.unlock()
		table, err := engine.DefaultTable().Override([]byte("[[provider]]\nid = \"a\"\nname = \"A\"\nmx = [\"mx.a.example\"]\nprobe = false\n"))
		require.NoError(t, err)
		q.env.Table.Store(table)
		q.ApplyTable(time.Now())
		require.Len(t, finished, 1)
		require.Empty(t, q.Unsent())
		q.lock()
		defer l.unlock()
		require.Empty(t, l.hosts)
		require.Nil(t, l.waiting.Domain("a.example", "mx.a.example"))
	})
}

// TestUnsentRecipientsDoNotChangeTheLatency: UTF-8 recipients are not sent to a host without SMTPUTF8, and take no
// time.
func TestUnsentRecipientsDoNotChangeTheLatency(t *testing.T) {
	l := &locked{fixed: &fixed{}}
	l.latency.RecordConnect(250*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond)
	l.latency.RecordTransaction(50*time.Millisecond, 1)
	s := &session{observed: observed{host: &mxHost{}}}
	for range 100 { // more than the estimate looks back
		require.False(t, s.recordTiming(l, time.Microsecond, 0))
	}
	require.Equal(t, 10, l.latency.WorthConnection(budget.MaxTransaction), "as many as in two set-ups of 250 ms")
}

// TestDialogueStaysWithItsHost: a connection that goes on to another host leaves behind what it has shown of the first,
// and one that is less careful than its host turned out to demand sends no more, unless its answers wait for a proof.
func TestDialogueStaysWithItsHost(t *testing.T) {
	withTestQueue(t, "mx0.big.example", func(q *Queue) {
		now, at := time.Now(), netip.MustParseAddr("10.2.2.1")
		l := q.lock()
		defer l.unlock()
		s := l.newSession(l.newHost("here", []string{"here"}), budget.LongJob)
		l.shared.attach(s, at)
		require.False(t, s.mustClose(l, now))
		l.hostHealth.DistrustDialogue("here", now)
		require.True(t, s.mustClose(l, now))
		s.answersUnproven, s.answered = true, true
		require.False(t, s.mustClose(l, now))

		m := waitingHost(l, "there", at, now, budget.LongJob)
		l.shared.handOver(s, m, now)
		require.Equal(t, hosthealth.Dialogue{Confirmed: true, Careful: true}, l.hostHealth.Dialogue("here", now))
		require.Zero(t, l.hostHealth.Dialogue("there", now))
		require.False(t, s.answersUnproven)
		clear(l.hosts)
		clear(l.shared.pools)
	})
}

// TestReturnedSlotIsOffered: a queue that may not use the slot which it has taken wakes the one that began to wait for
// it meanwhile.
func TestReturnedSlotIsOffered(t *testing.T) {
	withTestQueue(t, "mx.a.example", func(q *Queue) {
		now, slots := time.Now(), admission.NewSlots(1)
		q.env.Slots = slots
		woken := make(chan struct{}, 1)
		other := admission.NewWaiter(func(time.Time) { woken <- struct{}{} })
		starts := 0
		q.env.Start = func(run func(soft, hard context.Context)) bool {
			starts++
			if starts == 1 { // of the session, which does not begin; the slot is taken
				require.False(t, slots.Acquire(&other, budget.Single))
				return false
			}
			go run(context.Background(), context.Background())
			return true
		}
		q.RequestLease()
		require.NoError(t, q.env.BudgetLog.GrantLeases(now))
		l := q.lock()
		m := l.newHost("mx.a.example", []string{"mx.a.example"})
		require.False(t, l.openConnection(m, budget.Single, now))
		l.unlock()
		synctest.Wait()
		require.Zero(t, slots.InUse())
		require.Len(t, woken, 1)
	})
}

// TestQueueOfAFullAddressShowsIt: the view of a queue whose own budget is unused says that the budget of its address
// is used up, and the queue stays until it is not.
func TestQueueOfAFullAddressShowsIt(t *testing.T) {
	withTestQueue(t, "mx.vanity.example", func(q *Queue) {
		now, at := time.Now(), netip.MustParseAddr("198.51.100.7")
		limits := q.env.Table.Load().Unknown.Limits
		full, err := q.env.AddressLimits.Acquire(q.Key.Source, at, limits, now)
		require.NoError(t, err)
		q.env.AddressLimits.RequestLeases()
		require.NoError(t, q.env.BudgetLog.GrantLeases(now))
		full.Reserve(&budget.Conn{}, limits.RefusalsPerHour, 0)
		full.Settle(&budget.Conn{}, budget.Cost{Recipients: limits.RefusalsPerHour}, now)
		require.Empty(t, q.View(now).Address)

		s := newTestSession(q, "mx.vanity.example")
		s.addr = at
		require.False(t, s.reserveAddress())
		v := q.View(now)
		require.Equal(t, "exhausted", v.State)
		require.WithinRange(t, v.Until, now.Add(time.Hour), now.Add(time.Hour+time.Minute))
		require.Equal(t, at.String(), v.Address)
		require.Equal(t, wire.Usage{Used: limits.RefusalsPerHour, Limit: limits.RefusalsPerHour}, v.AddressRefusals)
		require.Zero(t, v.Refusals.Used)
		require.False(t, q.CloseIdle(false, now.Add(time.Minute)))
		require.True(t, q.CloseIdle(false, v.Until))
	})
}

package budget

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"probity/engine"
)

// mostInSpan is the greatest number of events in any span of the given length, borders included.
func mostInSpan(events []time.Time, span time.Duration) int {
	most, from := 0, 0
	for i := range events {
		for events[i].Sub(events[from]) > span {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}

func TestWindowNeverExceedsItsLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 40).Draw(t, "limit")
		now := time.Unix(1_700_000_000, 0)
		w := newWindow(time.Minute, now)
		var seen []time.Time
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
			n := min(w.room(limit, now), rapid.IntRange(0, 10).Draw(t, "n"))
			w.reserve(n)
			late := rapid.IntRange(0, 4000).Draw(t, "late ms")
			at := now.Add(time.Duration(rapid.IntRange(0, late).Draw(t, "seen ms")) * time.Millisecond)
			now = now.Add(time.Duration(late) * time.Millisecond)
			w.settle(n, now)
			for range n {
				seen = append(seen, at)
			}
		}
		if got := mostInSpan(seen, time.Minute); got > limit {
			t.Fatalf("%d events in a minute, limit %d", got, limit)
		}
	})
}

func TestWindowUsesItsBudget(t *testing.T) {
	now := time.Unix(0, 0)
	w, limit, used := newWindow(time.Minute, now), 600, 0
	for range 6000 {
		n := w.room(limit, now)
		w.reserve(n)
		w.settle(n, now)
		used += n
		now = now.Add(100 * time.Millisecond)
	}
	require.GreaterOrEqual(t, float64(used), 0.97*10*600)
}

func TestWindowSaysWhenItHasRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		w, limit := newWindow(time.Minute, now), 5
		for range 100 {
			if w.room(limit, now) == 0 {
				next := w.nextRoom(limit, now)
				if !next.After(now) {
					t.Fatal("full, but room promised at once")
				}
				if w.room(limit, next.Add(-1)) != 0 || w.room(limit, next) == 0 {
					t.Fatal("room not where it was promised")
				}
				now = next
			}
			w.reserve(1)
			w.settle(1, now)
			now = now.Add(time.Duration(rapid.IntRange(0, 20000).Draw(t, "ms")) * time.Millisecond)
		}
	})
}

func TestWindowSurvivesARestartWithoutForgetting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 20
		now := time.Unix(1_700_000_000, 0)
		w := newWindow(time.Hour, now)
		var seen []time.Time
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "s")) * time.Second)
			if rapid.Bool().Draw(t, "restart") {
				state, down := w.append(nil, now), time.Duration(rapid.IntRange(0, 2000).Draw(t, "down"))*time.Second
				now = now.Add(down)
				w = newWindow(time.Hour, now)
				if rest, ok := w.read(state, down); !ok || len(rest) > 0 {
					t.Fatal("unreadable")
				}
			}
			n := min(w.room(limit, now), rapid.IntRange(0, 8).Draw(t, "n"))
			w.reserve(n)
			w.settle(n, now)
			for range n {
				seen = append(seen, now)
			}
		}
		if got := mostInSpan(seen, time.Hour); got > limit {
			t.Fatalf("%d events in an hour, limit %d", got, limit)
		}
	})
}

var testLimits = engine.Limits{Connections: 5, ConnectionsPerMinute: 20, RecipientsPerMinute: 100,
	RecipientsPerTransaction: 20,
	RecipientsPerConnection:  50, TransactionsPerConnection: 10, RefusalsPerConnection: 10, RefusalsPerHour: 50}

// TestBudgetIsNeverExceeded drives a budget with any schedule of recipients, replies and crashes and counts as a
// receiver would.
func TestBudgetIsNeverExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_700_000_000, 0)
		p := New(testLimits, nil, now)
		p.lease.needed = true
		var disk []byte
		persist := func() {
			var leased int
			disk, leased = p.snapshot(nil, now)
			p.lease.grant(leased, now)
		}
		var conns, rcpts, refusals []time.Time
		open := []*Conn{}
		lastCrash := now.Add(-time.Hour)
		for range rapid.IntRange(10, 200).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "ms")) * time.Millisecond)
			priority := Priority(rapid.IntRange(0, 1).Draw(t, "who"))
			switch rapid.IntRange(0, 9).Draw(t, "act") {
			case 0, 1, 2:
				if !p.ReserveConnect(priority, now).Denied {
					conns = append(conns, now)
					p.SettleConnect(now)
					open = append(open, &Conn{})
				}
			case 3:
				if len(open) > 0 {
					open = open[1:]
					p.ConnectionClosed()
				}
			case 4:
				persist()
			case 5:
				if disk == nil || now.Sub(lastCrash) < time.Minute {
					continue // the minute budgets are kept by waiting after a restart
				}
				now = now.Add(time.Minute + time.Second)
				lastCrash = now
				p, open = New(testLimits, nil, now), nil
				p.lease.needed = true
				if !p.read(disk, now) {
					t.Fatal("unreadable")
				}
			default:
				if len(open) == 0 {
					continue
				}
				c := open[len(open)-1]
				n, d := p.Room(c, priority, now)
				if d.Lease {
					persist()
					n, _ = p.Room(c, priority, now)
				}
				if n == 0 {
					continue
				}
				p.Reserve(c, n, 0)
				now = now.Add(time.Duration(rapid.IntRange(0, 30_000).Draw(t, "reply ms")) * time.Millisecond)
				accepted := rapid.IntRange(0, n).Draw(t, "accepted")
				p.Settle(c, Cost{Recipients: n, Accepted: accepted}, now)
				for i := range n {
					rcpts = append(rcpts, now)
					if i < n-accepted {
						refusals = append(refusals, now)
					}
				}
				l := testLimits
				if c.Sent > l.RecipientsPerConnection || c.refused > l.RefusalsPerConnection ||
					c.Transactions > l.TransactionsPerConnection || n > l.RecipientsPerTransaction {
					t.Fatalf("connection over its limits: %+v", *c)
				}
			}
			if p.openConns > testLimits.Connections {
				t.Fatalf("%d open", p.openConns)
			}
		}
		for _, c := range []struct {
			what  string
			seen  []time.Time
			span  time.Duration
			limit int
		}{{"connections", conns, time.Minute, 20}, {"recipients", rcpts, time.Minute, 100},
			{"refusals", refusals, time.Hour, 50}} {
			if got := mostInSpan(c.seen, c.span); got > c.limit {
				t.Fatalf("%s: %d, limit %d", c.what, got, c.limit)
			}
		}
	})
}

func TestJobsLeaveAFifthToSingles(t *testing.T) {
	now := time.Unix(0, 0)
	p := New(engine.Limits{Connections: 5, RefusalsPerHour: 20, RefusalsPerConnection: 50,
		TransactionsPerConnection: 5}, nil, now)
	for range 4 {
		require.False(t, p.ReserveConnect(LongJob, now).Denied)
	}
	require.True(t, p.ReserveConnect(LongJob, now).Denied)
	require.False(t, p.ReserveConnect(Single, now).Denied)
	c := &Conn{Transactions: 4}
	n, _ := p.Room(c, LongJob, now)
	require.Zero(t, n, "the last transaction")
	n, _ = p.Room(c, Single, now)
	require.Equal(t, 20, n)
	c.Transactions = 0
	n, _ = p.Room(c, LongJob, now)
	require.Equal(t, 16, n)
}

func TestUnreadableStateIsAUsedUpBudget(t *testing.T) {
	now := time.Unix(0, 0)
	p := New(testLimits, nil, now)
	require.False(t, p.read([]byte("nonsense"), now))
	p.exhaust(now)
	n, d := p.Room(&Conn{}, Single, now)
	require.Zero(t, n)
	require.True(t, d.Until.After(now.Add(time.Hour-time.Second)))
}

// TestQuarantineIsRestored, with what caused it.
func TestQuarantineIsRestored(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, blocklisted := range []bool{false, true} {
		p := New(testLimits, nil, now)
		p.QuarantinedUntil, p.Blocklisted = now.Add(time.Hour), blocklisted
		state := p.append(nil, 0, now)
		restored := New(testLimits, nil, now)
		require.True(t, restored.read(state, now.Add(time.Minute)))
		require.Equal(t, p.QuarantinedUntil, restored.QuarantinedUntil)
		require.Equal(t, blocklisted, restored.Blocklisted)
		require.False(t, restored.read(append(state, 2), now))
	}
}

func FuzzReadBudget(f *testing.F) {
	now := time.Unix(1_700_000_000, 0)
	p := New(testLimits, nil, now)
	p.refusalWindow.reserve(3)
	p.refusalWindow.settle(3, now)
	f.Add(p.append(nil, 4, now))
	p.QuarantinedUntil, p.Blocklisted = now.Add(time.Hour), true
	f.Add(p.append(nil, 4, now))
	f.Fuzz(func(_ *testing.T, b []byte) {
		p := New(testLimits, nil, now)
		if p.read(b, now) {
			p.append(nil, 0, now)
			p.Room(&Conn{}, Single, now.Add(time.Hour))
		}
	})
}

// TestReservationsAreNoLongWait: a budget that only reservations use up may have room as soon as they are settled, and
// not only when the events before them are an hour old.
func TestReservationsAreNoLongWait(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	w := newWindow(time.Hour, now)
	w.reserve(2)
	w.settle(1, now)
	require.Zero(t, w.room(2, now))
	require.Equal(t, now.Add(reservedWait), w.nextRoom(2, now))
	w.settle(1, now)
	require.Equal(t, now.Add(time.Hour+time.Minute), w.nextRoom(2, now))
	unused := newWindow(time.Hour, now)
	require.Equal(t, now.Add(reservedWait), unused.nextRoom(0, now))
}

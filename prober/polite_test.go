package prober

import (
	"context"
	"fmt"
	"github.com/cockroachdb/pebble/v2/vfs"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
)

// tableWith is the test table with the given budgets for unknown hosts.
func tableWith(changes ...string) string { return strings.NewReplacer(changes...).Replace(testTable) }

func numberedAddresses(n int, domain string) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("user%d@%s", i, domain))
	}
	return out
}

// TestBudgetsHoldOverHoursAndCrashes sends more refusals than an hour allows for five hours, with a stop and a start
// each forty minutes, half of them crashes: what the receiver saw must fit every budget.
func TestBudgetsHoldOverHoursAndCrashes(t *testing.T) {
	table := tableWith("refusals_per_hour = 0", "refusals_per_hour = 20", "refusals_per_connection = 0",
		"refusals_per_connection = 5",
		"connections_per_minute = 0", "connections_per_minute = 3", "recipients_per_minute = 0",
		"recipients_per_minute = 8")
	synctest.Test(t, func(t *testing.T) {
		h := &fakeServer{rcpt: acceptsOnly("ann")}
		b := newTestNode(t, table, map[string]*fakeServer{"mx.a.example": h})
		require.NoError(t, b.cache.Close())
		disk := vfs.NewCrashableMem()
		b.openCache(disk)
		next := 0
		for round := range 8 {
			b.start(nil)
			until := time.Now().Add(40 * time.Minute)
			for time.Now().Before(until) {
				var addrs []string
				for range 20 {
					addrs = append(addrs, fmt.Sprintf("user%d@d%d.example", next, next%7))
					next++
				}
				b.verify(30*time.Second, b.rows(mxA, addrs...)...)
				b.single(5*time.Second, mxA, fmt.Sprintf("one%d@d1.example", next))
			}
			if round%2 == 1 {
				b.stop()
				continue
			}
			crashed := disk.CrashClone(vfs.CrashCloneCfg{}) // what the process does from now on, its disk does not see
			b.stop()
			require.NoError(t, b.cache.Close())
			disk = crashed
			b.openCache(disk)
		}
		require.NoError(t, b.cache.Close())
		require.LessOrEqual(t, mostInSpan(h.snapshot().refusalTimes, time.Hour), 20)
		require.LessOrEqual(t, mostInSpan(h.snapshot().dialTimes, time.Minute), 3)
		require.LessOrEqual(t, mostInSpan(h.snapshot().rcptTimes, time.Minute), 8)
		require.LessOrEqual(t, h.snapshot().peak, 2)
		require.Greater(t, len(h.snapshot().refusalTimes), 60, "and most of the budget is used")
	})
}

func TestManyRoutesOfOneAddressShareItsBudget(t *testing.T) {
	table := tableWith("refusals_per_hour = 0", "refusals_per_hour = 20")
	hosts := map[string]*fakeServer{}
	h := &fakeServer{rcpt: acceptsOnly()}
	withTestNode(t, table, nil, withAliases(hosts, h, 40), func(b *testNode) {
		b.prober.singleCalls.Record(time.Now())
		var rows []wire.Row
		for i := range 40 {
			rows = append(rows, b.rows([]string{fmt.Sprintf("mx%d.example", i)}, fmt.Sprintf("ann@d%d.example", i))...)
		}
		settled := 0
		for _, r := range b.verify(time.Minute, rows...) {
			if r.Outcome == wire.Settled {
				settled++
			}
		}
		require.Equal(t, 16, settled, "four fifths of the hour's refusals, while singles come")
		require.Len(t, h.snapshot().refusalTimes, 16)
		require.LessOrEqual(t, h.snapshot().peak, 2)
	})
}

// withAliases gives one host many names: the first listens, the others resolve to its address.
func withAliases(hosts map[string]*fakeServer, h *fakeServer, n int) map[string]*fakeServer {
	h.addr = aliasAddr
	hosts["mx0.example"] = h
	for i := 1; i < n; i++ {
		hosts[fmt.Sprintf("mx%d.example", i)] = &fakeServer{addr: aliasAddr, down: true}
	}
	return hosts
}

// TestRefusalsPerConnectionAreKept: the connection to a host that closes at the fourth refusal is closed after the
// third, with or without pipelining, refused decoys included.
func TestRefusalsPerConnectionAreKept(t *testing.T) {
	const most = 3
	for _, noPipe := range []bool{false, true} {
		h := &fakeServer{rcpt: acceptsAnn, noPipelining: noPipe, replyDelay: 100 * time.Millisecond}
		withTestNode(t, tableWith("connections = 2", "connections = 1", "refusals_per_connection = 0",
			"refusals_per_connection = 3"), nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
			var addrs []string
			for i := range 20 {
				addrs = append(addrs, fmt.Sprintf("nobody%d@a.example", i), fmt.Sprintf("ann@d%d.example", i))
			}
			for addr, v := range b.verifyList(1, addrs) {
				require.Equal(t, exists(addr), v.Status == engine.Valid, "%s: %s", addr, verdictText(v))
			}
		})
		saw := h.snapshot()
		require.GreaterOrEqual(t, len(saw.refusalTimes), 40, "20 targets and 20 decoys")
		require.LessOrEqual(t, len(saw.refusalTimes), 44, "and what the first connection had no control for")
		for i, dialed := range saw.dialTimes {
			refused := 0
			for _, at := range saw.refusalTimes {
				if !at.Before(dialed) && (i+1 == len(saw.dialTimes) || at.Before(saw.dialTimes[i+1])) {
					refused++
				}
			}
			require.LessOrEqual(t, refused, most)
		}
	}
}

// TestRefusalOfOneRecipientAffectsNoOther: a refusal by a recipient's or its site's own rule says nothing about the
// others: they are asked on the same connection, and later, and the route is not paused.
func TestRefusalOfOneRecipientAffectsNoOther(t *testing.T) {
	for refusal, want := range map[string]string{
		"550 5.7.1 You are not allowed to send to this group":                    "UNKNOWN blocked",
		"550 5.7.1 Der Empfaenger moechte keine Nachrichten von Ihnen erhalten":  "UNKNOWN blocked",
		"550 Your message was rejected by this user and was not delivered":       "UNKNOWN unclear_refusal",
		"550 The recipient wants no mail from you":                               "UNKNOWN blocked",
		"550 5.7.1 sender address rejected by the recipient":                     "UNKNOWN blocked",
		"554 5.7.1 <picky@a.example>: Recipient address rejected: Access denied": "UNKNOWN blocked",
	} {
		h := &fakeServer{rcpt: func(local string) string {
			if local == "picky" {
				return refusal
			}
			return acceptsAnn(local)
		}}
		withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
			ask := func(addrs ...string) {
				rows := b.rows(mxA, addrs...)
				got := b.verify(time.Minute, rows...)
				for _, r := range rows {
					verdict := "VALID"
					if r.Address.Local() == "picky" {
						verdict = want
					}
					require.Equal(t, verdict, verdictText(got[r.Number].Verdict), refusal)
				}
			}
			ask("ann1@a.example", "picky@a.example", "ann2@a.example", "ann3@a.example")
			require.Len(t, h.snapshot().dialTimes, 1, refusal)
			ask("ann4@a.example", "picky@a.example")
		})
	}
}

func TestQuarantineDrainsTheQueue(t *testing.T) {
	table := testTable + `
[[provider.rule]]
id = "away"
code = "554"
text = ["stay away"]
meaning = "blocked"
blame = "us"
action = "quarantine"
for = "4h"
`
	h := &fakeServer{rcpt: func(string) string { return "554 stay away" }}
	mx := []string{"mx.big.example"}
	withTestNode(t, table, nil, map[string]*fakeServer{mx[0]: h}, func(b *testNode) {
		rows := b.rows(mx, numberedAddresses(300, "a.example")...)
		for _, r := range b.verify(time.Minute, rows...) {
			require.Equal(t, "UNKNOWN blocked", verdictText(r.Verdict))
		}
		require.LessOrEqual(t, h.count("RCPT"), 200, "what was in flight, and no more")
		before := h.count("RCPT")
		require.Equal(t, "UNKNOWN blocked", verdictText(b.single(5*time.Second, mx, "zoe@a.example")))
		b.stop()
		b.start(nil)
		require.Equal(t, "UNKNOWN blocked", verdictText(b.single(5*time.Second, mx, "zoe@a.example")),
			"a restart does not forgive")
		require.Equal(t, before, h.count("RCPT"))
		time.Sleep(4 * time.Hour)
		b.single(5*time.Second, mx, "zoe@a.example")
		require.Equal(t, before+1, h.count("RCPT"))
	})
}

func TestStopReturnsRowsAndEndsGoroutines(t *testing.T) {
	h := &fakeServer{rcpt: func(string) string { time.Sleep(time.Second); return "250 ok" }}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		done := make(chan int, 1)
		go func() {
			later := 0
			_ = b.prober.Verify(context.Background(),
				&wire.Batch{Rows: b.rows(mxA, numberedAddresses(400, "a.example")...)}, time.Hour,
				func(r wire.Results) {
					for _, x := range r.Rows {
						if x.Outcome == wire.Returned {
							later++
						}
					}
				})
			done <- later
		}()
		time.Sleep(1500 * time.Millisecond)
		start := time.Now()
		b.stopProber()
		require.Less(t, time.Since(start), 25*time.Second)
		require.Equal(t, 400, <-done)
		_, err := b.prober.Single(context.Background(), wire.SingleRequest{})
		require.ErrorIs(t, err, ErrStopped)
	})
}

// TestIdleSessionsYieldToWaitingHosts lets many hosts of one receiver share few sessions: none lingers at its host
// while others wait.
func TestIdleSessionsYieldToWaitingHosts(t *testing.T) {
	for name, table := range map[string]string{
		"our own bound":     testTable + "[provider.limits]\nconnections = 0\n",
		"the receiver's":    testTable + "[provider.limits]\nconnections = 2\n",
		"rate of receivers": testTable + "[provider.limits]\nconnections = 2\nconnections_per_minute = 1000\n",
	} {
		t.Run(name, func(t *testing.T) {
			hosts := map[string]*fakeServer{}
			for i := range 40 {
				hosts[fmt.Sprintf("mx%d.big.example", i)] = &fakeServer{}
			}
			withTestNode(t, table, func(c *Config) { c.MaxQueueSessions = 2 }, hosts, func(b *testNode) {
				var rows []wire.Row
				for i := range 40 {
					rows = append(rows, b.rows([]string{fmt.Sprintf("mx%d.big.example", i)},
						fmt.Sprintf("ann@d%d.example", i))...)
				}
				start := time.Now()
				require.Len(t, b.verify(time.Minute, rows...), 40)
				require.Less(t, time.Since(start), time.Second, "40 hosts, 2 sessions, a linger of 250 ms")
			})
		})
	}
}

// TestIdleSessionsWaitForOtherJobs: where the receiver sets no limit, the rows of a job that come a little later share
// the connection.
func TestIdleSessionsWaitForOtherJobs(t *testing.T) {
	for limit, dials := range map[string]int{"0": 1, "2": 2} {
		h := &fakeServer{}
		withTestNode(t, strings.Replace(testTable, "connections = 2", "connections = "+limit, 1), nil,
			map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
				for _, class := range []string{"ann", "bob"} {
					require.Len(t, b.verify(time.Minute, b.rows(mxA, class+"@a.example")...), 1)
					time.Sleep(time.Second) // it waits two
				}
				require.Len(t, h.snapshot().dialTimes, dials, "connections = "+limit)
				time.Sleep(2 * time.Second)
				require.Zero(t, b.prober.env.Slots.InUse(), "nothing came any more")
			})
	}
}

// TestSpeedupShortensQuarantine: a table for a simulated internet scales the times of its rules.
func TestSpeedupShortensQuarantine(t *testing.T) {
	h := &fakeServer{banner: "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"}
	withTestNode(t, "speedup = 36000\n"+testTable, nil, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
		ask := func(class string) string {
			row := b.rows(mxA, class+"@a.example")
			return verdictText(b.verify(time.Minute, row...)[row[0].Number].Verdict)
		}
		require.Equal(t, "UNKNOWN blocked", ask("ann"))
		require.Equal(t, "UNKNOWN blocked", ask("bob"))
		require.Len(t, h.snapshot().dialTimes, 1, "it rests")
		time.Sleep(2500 * time.Millisecond)
		require.Equal(t, "UNKNOWN blocked", ask("cem"))
		require.Len(t, h.snapshot().dialTimes, 2, "a day is over")
	})
}

package prober

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// limited is the lab's table with budgets for nobody's hosts.
func limited(changes ...string) string { return strings.NewReplacer(changes...).Replace(labTable) }

func addresses(n int, domain string) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("user%d@%s", i, domain))
	}
	return out
}

// TestBudgetsHoldOverHoursAndCrashes sends more refusals than an hour allows for five hours, with a stop and a start each
// forty minutes, half of them crashes: what the receiver saw must fit every budget.
func TestBudgetsHoldOverHoursAndCrashes(t *testing.T) {
	table := limited("refusals_per_hour = 0", "refusals_per_hour = 20", "refusals_per_connection = 0", "refusals_per_connection = 5",
		"connections_per_minute = 0", "connections_per_minute = 3", "recipients_per_minute = 0", "recipients_per_minute = 8")
	synctest.Test(t, func(t *testing.T) {
		h := &host{rcpt: knows("ann")}
		b := newLab(t, table, map[string]*host{"mx.a.example": h})
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
				b.verify(30*time.Second, b.rows(mxa, addrs...)...)
				b.single(5*time.Second, mxa, fmt.Sprintf("one%d@d1.example", next))
			}
			if round%2 == 0 {
				b.crash()
			}
			b.stop()
		}
		require.NoError(t, b.cache.Close())
		require.LessOrEqual(t, worst(h.saw().refuse, time.Hour), 20)
		require.LessOrEqual(t, worst(h.saw().dialed, time.Minute), 3)
		require.LessOrEqual(t, worst(h.saw().rcpts, time.Minute), 8)
		require.LessOrEqual(t, h.saw().peak, 2)
		require.Greater(t, len(h.saw().refuse), 60, "and most of the budget is used")
	})
}

// crash has the next stop write nothing, as if the process had died.
func (b *lab) crash() {
	b.prober.mu.Lock()
	clear(b.prober.lanes)
	b.prober.mu.Unlock()
	b.prober.dests.mu.Lock()
	clear(b.prober.dests.all)
	b.prober.dests.mu.Unlock()
}

func TestManyRoutesOfOneAddressShareItsBudget(t *testing.T) {
	table := limited("refusals_per_hour = 0", "refusals_per_hour = 20")
	hosts := map[string]*host{}
	h := &host{rcpt: knows()}
	inLab(t, table, nil, hostAliases(hosts, h, 40), func(b *lab) {
		b.prober.calls.called(time.Now())
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
		require.Len(t, h.saw().refuse, 16)
		require.LessOrEqual(t, h.saw().peak, 2)
	})
}

// hostAliases gives one host many names: the first listens, the others resolve to its address.
func hostAliases(hosts map[string]*host, h *host, n int) map[string]*host {
	h.addr = aliasAddr
	hosts["mx0.example"] = h
	for i := 1; i < n; i++ {
		hosts[fmt.Sprintf("mx%d.example", i)] = &host{addr: aliasAddr, down: true}
	}
	return hosts
}

// TestRefusalsOfAConnection: a host that closes at the fourth refusal of a connection is left after the third, whether it pipelines or not, and
// with the refused decoys counted.
func TestRefusalsOfAConnection(t *testing.T) {
	const most = 3
	for _, noPipe := range []bool{false, true} {
		h := &host{rcpt: knowsAnn, noPipe: noPipe, slow: 100 * time.Millisecond}
		inLab(t, limited("connections = 2", "connections = 1", "refusals_per_connection = 0", "refusals_per_connection = 3"), nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
			var addrs []string
			for i := range 20 {
				addrs = append(addrs, fmt.Sprintf("nobody%d@a.example", i), fmt.Sprintf("ann@d%d.example", i))
			}
			for _, r := range b.verify(10*time.Minute, b.rows(mxa, addrs...)...) {
				require.Equal(t, wire.Settled, r.Outcome)
			}
		})
		saw := h.saw()
		require.Len(t, saw.refuse, 40, "20 targets and 20 decoys")
		for i, dialed := range saw.dialed {
			refused := 0
			for _, at := range saw.refuse {
				if !at.Before(dialed) && (i+1 == len(saw.dialed) || at.Before(saw.dialed[i+1])) {
					refused++
				}
			}
			require.LessOrEqual(t, refused, most)
		}
	}
}

// TestRefusalOfOneRecipientIsItsOwn: what one recipient refuses, by a rule of its own or of its site, says nothing of the others: they are asked
// on the same connection, and later, and the route is not left alone.
func TestRefusalOfOneRecipientIsItsOwn(t *testing.T) {
	for refusal, want := range map[string]string{
		"550 5.7.1 You are not allowed to send to this group":                    "UNKNOWN blocked",
		"550 5.7.1 Der Empfaenger moechte keine Nachrichten von Ihnen erhalten":  "UNKNOWN blocked",
		"550 Your message was rejected by this user and was not delivered":       "UNKNOWN unclear_refusal",
		"550 The recipient wants no mail from you":                               "UNKNOWN blocked",
		"550 5.7.1 sender address rejected by the recipient":                     "UNKNOWN blocked",
		"554 5.7.1 <picky@a.example>: Recipient address rejected: Access denied": "UNKNOWN blocked",
	} {
		h := &host{rcpt: func(local string) string {
			if local == "picky" {
				return refusal
			}
			return knowsAnn(local)
		}}
		inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
			ask := func(addrs ...string) {
				rows := b.rows(mxa, addrs...)
				got := b.verify(time.Minute, rows...)
				for _, r := range rows {
					verdict := "VALID"
					if r.Address.Local() == "picky" {
						verdict = want
					}
					require.Equal(t, verdict, spell(got[r.Number].Verdict), refusal)
				}
			}
			ask("ann1@a.example", "picky@a.example", "ann2@a.example", "ann3@a.example")
			require.Len(t, h.saw().dialed, 1, refusal)
			ask("ann4@a.example", "picky@a.example")
		})
	}
}

func TestQuarantineEndsALane(t *testing.T) {
	table := labTable + `
[[provider.rule]]
id = "away"
code = "554"
text = ["stay away"]
meaning = "blocked"
blame = "us"
action = "quarantine"
for = "4h"
`
	h := &host{rcpt: func(string) string { return "554 stay away" }}
	mx := []string{"mx.big.example"}
	inLab(t, table, nil, map[string]*host{mx[0]: h}, func(b *lab) {
		rows := b.rows(mx, addresses(300, "a.example")...)
		for _, r := range b.verify(time.Minute, rows...) {
			require.Equal(t, "UNKNOWN blocked", spell(r.Verdict))
		}
		require.LessOrEqual(t, h.count("RCPT"), 200, "what was in flight, and no more")
		before := h.count("RCPT")
		require.Equal(t, "UNKNOWN blocked", spell(b.single(5*time.Second, mx, "zoe@a.example")))
		b.stop()
		b.start(nil)
		require.Equal(t, "UNKNOWN blocked", spell(b.single(5*time.Second, mx, "zoe@a.example")), "a restart does not forgive")
		require.Equal(t, before, h.count("RCPT"))
		time.Sleep(4 * time.Hour)
		b.single(5*time.Second, mx, "zoe@a.example")
		require.Equal(t, before+1, h.count("RCPT"))
	})
}

func TestStopReturnsRowsAndLeavesNobody(t *testing.T) {
	h := &host{rcpt: func(string) string { time.Sleep(time.Second); return "250 ok" }}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		done := make(chan int, 1)
		go func() {
			later := 0
			_ = b.prober.Verify(context.Background(), &wire.Batch{Rows: b.rows(mxa, addresses(400, "a.example")...)}, time.Hour, func(r wire.Results) {
				for _, x := range r.Rows {
					if x.Outcome == wire.Later {
						later++
					}
				}
			})
			done <- later
		}()
		time.Sleep(1500 * time.Millisecond)
		start := time.Now()
		b.halt()
		require.Less(t, time.Since(start), 25*time.Second)
		require.Equal(t, 400, <-done)
		_, err := b.prober.Single(context.Background(), wire.Ask{})
		require.ErrorIs(t, err, ErrStopped)
	})
}

// TestIdleSessionsGiveWay has many hosts of one receiver share few sessions: none lingers at its host while others wait.
func TestIdleSessionsGiveWay(t *testing.T) {
	for name, table := range map[string]string{
		"our own bound":     labTable + "[provider.limits]\nconnections = 0\n",
		"the receiver's":    labTable + "[provider.limits]\nconnections = 2\n",
		"rate of receivers": labTable + "[provider.limits]\nconnections = 2\nconnections_per_minute = 1000\n",
	} {
		t.Run(name, func(t *testing.T) {
			hosts := map[string]*host{}
			for i := range 40 {
				hosts[fmt.Sprintf("mx%d.big.example", i)] = &host{}
			}
			inLab(t, table, func(c *Config) { c.LaneCap = 2 }, hosts, func(b *lab) {
				var rows []wire.Row
				for i := range 40 {
					rows = append(rows, b.rows([]string{fmt.Sprintf("mx%d.big.example", i)}, fmt.Sprintf("ann@d%d.example", i))...)
				}
				start := time.Now()
				require.Len(t, b.verify(time.Minute, rows...), 40)
				require.Less(t, time.Since(start), time.Second, "40 hosts, 2 sessions, a linger of 250 ms")
			})
		})
	}
}

// TestIdleSessionsWaitForOtherJobs: where the receiver sets no limit, the rows of a job that come a little later share the connection.
func TestIdleSessionsWaitForOtherJobs(t *testing.T) {
	for limit, dials := range map[string]int{"0": 1, "2": 2} {
		h := &host{}
		inLab(t, strings.Replace(labTable, "connections = 2", "connections = "+limit, 1), nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
			for _, who := range []string{"ann", "bob"} {
				require.Len(t, b.verify(time.Minute, b.rows(mxa, who+"@a.example")...), 1)
				time.Sleep(longLinger - time.Second)
			}
			require.Len(t, h.saw().dialed, dials, "connections = "+limit)
			time.Sleep(2 * time.Second)
			require.Zero(t, b.prober.slots.inUse(), "nothing came any more")
		})
	}
}

// TestSpeedupShortensQuarantine holds that a table for a pretend internet scales what its rules ask for.
func TestSpeedupShortensQuarantine(t *testing.T) {
	h := &host{banner: "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"}
	inLab(t, "speedup = 36000\n"+labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		ask := func(who string) string {
			row := b.rows(mxa, who+"@a.example")
			return spell(b.verify(time.Minute, row...)[row[0].Number].Verdict)
		}
		require.Equal(t, "UNKNOWN blocked", ask("ann"))
		require.Equal(t, "UNKNOWN blocked", ask("bob"))
		require.Len(t, h.saw().dialed, 1, "it rests")
		time.Sleep(2500 * time.Millisecond)
		require.Equal(t, "UNKNOWN blocked", ask("cem"))
		require.Len(t, h.saw().dialed, 2, "a day is over")
	})
}

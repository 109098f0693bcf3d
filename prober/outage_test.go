package prober

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
)

// outage is a way out that can be cut.
type outage struct {
	cut  atomic.Bool
	hang time.Duration // how long a connection takes to fail
}

func (o *outage) through(c *Config) {
	inner := c.Dial
	c.Dial = func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
		time.Sleep(time.Duration(1+rand.N(20)) * time.Millisecond)
		if !o.cut.Load() {
			return inner(ctx, local, network, address)
		}
		select {
		case <-time.After(o.hang):
			return nil, errors.New("network is unreachable")
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// fewTable has receivers take four recipients a connection, so that there is always one to be made.
var fewTable = strings.Replace(labTable, "recipients_per_connection = 0", "recipients_per_connection = 4", 1)

// receivers are mail hosts, and rows that each of them is asked for.
func receivers(n int, like func() *host) map[string]*host {
	hosts := map[string]*host{}
	for i := range n {
		hosts[fmt.Sprintf("mx.r%d.example", i)] = like()
	}
	return hosts
}

func (b *lab) rowsOf(each int) (rows []wire.Row) {
	for i := range len(b.hosts) {
		var addrs []string
		for k := range each {
			addrs = append(addrs, fmt.Sprintf("u%d@r%d.example", k, i))
		}
		rows = append(rows, b.rows([]string{fmt.Sprintf("mx.r%d.example", i)}, addrs...)...)
	}
	return rows
}

// finish verifies rows as a job does: what comes home undone or put off is sent again when it is due.
func (b *lab) finish(rows []wire.Row) map[string]int { return b.finishHolding(time.Minute, rows) }

func (b *lab) finishHolding(hold time.Duration, rows []wire.Row) map[string]int {
	settled := map[string]int{}
	for rounds := 0; len(rows) > 0; rounds++ {
		require.Less(b.t, rounds, 50)
		var again []wire.Row
		var due time.Time
		got := b.verify(hold, rows...)
		for _, r := range rows {
			g := got[r.Number]
			if g.Outcome == wire.Settled {
				settled[spell(g.Verdict)]++
				continue
			}
			if r.Attempt = g.Attempt; g.Due.After(due) {
				due = g.Due
			}
			again = append(again, r)
		}
		rows = again
		time.Sleep(time.Until(due))
	}
	return settled
}

// TestAnOutageOfOursCostsTimeNotVerdicts: while nobody can be reached, rows wait or are put off; none is blamed on a receiver.
func TestAnOutageOfOursCostsTimeNotVerdicts(t *testing.T) {
	for _, x := range []struct {
		hang, lasts, within time.Duration
		receivers, each     int
		lost                int // rows that may end unknown at the most
	}{
		{0, 2 * time.Second, 2 * time.Minute, 100, 40, 10},
		{time.Second, 2 * time.Second, 2 * time.Minute, 100, 40, 10},
		{0, 2 * time.Second, 2 * time.Minute, 240, 1, uneasyRoutes},
		{0, time.Minute, 3 * time.Minute, 100, 40, 10},
		{40 * time.Second, time.Minute, 4 * time.Minute, 100, 40, 10},
		{time.Second, 20 * time.Minute, 26 * time.Minute, 100, 40, 40},
	} {
		t.Run(fmt.Sprintf("%s of failures after %s at %d", x.lasts, x.hang, x.receivers), func(t *testing.T) {
			o := outage{hang: x.hang}
			hosts := receivers(x.receivers, func() *host { return &host{rcpt: knows("ann"), slow: 100 * time.Millisecond} })
			few := func(c *Config) { o.through(c); c.MaxSessions = x.receivers / 2 }
			inLab(t, fewTable, few, hosts, func(b *lab) {
				rows := b.rowsOf(x.each)
				began := time.Now()
				time.AfterFunc(50*time.Millisecond, func() { o.cut.Store(true) })
				time.AfterFunc(50*time.Millisecond+x.lasts, func() { o.cut.Store(false) })
				settled := b.finish(rows)
				require.GreaterOrEqual(t, settled["INVALID mailbox_not_found"], len(rows)-x.lost, settled)
				require.Less(t, time.Since(began), x.within)
			})
		})
	}
}

// TestWhatAnOutageCutsShortIsBlamedOnNoReceiver: connections that begin just before an outage, while others are still made, are the
// first to fail in it, or fail when others are made again.
func TestWhatAnOutageCutsShortIsBlamedOnNoReceiver(t *testing.T) {
	const early = uneasyRoutes - 1
	for _, lasts := range []time.Duration{14 * time.Second, time.Minute} {
		t.Run(lasts.String(), func(t *testing.T) {
			hosts := receivers(2*early, func() *host { return &host{rcpt: knows("ann"), slow: 100 * time.Millisecond} })
			first := map[string]bool{}
			for i := range early {
				h := hosts[fmt.Sprintf("mx.r%d.example", i)]
				h.addr = netip.AddrFrom4([4]byte{10, 2, 2, byte(i + 1)})
				first[netip.AddrPortFrom(h.addr, 25).String()] = true
			}
			through := func(c *Config) {
				begun, over := make(chan struct{}), make(chan struct{})
				var cut, ended atomic.Bool
				var tried atomic.Int32
				inner := c.Dial
				c.Dial = func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
					switch {
					case ended.Load():
					case first[address]:
						if tried.Add(1) == early {
							time.AfterFunc(50*time.Millisecond, func() { cut.Store(true) })
							time.AfterFunc(lasts, func() { ended.Store(true); close(over) })
							close(begun)
						}
						<-ctx.Done()
						return nil, ctx.Err()
					default:
						if <-begun; cut.Load() {
							select {
							case <-over: // its packet was sent again
							case <-ctx.Done():
								return nil, ctx.Err()
							}
						}
					}
					return inner(ctx, local, network, address)
				}
			}
			inLab(t, fewTable, through, hosts, func(b *lab) {
				rows := b.rowsOf(12)
				require.Equal(t, map[string]int{"INVALID mailbox_not_found": len(rows)}, b.finish(rows))
			})
		})
	}
}

// TestDeadReceiversAreNoOutage: those that nobody reaches are told as such, each dialled a few times at the most, however many are
// left when the others are done, and whether they refuse or are silent.
func TestDeadReceiversAreNoOutage(t *testing.T) {
	for _, x := range []struct {
		silent   bool
		sessions int
	}{{false, 1000}, {true, 1000}, {false, 10}, {true, 10}} {
		t.Run(fmt.Sprintf("silent %v, sessions %d", x.silent, x.sessions), func(t *testing.T) {
			dead := map[string]*atomic.Int32{}
			hosts := receivers(240, func() *host { return &host{rcpt: knows("ann"), slow: 100 * time.Millisecond} })
			for i := range 120 {
				h := hosts[fmt.Sprintf("mx.r%d.example", 2*i)]
				h.addr, h.down = netip.AddrFrom4([4]byte{10, 2, 2, byte(i + 1)}), true
				dead[netip.AddrPortFrom(h.addr, 25).String()] = &atomic.Int32{}
			}
			const maxDials = 6 // three attempts; a row that comes home while its host is dialled is sent again
			through := func(c *Config) {
				c.MaxSessions = x.sessions
				inner := c.Dial
				c.Dial = func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
					time.Sleep(time.Duration(1+rand.N(20)) * time.Millisecond)
					if n := dead[address]; n != nil {
						if n.Add(1); x.silent {
							<-ctx.Done()
							return nil, ctx.Err()
						}
					}
					return inner(ctx, local, network, address)
				}
			}
			inLab(t, fewTable, through, hosts, func(b *lab) {
				began := time.Now()
				settled := b.finish(b.rowsOf(4))
				require.Equal(t, 480, settled["INVALID mailbox_not_found"])
				require.Len(t, settled, 2, settled)
				most := int32(0)
				for _, n := range dead {
					most = max(most, n.Load())
				}
				require.LessOrEqual(t, most, int32(maxDials))
				require.Less(t, time.Since(began), 30*time.Minute)
			})
		})
	}
}

// A single is told at once what was seen.
func TestSinglesAreNotPutOffForDoubts(t *testing.T) {
	var o outage
	inLab(t, labTable, o.through, map[string]*host{"mx.a.example": {rcpt: knows("ann")}}, func(b *lab) {
		require.Equal(t, "VALID", spell(b.single(10*time.Second, mxa, "ann@a.example")))
		time.Sleep(15 * time.Second)
		o.cut.Store(true)
		v := b.single(10*time.Second, mxa, "bob@a.example")
		require.Equal(t, "UNKNOWN connection_failed", spell(v))
		require.Zero(t, v.Details.NextRetry)
		row := b.rows(mxa, "cid@a.example")[0]
		require.Equal(t, wire.Deferred, b.verify(time.Minute, row)[row.Number].Outcome, "a row has time")
	})
}

// TestAnOutageOfNamesCostsTimeNotVerdicts: what a resolver does not answer for a while is asked again.
func TestAnOutageOfNamesCostsTimeNotVerdicts(t *testing.T) {
	hosts := receivers(100, func() *host { return &host{rcpt: knows("ann"), slow: 100 * time.Millisecond} })
	inLab(t, fewTable, nil, hosts, func(b *lab) {
		rows := b.rowsOf(8)
		b.nameless.Store(true)
		time.AfterFunc(2*time.Second, func() { b.nameless.Store(false) })
		require.Equal(t, map[string]int{"INVALID mailbox_not_found": len(rows)}, b.finish(rows))
		time.Sleep(time.Hour)
		b.nameless.Store(true)
		more := b.rows([]string{"mx.r1.example"}, "zed@r1.example")
		require.Equal(t, map[string]int{"UNKNOWN dns_error": 1}, b.finish(more), "what lasts is told")
	})
}

// TestADecoyOfADeadHost: a host that dies when it has accepted somebody is tried for the decoy a few times within a minute or two, not
// each second for as long as it is dead, and who waits is told; once it lives, who comes is asked without delay.
func TestADecoyOfADeadHost(t *testing.T) {
	for _, hang := range []time.Duration{0, 30 * time.Second} {
		t.Run(fmt.Sprintf("fails after %s", hang), func(t *testing.T) {
			o := outage{hang: hang}
			h := &host{rcpt: knows("ann", "eve")}
			dials := atomic.Int32{}
			counted := func(c *Config) {
				o.through(c)
				inner := c.Dial
				c.Dial = func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
					dials.Add(1)
					return inner(ctx, local, network, address)
				}
			}
			inLab(t, oneAMinute, counted, map[string]*host{"mx.a.example": h}, func(b *lab) {
				rows, began := b.rows(mxa, "ann@a.example"), time.Now()
				time.AfterFunc(30*time.Second, func() { o.cut.Store(true) })
				require.Equal(t, "RISKY accepted_unconfirmed", spell(b.verify(time.Hour, rows...)[rows[0].Number].Verdict))
				require.Less(t, time.Since(began), 15*time.Minute)
				time.Sleep(time.Hour)
				require.LessOrEqual(t, dials.Load(), int32(1+3*maxDecoyTries))
				o.cut.Store(false)
				began = time.Now()
				rows = b.rows(mxa, "eve@a.example")
				require.Equal(t, "VALID", spell(b.verify(10*time.Minute, rows...)[rows[0].Number].Verdict))
				require.Less(t, time.Since(began), 2*time.Minute)
			})
		})
	}
}

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

	"probity/internal/detector"
	"probity/prober/wire"
)

// outage is a network that can fail.
type outage struct {
	down atomic.Bool
	hang time.Duration // how long a connection takes to fail
}

func (o *outage) wrapDial(c *Config) {
	inner := c.Dial
	c.Dial = func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
		time.Sleep(time.Duration(1+rand.N(20)) * time.Millisecond)
		if !o.down.Load() {
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

// fourPerConnTable permits four recipients per connection, so that new connections are always needed.
var fourPerConnTable = strings.Replace(testTable, "recipients_per_connection = 0", "recipients_per_connection = 4", 1)

// manyServers makes mail hosts, and rows for each of them.
func manyServers(n int, newServer func() *fakeServer) map[string]*fakeServer {
	hosts := map[string]*fakeServer{}
	for i := range n {
		hosts[fmt.Sprintf("mx.r%d.example", i)] = newServer()
	}
	return hosts
}

func (b *testNode) rowsPerServer(each int) (rows []wire.Row) {
	for i := range len(b.hosts) {
		var addrs []string
		for k := range each {
			addrs = append(addrs, fmt.Sprintf("u%d@r%d.example", k, i))
		}
		rows = append(rows, b.rows([]string{fmt.Sprintf("mx.r%d.example", i)}, addrs...)...)
	}
	return rows
}

// verifyToEnd verifies rows as a job does: what is returned or deferred is sent again when it is due.
func (b *testNode) verifyToEnd(rows []wire.Row) map[string]int {
	return b.verifyToEndHolding(time.Minute, rows)
}

func (b *testNode) verifyToEndHolding(hold time.Duration, rows []wire.Row) map[string]int {
	settled := map[string]int{}
	for rounds := 0; len(rows) > 0; rounds++ {
		require.Less(b.t, rounds, 50)
		var again []wire.Row
		var due time.Time
		got := b.verify(hold, rows...)
		for _, r := range rows {
			g := got[r.Number]
			if g.Outcome == wire.Settled {
				settled[verdictText(g.Verdict)]++
				continue
			}
			r.Attempt = g.Attempt
			if g.Due.After(due) {
				due = g.Due
			}
			again = append(again, r)
		}
		rows = again
		time.Sleep(time.Until(due))
	}
	return settled
}

// TestOurOutageCostsTimeNotVerdicts: while no host can be reached, rows wait or are deferred; none is blamed on a
// receiver.
func TestOurOutageCostsTimeNotVerdicts(t *testing.T) {
	detector.SpareByDay(t)
	for _, x := range []struct {
		hang, lasts, within time.Duration
		receivers, each     int
		lost                int // at most so many rows may end UNKNOWN
	}{
		{0, 2 * time.Second, 2 * time.Minute, 100, 40, 10},
		{time.Second, 2 * time.Second, 2 * time.Minute, 100, 40, 10},
		{0, 2 * time.Second, 2 * time.Minute, 240, 1, 5},
		{0, time.Minute, 3 * time.Minute, 100, 40, 10},
		{40 * time.Second, time.Minute, 4 * time.Minute, 100, 40, 10},
		{time.Second, 20 * time.Minute, 26 * time.Minute, 100, 40, 40},
	} {
		t.Run(fmt.Sprintf("%s of failures after %s at %d", x.lasts, x.hang, x.receivers), func(t *testing.T) {
			o := outage{hang: x.hang}
			hosts := manyServers(x.receivers, func() *fakeServer {
				return &fakeServer{rcpt: acceptsOnly("ann"),
					replyDelay: 100 * time.Millisecond}
			})
			few := func(c *Config) { o.wrapDial(c); c.MaxSessions = x.receivers / 2 }
			withTestNode(t, fourPerConnTable, few, hosts, func(b *testNode) {
				rows := b.rowsPerServer(x.each)
				began := time.Now()
				time.AfterFunc(50*time.Millisecond, func() { o.down.Store(true) })
				time.AfterFunc(50*time.Millisecond+x.lasts, func() { o.down.Store(false) })
				settled := b.verifyToEnd(rows)
				require.GreaterOrEqual(t, settled["INVALID mailbox_not_found"], len(rows)-x.lost, settled)
				require.Less(t, time.Since(began), x.within)
			})
		})
	}
}

// TestOutageIsNotBlamedOnReceivers: connections that begin just before an outage, while others are still made, are the
// first to fail in it, or fail when others are made again.
func TestOutageIsNotBlamedOnReceivers(t *testing.T) {
	const early = 5 - 1 // fewer routes than make the source suspect
	for _, lasts := range []time.Duration{14 * time.Second, time.Minute} {
		t.Run(lasts.String(), func(t *testing.T) {
			hosts := manyServers(2*early, func() *fakeServer {
				return &fakeServer{rcpt: acceptsOnly("ann"),
					replyDelay: 100 * time.Millisecond}
			})
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
						<-begun
						if cut.Load() {
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
			withTestNode(t, fourPerConnTable, through, hosts, func(b *testNode) {
				rows := b.rowsPerServer(12)
				require.Equal(t, map[string]int{"INVALID mailbox_not_found": len(rows)}, b.verifyToEnd(rows))
			})
		})
	}
}

// TestDeadReceiversAreNotAnOutage: unreachable receivers are reported as such, each dialled a few times at most,
// however many are left when the others are done, and whether they refuse or are silent.
func TestDeadReceiversAreNotAnOutage(t *testing.T) {
	for _, x := range []struct {
		silent   bool
		sessions int
	}{{false, 1000}, {true, 1000}, {false, 10}, {true, 10}} {
		t.Run(fmt.Sprintf("silent %v, sessions %d", x.silent, x.sessions), func(t *testing.T) {
			dead := map[string]*atomic.Int32{}
			hosts := manyServers(240, func() *fakeServer {
				return &fakeServer{rcpt: acceptsOnly("ann"),
					replyDelay: 100 * time.Millisecond}
			})
			for i := range 120 {
				h := hosts[fmt.Sprintf("mx.r%d.example", 2*i)]
				h.addr, h.down = netip.AddrFrom4([4]byte{10, 2, 2, byte(i + 1)}), true
				dead[netip.AddrPortFrom(h.addr, 25).String()] = &atomic.Int32{}
			}
			const maxDials = 6 // three attempts; a row that is returned while its host is dialled is sent again
			through := func(c *Config) {
				c.MaxSessions = x.sessions
				inner := c.Dial
				c.Dial = func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
					time.Sleep(time.Duration(1+rand.N(20)) * time.Millisecond)
					if n := dead[address]; n != nil {
						n.Add(1)
						if x.silent {
							<-ctx.Done()
							return nil, ctx.Err()
						}
					}
					return inner(ctx, local, network, address)
				}
			}
			withTestNode(t, fourPerConnTable, through, hosts, func(b *testNode) {
				began := time.Now()
				settled := b.verifyToEnd(b.rowsPerServer(4))
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

// A single call gets at once what was seen.
func TestSinglesAreNotDeferredInAnOutage(t *testing.T) {
	var o outage
	withTestNode(t, testTable, o.wrapDial, map[string]*fakeServer{"mx.a.example": {rcpt: acceptsOnly("ann")}},
		func(b *testNode) {
			require.Equal(t, "VALID", verdictText(b.single(10*time.Second, mxA, "ann@a.example")))
			time.Sleep(15 * time.Second)
			o.down.Store(true)
			v := b.single(10*time.Second, mxA, "bob@a.example")
			require.Equal(t, "UNKNOWN connection_failed", verdictText(v))
			require.Zero(t, v.Details.NextRetry)
			row := b.rows(mxA, "cid@a.example")[0]
			require.Equal(t, wire.Deferred, b.verify(time.Minute, row)[row.Number].Outcome, "a row has time")
		})
}

// TestDNSOutageCostsTimeNotVerdicts: what a resolver does not answer for a while is looked up again.
func TestDNSOutageCostsTimeNotVerdicts(t *testing.T) {
	hosts := manyServers(100, func() *fakeServer {
		return &fakeServer{rcpt: acceptsOnly("ann"),
			replyDelay: 100 * time.Millisecond}
	})
	withTestNode(t, fourPerConnTable, nil, hosts, func(b *testNode) {
		rows := b.rowsPerServer(8)
		b.dnsFails.Store(true)
		time.AfterFunc(2*time.Second, func() { b.dnsFails.Store(false) })
		require.Equal(t, map[string]int{"INVALID mailbox_not_found": len(rows)}, b.verifyToEnd(rows))
		time.Sleep(time.Hour)
		b.dnsFails.Store(true)
		more := b.rows([]string{"mx.r1.example"}, "zed@r1.example")
		require.Equal(t, map[string]int{"UNKNOWN dns_error": 1}, b.verifyToEnd(more), "what lasts is told")
	})
}

// TestDecoyTriesAtADeadHostAreBounded: a host that dies after it accepted a target is tried for the decoy a few times
// within a minute or two, not each second; then the waiting rows get a result. Once it is back, new rows are asked
// without delay.
func TestDecoyTriesAtADeadHostAreBounded(t *testing.T) {
	for _, hang := range []time.Duration{0, 30 * time.Second} {
		t.Run(fmt.Sprintf("fails after %s", hang), func(t *testing.T) {
			o := outage{hang: hang}
			h := &fakeServer{rcpt: acceptsOnly("ann", "eve")}
			dials := atomic.Int32{}
			counted := func(c *Config) {
				o.wrapDial(c)
				inner := c.Dial
				c.Dial = func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
					dials.Add(1)
					return inner(ctx, local, network, address)
				}
			}
			withTestNode(t, onePerMinuteTable, counted, map[string]*fakeServer{"mx.a.example": h}, func(b *testNode) {
				rows, began := b.rows(mxA, "ann@a.example"), time.Now()
				time.AfterFunc(30*time.Second, func() { o.down.Store(true) })
				require.Equal(t, "RISKY accepted_unconfirmed",
					verdictText(b.verify(time.Hour, rows...)[rows[0].Number].Verdict))
				require.Less(t, time.Since(began), 15*time.Minute)
				time.Sleep(time.Hour)
				require.LessOrEqual(t, dials.Load(), int32(1+3*3))
				o.down.Store(false)
				began = time.Now()
				rows = b.rows(mxA, "eve@a.example")
				require.Equal(t, "VALID", verdictText(b.verify(10*time.Minute, rows...)[rows[0].Number].Verdict))
				require.Less(t, time.Since(began), 2*time.Minute)
			})
		})
	}
}

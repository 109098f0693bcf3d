package prober

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/prober/wire"
)

// providerHosts is where the customers of one provider are found: names of the provider and addresses that they share.
type providerHosts struct {
	hosts   map[string]*fakeServer
	servers []*fakeServer // by address
}

// newProviderHosts gives a provider so many customers with names of their own, dealt out over the hosts.
func newProviderHosts(suffix string, customers int, at ...*fakeServer) providerHosts {
	w := providerHosts{map[string]*fakeServer{}, at}
	for i, h := range at {
		h.addr = netip.AddrFrom4([4]byte{10, 2, 2, byte(i + 1)})
	}
	for i := range customers {
		h := at[i%len(at)]
		if i >= len(at) {
			h = &fakeServer{addr: h.addr, down: true} // its name alone: the first host of its address listens there
		}
		w.hosts[fmt.Sprintf("mx%d%s", i, suffix)] = h
	}
	return w
}

// rows are those of customers from one number up to another, so many of each: every second of them is known.
func (w providerHosts) rows(b *testNode, suffix string, from, to, each int) (rows []wire.Row) {
	for i := from; i < to; i++ {
		for k := range each {
			rows = append(rows, b.rows([]string{fmt.Sprintf("mx%d%s", i, suffix)},
				fmt.Sprintf("%s%d@d%d.example", [...]string{"ann", "nobody"}[k%2], k, i))...)
		}
	}
	return rows
}

func (w providerHosts) dialCount() (n int) {
	for _, h := range w.servers {
		n += len(h.snapshot().dialTimes)
	}
	return n
}

// acceptsAnn is an rcpt script of a host that has every mailbox called ann.
func acceptsAnn(local string) string {
	if strings.HasPrefix(local, "ann") {
		return "250 2.1.5 ok"
	}
	return "550 5.1.1 User unknown"
}

// requireOwnReplies requires that each row was settled by what its own host has said of it.
func requireOwnReplies(t *testing.T, rows []wire.Row, got map[uint32]wire.Result) {
	t.Helper()
	for _, row := range rows {
		want := "INVALID mailbox_not_found"
		if strings.HasPrefix(row.Address.Local(), "ann") {
			want = "VALID"
		}
		r := got[row.Number]
		require.Equal(t, wire.Settled, r.Outcome, row.Address.String())
		require.Equal(t, want, verdictText(r.Verdict), row.Address.String())
		require.Equal(t, row.Route.Hosts[0], r.Verdict.Details.Host)
	}
}

// TestOneConnectionPerAddress: customers of a provider whose hosts are found at one address are asked on one
// connection, up to what it may carry. Each address has one, and hosts of unknown providers are not taken for one
// another.
func TestOneConnectionPerAddress(t *testing.T) {
	for name, tt := range map[string]struct {
		suffix          string
		addresses, each int
		limit           string
		dialed          int
	}{
		"one address":     {".big.example", 1, 2, "", 1},
		"one row each":    {".big.example", 1, 1, "", 1},
		"three addresses": {".big.example", 3, 2, "", 3},
		// 30 rows and their decoys
		"used up":               {".big.example", 1, 1, "recipients_per_connection = 20", 3},
		"of nobody's providers": {".small.example", 1, 1, "", 30},
	} {
		t.Run(name, func(t *testing.T) {
			var at []*fakeServer
			for range tt.addresses {
				at = append(at, &fakeServer{rcpt: acceptsAnn})
			}
			w := newProviderHosts(tt.suffix, 30, at...)
			table := strings.NewReplacer("connections = 2", "connections = 10", "recipients_per_connection = 0",
				tt.limit).Replace(testTable)
			if tt.limit == "" {
				table = strings.Replace(testTable, "connections = 2", "connections = 10", 1)
			}
			withTestNode(t, table, nil, w.hosts, func(b *testNode) {
				var rows []wire.Row
				for i := range 30 { // one after the other: no other row waits
					some := w.rows(b, tt.suffix, i, i+1, tt.each)
					requireOwnReplies(t, some, b.verify(10*time.Minute, some...))
					rows = append(rows, some...)
				}
				require.Equal(t, tt.dialed, w.dialCount())
				got := b.verify(10*time.Minute, rows...)
				requireOwnReplies(t, rows, got)
				require.Equal(t, tt.dialed, w.dialCount(), "the cache knows")
			})
		})
	}
}

// TestManyCustomersShareConnections: a list of a thousand customers at three addresses gets along with the connections
// of its provider's budget, and those carry what they may.
func TestManyCustomersShareConnections(t *testing.T) {
	w := newProviderHosts(".big.example", 1000, &fakeServer{rcpt: acceptsAnn}, &fakeServer{rcpt: acceptsAnn},
		&fakeServer{rcpt: acceptsAnn})
	withTestNode(t, testTable, nil, w.hosts, func(b *testNode) {
		rows := w.rows(b, ".big.example", 0, 1000, 1)
		requireOwnReplies(t, rows, b.verify(10*time.Minute, rows...))
		require.Less(t, w.dialCount(), 60, "2,000 recipients over two connections at one time")
	})
}

// TestConnectionWaitsForLookups: a connection that has asked all that is found so far is not closed while hosts are
// being looked up, though customers at another address have none. A connection that waits for look-ups in vain ends
// with its linger.
func TestConnectionWaitsForLookups(t *testing.T) {
	for _, each := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond} {
		t.Run(each.String(), func(t *testing.T) {
			w := newProviderHosts(".big.example", 1000, &fakeServer{rcpt: acceptsAnn}, &fakeServer{rcpt: acceptsAnn},
				&fakeServer{rcpt: acceptsAnn})
			withTestNode(t, testTable, nil, w.hosts, func(b *testNode) {
				b.dnsDelay.Store(int64(each))
				rows, began := w.rows(b, ".big.example", 0, 1000, 1), time.Now()
				requireOwnReplies(t, rows, b.verify(10*time.Minute, rows...))
				require.Less(t, w.dialCount(), 60)
				require.Less(t, time.Since(began), 16*each+time.Second,
					"1,000 look-ups, 64 at one time, and one linger")
			})
		})
	}
	t.Run("nothing comes of them", func(t *testing.T) {
		w := newProviderHosts(".big.example", 3, &fakeServer{rcpt: acceptsAnn}, &fakeServer{rcpt: acceptsAnn})
		withTestNode(t, strings.Replace(testTable, "connections = 2", "connections = 1", 1), nil, w.hosts,
			func(b *testNode) {
				ask := func(i, each int) {
					rows := w.rows(b, ".big.example", i, i+1, each)
					requireOwnReplies(t, rows, b.verify(10*time.Minute, rows...))
				}
				ask(0, 2)
				ask(1, 2)
				b.dnsSilent.Store(true)
				var lost sync.WaitGroup
				lost.Go(func() { b.verify(5*time.Second, w.rows(b, ".big.example", 2, 3, 1)...) })
				time.Sleep(time.Second)
				ask(0, 4) // its connection waits for the look-up
				began := time.Now()
				ask(1, 4)
				require.Less(t, time.Since(began), time.Second)
				lost.Wait()
			})
	})
}

// TestConnectionBudgetIsShared: however many customers come at one time, the budget of their provider is theirs
// together.
func TestConnectionBudgetIsShared(t *testing.T) {
	var open, peak atomic.Int64
	slow := func() *fakeServer { return &fakeServer{rcpt: acceptsAnn, replyDelay: 100 * time.Millisecond} }
	w := newProviderHosts(".big.example", 300, slow(), slow(), slow(), slow(), slow())
	withTestNode(t, testTable, func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, local, network, address)
			if err != nil {
				return nil, err
			}
			peak.Store(max(peak.Load(), open.Add(1)))
			return &countingConn{Conn: conn, open: &open}, nil
		}
	}, w.hosts, func(b *testNode) {
		rows := w.rows(b, ".big.example", 0, 300, 2)
		requireOwnReplies(t, rows, b.verify(time.Hour, rows...))
	})
	require.Zero(t, open.Load())
	require.Equal(t, int64(2), peak.Load())
}

type countingConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *countingConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// TestSmallCustomerIsNotStarved: a customer with a long list does not keep the connection from the others at its
// address.
func TestSmallCustomerIsNotStarved(t *testing.T) {
	w := newProviderHosts(".big.example", 2, &fakeServer{rcpt: acceptsAnn, replyDelay: time.Second})
	table := strings.NewReplacer("connections = 2", "connections = 1", "recipients_per_transaction = 0",
		"recipients_per_transaction = 10").Replace(testTable)
	withTestNode(t, table, nil, w.hosts, func(b *testNode) {
		large, small := w.rows(b, ".big.example", 0, 1, 2000), w.rows(b, ".big.example", 1, 2, 4)
		var both sync.WaitGroup
		var tookLarge, tookSmall time.Duration
		began := time.Now()
		both.Go(func() {
			requireOwnReplies(t, large, b.verify(time.Hour, large...))
			tookLarge = time.Since(began)
		})
		time.Sleep(time.Second)
		both.Go(func() {
			requireOwnReplies(t, small, b.verify(time.Hour, small...))
			tookSmall = time.Since(began)
		})
		both.Wait()
		require.Less(t, tookSmall, tookLarge/4)
		require.Equal(t, 1, w.dialCount())
	})
}

// TestLargeCustomerOnASharedConnection: a long list is given as many connections where one was idle at its address as
// where none was.
func TestLargeCustomerOnASharedConnection(t *testing.T) {
	var took [2]time.Duration
	for warm := range took {
		w := newProviderHosts(".big.example", 2, &fakeServer{rcpt: acceptsAnn, replyDelay: time.Second})
		table := strings.NewReplacer("connections = 2", "connections = 10", "recipients_per_transaction = 0",
			"recipients_per_transaction = 10").Replace(testTable)
		withTestNode(t, table, nil, w.hosts, func(b *testNode) {
			if warm == 1 {
				b.verify(10*time.Minute, w.rows(b, ".big.example", 0, 1, 1)...)
			}
			began := time.Now()
			b.verify(time.Hour, w.rows(b, ".big.example", 1, 2, 2000)...)
			took[warm] = time.Since(began)
			require.Equal(t, 8, w.servers[0].snapshot().peak)
		})
	}
	require.LessOrEqual(t, took[1], took[0])
}

// TestMovedHostIsAskedAtItsNewAddress: a host is asked where DNS has it now, whatever connection there is to where it
// was, also while its list goes on.
func TestMovedHostIsAskedAtItsNewAddress(t *testing.T) {
	old, other := &fakeServer{rcpt: acceptsAnn, replyDelay: time.Second, noPipelining: true},
		&fakeServer{rcpt: acceptsAnn}
	w := newProviderHosts(".big.example", 2, old, other)
	table := strings.NewReplacer("connections = 2", "connections = 1", "recipients_per_transaction = 0",
		"recipients_per_transaction = 1").Replace(testTable)
	withTestNode(t, table, nil, w.hosts, func(b *testNode) {
		var moved atomic.Bool
		b.resolve = func(name string) []netip.Addr {
			if moved.Load() && strings.HasPrefix(name, "mx0.") {
				return []netip.Addr{other.addr}
			}
			return []netip.Addr{old.addr}
		}
		b.shortTTL.Store(true)
		var both sync.WaitGroup
		for i := range 2 {
			both.Go(func() {
				var rows []wire.Row
				for k := range 300 {
					rows = append(rows, b.rows([]string{fmt.Sprintf("mx%d.big.example", i)},
						fmt.Sprintf("ann%d@d%d.example", k, i))...)
				}
				requireOwnReplies(t, rows, b.verify(time.Hour, rows...))
			})
		}
		time.Sleep(30 * time.Second)
		require.NotZero(t, old.count("RCPT ann")+other.count("RCPT ann"))
		moved.Store(true)
		time.Sleep(2 * time.Minute)
		count := func() (n int) {
			old.withLock(func() {
				for _, l := range old.log {
					if strings.HasSuffix(l, "@d0.example") {
						n++
					}
				}
			})
			return n
		}
		asked := count()
		both.Wait()
		require.NotZero(t, asked)
		require.Equal(t, asked, count(), "nobody is asked about at the old address any more")
		require.NotZero(t, other.count("RCPT ann"))
	})
}

// TestSilentAddressDrawsNoConnections: one of a provider's two addresses says nothing. A connection to it draws no
// other host there, and an address that answers draws the hosts that may go to either.
func TestSilentAddressDrawsNoConnections(t *testing.T) {
	live, silent := &fakeServer{rcpt: acceptsAnn, replyDelay: 100 * time.Millisecond}, &fakeServer{neverReplies: true}
	w := newProviderHosts(".big.example", 200, live, silent)
	withTestNode(t, strings.Replace(testTable, "connections = 2", "connections = 10", 1), nil, w.hosts,
		func(b *testNode) {
			b.resolve = func(name string) []netip.Addr {
				if n := strings.IndexByte(name, '.'); name[n-1]%2 == 0 {
					return []netip.Addr{live.addr, silent.addr}
				}
				return []netip.Addr{silent.addr, live.addr}
			}
			var settled atomic.Int64
			verify := func(parity int) {
				var rows []wire.Row
				for i := parity; i < 200; i += 2 {
					rows = append(rows, w.rows(b, ".big.example", i, i+1, 1)...)
				}
				for _, r := range b.verify(9*time.Minute, rows...) {
					if r.Outcome == wire.Settled && r.Verdict.Status == engine.Valid {
						settled.Add(1)
					}
				}
			}
			var all sync.WaitGroup
			all.Go(func() { verify(1) })
			time.Sleep(time.Second) // connections to the silent one are under way
			all.Go(func() { verify(0) })
			all.Wait()
			require.GreaterOrEqual(t, settled.Load(), int64(100), "half of the hosts name the one that answers first")
		})
}

// TestAddressWithOneConnectionAllowed: a host that closes every connection but one has not failed while that one is in
// use, for whichever host.
func TestAddressWithOneConnectionAllowed(t *testing.T) {
	h := &fakeServer{rcpt: acceptsAnn, replyDelay: 200 * time.Millisecond, maxConns: 1}
	w := newProviderHosts(".big.example", 2, h)
	table := strings.Replace(testTable, "recipients_per_transaction = 0", "recipients_per_transaction = 2", 1)
	withTestNode(t, table, nil, w.hosts, func(b *testNode) {
		var both sync.WaitGroup
		for i := range 2 {
			both.Go(func() {
				rows := w.rows(b, ".big.example", i, i+1, 2000)
				requireOwnReplies(t, rows, b.verify(time.Hour, rows...))
			})
			time.Sleep(50 * time.Millisecond)
		}
		both.Wait()
		require.Less(t, len(h.snapshot().dialTimes), 40)
	})
}

// silentAfterMute is an rcpt script of a host that knows ann, and says no more on a connection on which it was asked
// about mute.
func silentAfterMute(local string) string {
	if local == "mute" {
		return "-"
	}
	return acceptsAnn(local)
}

// TestStalledConnectionHoldsNoOtherHost: a connection on which nothing comes for long does not keep the others of its
// address waiting, also where more rows of theirs keep coming.
func TestStalledConnectionHoldsNoOtherHost(t *testing.T) {
	w := newProviderHosts(".big.example", 3, &fakeServer{rcpt: silentAfterMute})
	withTestNode(t, testTable, nil, w.hosts, func(b *testNode) {
		var all sync.WaitGroup
		all.Go(func() { b.verify(10*time.Minute, b.rows([]string{"mx0.big.example"}, "mute@d0.example")...) })
		time.Sleep(time.Second)
		began := time.Now()
		for i := range 3 {
			all.Go(func() {
				rows := b.rows([]string{"mx1.big.example"}, fmt.Sprintf("ann%d@d1.example", i))
				requireOwnReplies(t, rows, b.verify(10*time.Minute, rows...))
				require.Less(t, time.Since(began), 6*time.Second)
			})
			time.Sleep(5 * time.Second / 4)
		}
		all.Wait()
	})
}

// TestSinglesGetAConnection: a single gets a connection of its own, or one that ends for it, whatever calls at the
// addresses of its provider.
func TestSinglesGetAConnection(t *testing.T) {
	slow := func(d time.Duration, rcpt func(string) string) *fakeServer {
		return &fakeServer{rcpt: rcpt, replyDelay: d}
	}
	for name, tt := range map[string]struct {
		connections int
		at          []*fakeServer
		ask         string          // of the first of the singles
		within      []time.Duration // of each single
	}{
		"one at an address where nobody is": {2,
			[]*fakeServer{slow(time.Second, acceptsAnn), slow(time.Second, acceptsAnn)}, "mx.other.big.example",
			[]time.Duration{6 * time.Second}},
		"two, of the connections that jobs leave to them": {5, []*fakeServer{slow(5*time.Second, acceptsAnn)},
			"mx0.big.example", []time.Duration{time.Minute, 2 * time.Second}},
		"one where somebody is held up": {2,
			[]*fakeServer{slow(0, silentAfterMute), slow(time.Second, acceptsAnn)}, "mx2.big.example",
			[]time.Duration{6 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newProviderHosts(".big.example", 600, tt.at...)
			w.hosts["mx.other.big.example"] = &fakeServer{rcpt: acceptsAnn}
			table := strings.Replace(testTable, "connections = 2", fmt.Sprintf("connections = %d", tt.connections), 1)
			withTestNode(t, table, nil, w.hosts, func(b *testNode) {
				var all sync.WaitGroup
				all.Go(func() {
					b.verify(10*time.Minute, b.rows([]string{"mx0.big.example"}, "mute@d0.example")...)
				})
				time.Sleep(time.Second)
				all.Go(func() { b.verify(time.Hour, w.rows(b, ".big.example", 3, 600, 1)...) })
				time.Sleep(4 * time.Second)
				for i, mx := range []string{tt.ask, "mx.other.big.example"}[:len(tt.within)] {
					began := time.Now()
					require.Equal(t, "VALID", verdictText(b.single(time.Minute, []string{mx},
						fmt.Sprintf("annie@single%d.example", i))))
					require.Less(t, time.Since(began), tt.within[i])
				}
				all.Wait()
			})
		})
	}
}

// TestSingleIsLookedUpBeforeAList: the host of a single is looked up before those of a list.
func TestSingleIsLookedUpBeforeAList(t *testing.T) {
	w := newProviderHosts(".big.example", 10_001, &fakeServer{rcpt: acceptsAnn})
	withTestNode(t, strings.Replace(testTable, "connections = 2", "connections = 10", 1), nil, w.hosts,
		func(b *testNode) {
			b.dnsDelay.Store(int64(time.Second / 2))
			var all sync.WaitGroup
			for from := 0; from < 10_000; from += 2500 {
				all.Go(func() { b.verify(time.Hour, w.rows(b, ".big.example", from, from+2500, 1)...) })
			}
			time.Sleep(3 * time.Second)
			began := time.Now()
			require.Equal(t, "VALID", verdictText(b.single(time.Minute, []string{"mx10000.big.example"},
				"annie@single.example")))
			require.Less(t, time.Since(began), 2*time.Second)
			all.Wait()
		})
}

// TestStopDoesNotWaitForLookups: a node that stops does not wait for name servers that say nothing.
func TestStopDoesNotWaitForLookups(t *testing.T) {
	w := newProviderHosts(".big.example", 1000, &fakeServer{rcpt: acceptsAnn})
	withTestNode(t, testTable, nil, w.hosts, func(b *testNode) {
		b.dnsSilent.Store(true)
		var list sync.WaitGroup
		list.Go(func() { b.verify(time.Minute, w.rows(b, ".big.example", 0, 1000, 1)...) })
		time.Sleep(time.Second)
		began := time.Now()
		b.stopProber()
		require.Less(t, time.Since(began), 6*time.Second)
		list.Wait()
	})
}

// TestWaitingHostsSurviveALostConnection: a host that waited for a connection that ends finds another.
func TestWaitingHostsSurviveALostConnection(t *testing.T) {
	for name, h := range map[string]*fakeServer{
		"told to go":    {rcpt: acceptsAnn, maxAnswered: 3, lastReply: "421 4.7.0 enough"},
		"cut off":       {rcpt: acceptsAnn, maxAnswered: 3},
		"one at a time": {rcpt: acceptsAnn, maxAnswered: 2, noPipelining: true},
		"few mails":     {rcpt: acceptsAnn, maxMails: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newProviderHosts(".big.example", 40, h)
			withTestNode(t, testTable, nil, w.hosts, func(b *testNode) {
				rows := w.rows(b, ".big.example", 0, 40, 1)
				requireOwnReplies(t, rows, b.verify(time.Hour, rows...))
			})
		})
	}
}

// TestSilentHostAtASharedAddress: a customer's host that answers no recipient is found out in minutes, though others of
// its address are answered.
func TestSilentHostAtASharedAddress(t *testing.T) {
	w := newProviderHosts(".big.example", 2, &fakeServer{replyDelay: time.Second, noPipelining: true,
		rcpt: func(local string) string {
			if strings.HasPrefix(local, "mute") {
				return "-"
			}
			return acceptsAnn(local)
		}})
	withTestNode(t, testTable, nil, w.hosts, func(b *testNode) {
		var both sync.WaitGroup
		both.Go(func() {
			rows := w.rows(b, ".big.example", 1, 2, 1000)
			requireOwnReplies(t, rows, b.verify(3*time.Hour, rows...))
		})
		time.Sleep(time.Minute)
		var rows []wire.Row
		for k := range 300 {
			rows = append(rows, b.rows([]string{"mx0.big.example"}, fmt.Sprintf("mute%d@d0.example", k))...)
		}
		began := time.Now()
		for _, r := range b.verify(time.Hour, rows...) {
			require.NotEqual(t, engine.Valid, r.Verdict.Status)
			require.NotEqual(t, engine.Invalid, r.Verdict.Status)
		}
		require.Less(t, time.Since(began), 10*time.Minute)
		both.Wait()
	})
}

// TestUnresolvableHostFailsAlone: a host whose name no longer resolves fails at once, though another is answered at its
// old address, and no other host of its provider waits for it.
func TestUnresolvableHostFailsAlone(t *testing.T) {
	w := newProviderHosts(".big.example", 3, &fakeServer{rcpt: acceptsAnn, replyDelay: time.Second, noPipelining: true})
	withTestNode(t, testTable, nil, w.hosts, func(b *testNode) {
		b.shortTTL.Store(true)
		var long sync.WaitGroup
		long.Go(func() {
			rows := w.rows(b, ".big.example", 1, 2, 200)
			requireOwnReplies(t, rows, b.verify(time.Hour, rows...))
		})
		ask := func(i int) map[uint32]wire.Result {
			return b.verify(10*time.Minute, b.rows([]string{fmt.Sprintf("mx%d.big.example", i)},
				fmt.Sprintf("ann%d@d%d.example", b.lastRow.Load(), i))...)
		}
		ask(0)
		b.dnsFails.Store(true)
		time.Sleep(30 * time.Second)
		began := time.Now()
		for _, r := range ask(0) {
			require.Equal(t, engine.Unknown, r.Verdict.Status)
		}
		b.dnsFails.Store(false)
		ask(2)
		require.Less(t, time.Since(began), 2*time.Minute)
		long.Wait()
	})
}

// TestRefusalsAtAnotherHostConfirmNothing: a customer's host that fell silent accepts unknown recipients over a
// connection that goes on to another customer at its address, gets refusals there, and comes back. Those refusals say
// nothing of the host before: none of its acceptances is VALID by them, whatever it had refused itself.
func TestRefusalsAtAnotherHostConfirmNothing(t *testing.T) {
	for name, refusedBefore := range map[string]bool{"it has refused no recipient since it is known": false,
		"it has refused one before": true} {
		t.Run(name, func(t *testing.T) {
			silent := false
			h := &fakeServer{noPipelining: true, replyDelay: 100 * time.Millisecond,
				rcptByDomain: func(local, domain string) string {
					if silent && domain == "d0.example" {
						return acceptedReply
					}
					return acceptsAnn(local)
				}}
			w := newProviderHosts(".big.example", 2, h)
			limits := strings.NewReplacer("connections = 2", "connections = 1", "recipients_per_transaction = 0",
				"recipients_per_transaction = 1", "refusals_per_hour = 0", "refusals_per_hour = 200")
			table := limits.Replace(testTable) + "accepts_silently = true\n"
			withTestNode(t, table, nil, w.hosts, func(b *testNode) {
				known := w.rows(b, ".big.example", 0, 1, 1)
				requireOwnReplies(t, known, b.verify(10*time.Minute, known...))
				if !refusedBefore {
					time.Sleep(time.Minute) // the connection ends, and the host is forgotten
				}
				silent = true
				first := w.rows(b, ".big.example", 0, 1, 60)[2:]
				other := w.rows(b, ".big.example", 1, 2, 4)
				var both sync.WaitGroup
				both.Go(func() {
					for _, r := range b.verify(10*time.Minute, first...) {
						require.NotEqual(t, engine.Valid, r.Verdict.Status, "%v", h.snapshot().log)
					}
				})
				time.Sleep(time.Second)
				accepted := h.count("RCPT")
				require.Greater(t, accepted, 4, "acceptances wait")
				requireOwnReplies(t, other, b.verify(10*time.Minute, other...))
				refused := slices.Index(h.snapshot().log, "RCPT nobody3@d1.example")
				require.Greater(t, refused, accepted)
				both.Wait()
				require.Greater(t, h.count("RCPT"), 30, "the connection comes back: %v", h.snapshot().log)
			})
		})
	}
}

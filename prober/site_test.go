package prober

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/engine/smtp"
	"probity/prober/wire"
)

// tower is where the customers of one provider are found: names of the provider and addresses that they share.
type tower struct {
	hosts map[string]*host
	at    []*host // by address
}

// newTower gives a provider so many customers with names of their own, dealt out over the hosts.
func newTower(suffix string, customers int, at ...*host) tower {
	w := tower{map[string]*host{}, at}
	for i, h := range at {
		h.addr = netip.AddrFrom4([4]byte{10, 2, 2, byte(i + 1)})
	}
	for i := range customers {
		h := at[i%len(at)]
		if i >= len(at) {
			h = &host{addr: h.addr, down: true} // its name alone: who listens at its address is the first of that address
		}
		w.hosts[fmt.Sprintf("mx%d%s", i, suffix)] = h
	}
	return w
}

// rows are those of customers from one number up to another, so many of each: every second of them is known.
func (w tower) rows(b *lab, suffix string, from, to, each int) (rows []wire.Row) {
	for i := from; i < to; i++ {
		for k := range each {
			rows = append(rows, b.rows([]string{fmt.Sprintf("mx%d%s", i, suffix)}, fmt.Sprintf("%s%d@d%d.example", [...]string{"ann", "nobody"}[k%2], k, i))...)
		}
	}
	return rows
}

func (w tower) dialed() (n int) {
	for _, h := range w.at {
		n += len(h.saw().dialed)
	}
	return n
}

// knowsAnn is an rcpt script of a host that has whoever is called ann.
func knowsAnn(local string) string {
	if strings.HasPrefix(local, "ann") {
		return "250 2.1.5 ok"
	}
	return "550 5.1.1 User unknown"
}

// candid requires that each row was settled by what its own host has said of it.
func candid(t *testing.T, rows []wire.Row, got map[uint32]wire.Result) {
	t.Helper()
	for _, row := range rows {
		want := "INVALID mailbox_not_found"
		if strings.HasPrefix(row.Address.Local(), "ann") {
			want = "VALID"
		}
		r := got[row.Number]
		require.Equal(t, wire.Settled, r.Outcome, row.Address.String())
		require.Equal(t, want, spell(r.Verdict), row.Address.String())
		require.Equal(t, row.Route.Hosts[0], r.Verdict.Details.Host)
	}
}

// TestOneConnectionAnAddress: customers of a provider whose hosts are found at one address are asked on one connection, up to
// what it may carry; at each address there is one, and hosts of nobody's provider are not taken for one another.
func TestOneConnectionAnAddress(t *testing.T) {
	for name, tt := range map[string]struct {
		suffix          string
		addresses, each int
		limit           string
		dialed          int
	}{
		"one address":           {".big.example", 1, 2, "", 1},
		"one row each":          {".big.example", 1, 1, "", 1},
		"three addresses":       {".big.example", 3, 2, "", 3},
		"used up":               {".big.example", 1, 1, "recipients_per_connection = 20", 3}, // 30 rows and their decoys
		"of nobody's providers": {".small.example", 1, 1, "", 30},
	} {
		t.Run(name, func(t *testing.T) {
			var at []*host
			for range tt.addresses {
				at = append(at, &host{rcpt: knowsAnn})
			}
			w := newTower(tt.suffix, 30, at...)
			table := strings.NewReplacer("connections = 2", "connections = 10", "recipients_per_connection = 0", tt.limit).Replace(labTable)
			if tt.limit == "" {
				table = strings.Replace(labTable, "connections = 2", "connections = 10", 1)
			}
			inLab(t, table, nil, w.hosts, func(b *lab) {
				var rows []wire.Row
				for i := range 30 { // one after the other: nobody waits with them
					some := w.rows(b, tt.suffix, i, i+1, tt.each)
					candid(t, some, b.verify(10*time.Minute, some...))
					rows = append(rows, some...)
				}
				require.Equal(t, tt.dialed, w.dialed())
				got := b.verify(10*time.Minute, rows...)
				candid(t, rows, got)
				require.Equal(t, tt.dialed, w.dialed(), "the cache knows")
			})
		})
	}
}

// TestManyCustomersAtOnce: a list of a thousand customers at three addresses gets along with the connections of its provider's budget,
// and those carry what they may.
func TestManyCustomersAtOnce(t *testing.T) {
	w := newTower(".big.example", 1000, &host{rcpt: knowsAnn}, &host{rcpt: knowsAnn}, &host{rcpt: knowsAnn})
	inLab(t, labTable, nil, w.hosts, func(b *lab) {
		rows := w.rows(b, ".big.example", 0, 1000, 1)
		candid(t, rows, b.verify(10*time.Minute, rows...))
		require.Less(t, w.dialed(), 60, "2,000 recipients over two connections at one time")
	})
}

// TestLookUpsSlowerThanReplies: a connection that has asked all that is found so far is not closed while hosts are being looked up, though
// customers at another address have none. A connection that waits for look-ups in vain ends with its linger.
func TestLookUpsSlowerThanReplies(t *testing.T) {
	for _, each := range []time.Duration{10 * time.Millisecond, 50 * time.Millisecond, 200 * time.Millisecond} {
		t.Run(each.String(), func(t *testing.T) {
			w := newTower(".big.example", 1000, &host{rcpt: knowsAnn}, &host{rcpt: knowsAnn}, &host{rcpt: knowsAnn})
			inLab(t, labTable, nil, w.hosts, func(b *lab) {
				b.musing.Store(int64(each))
				rows, began := w.rows(b, ".big.example", 0, 1000, 1), time.Now()
				candid(t, rows, b.verify(10*time.Minute, rows...))
				require.Less(t, w.dialed(), 60)
				require.Less(t, time.Since(began), 16*each+time.Second, "1,000 look-ups, 64 at one time, and one linger")
			})
		})
	}
	t.Run("nothing comes of them", func(t *testing.T) {
		w := newTower(".big.example", 3, &host{rcpt: knowsAnn}, &host{rcpt: knowsAnn})
		inLab(t, strings.Replace(labTable, "connections = 2", "connections = 1", 1), nil, w.hosts, func(b *lab) {
			ask := func(i, each int) {
				rows := w.rows(b, ".big.example", i, i+1, each)
				candid(t, rows, b.verify(10*time.Minute, rows...))
			}
			ask(0, 2)
			ask(1, 2)
			b.dumb.Store(true)
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

// TestBudgetOfConnections: however many customers come at one time, the budget of their provider is theirs together.
func TestBudgetOfConnections(t *testing.T) {
	var open, peak atomic.Int64
	slow := func() *host { return &host{rcpt: knowsAnn, slow: 100 * time.Millisecond} }
	w := newTower(".big.example", 300, slow(), slow(), slow(), slow(), slow())
	inLab(t, labTable, func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, local, network, address)
			if err != nil {
				return nil, err
			}
			peak.Store(max(peak.Load(), open.Add(1)))
			return &counted{Conn: conn, open: &open}, nil
		}
	}, w.hosts, func(b *lab) {
		rows := w.rows(b, ".big.example", 0, 300, 2)
		candid(t, rows, b.verify(time.Hour, rows...))
	})
	require.Zero(t, open.Load())
	require.Equal(t, int64(2), peak.Load())
}

type counted struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// TestSmallCustomerBesideALargeOne: whoever has a long list does not keep the connection from the others at its address.
func TestSmallCustomerBesideALargeOne(t *testing.T) {
	w := newTower(".big.example", 2, &host{rcpt: knowsAnn, slow: time.Second})
	table := strings.NewReplacer("connections = 2", "connections = 1", "recipients_per_transaction = 0", "recipients_per_transaction = 10").Replace(labTable)
	inLab(t, table, nil, w.hosts, func(b *lab) {
		large, small := w.rows(b, ".big.example", 0, 1, 2000), w.rows(b, ".big.example", 1, 2, 4)
		var both sync.WaitGroup
		var tookLarge, tookSmall time.Duration
		began := time.Now()
		both.Go(func() {
			candid(t, large, b.verify(time.Hour, large...))
			tookLarge = time.Since(began)
		})
		time.Sleep(time.Second)
		both.Go(func() {
			candid(t, small, b.verify(time.Hour, small...))
			tookSmall = time.Since(began)
		})
		both.Wait()
		require.Less(t, tookSmall, tookLarge/4)
		require.Equal(t, 1, w.dialed())
	})
}

// TestLargeCustomerOnALentConnection: a long list is given as many connections where one was idle at its address as where none was.
func TestLargeCustomerOnALentConnection(t *testing.T) {
	var took [2]time.Duration
	for warm := range took {
		w := newTower(".big.example", 2, &host{rcpt: knowsAnn, slow: time.Second})
		table := strings.NewReplacer("connections = 2", "connections = 10", "recipients_per_transaction = 0", "recipients_per_transaction = 10").Replace(labTable)
		inLab(t, table, nil, w.hosts, func(b *lab) {
			if warm == 1 {
				b.verify(10*time.Minute, w.rows(b, ".big.example", 0, 1, 1)...)
			}
			began := time.Now()
			b.verify(time.Hour, w.rows(b, ".big.example", 1, 2, 2000)...)
			took[warm] = time.Since(began)
			require.Equal(t, 8, w.at[0].saw().peak)
		})
	}
	require.LessOrEqual(t, took[1], took[0])
}

// TestHostThatMoves: a host is asked where DNS has it now, whatever connection there is to where it was, also while its list goes on.
func TestHostThatMoves(t *testing.T) {
	old, other := &host{rcpt: knowsAnn, slow: time.Second, noPipe: true}, &host{rcpt: knowsAnn}
	w := newTower(".big.example", 2, old, other)
	table := strings.NewReplacer("connections = 2", "connections = 1", "recipients_per_transaction = 0", "recipients_per_transaction = 1").Replace(labTable)
	inLab(t, table, nil, w.hosts, func(b *lab) {
		var moved atomic.Bool
		b.moves = func(name string) []netip.Addr {
			if moved.Load() && strings.HasPrefix(name, "mx0.") {
				return []netip.Addr{other.addr}
			}
			return []netip.Addr{old.addr}
		}
		b.fleeting.Store(true)
		var both sync.WaitGroup
		for i := range 2 {
			both.Go(func() {
				var rows []wire.Row
				for k := range 300 {
					rows = append(rows, b.rows([]string{fmt.Sprintf("mx%d.big.example", i)}, fmt.Sprintf("ann%d@d%d.example", k, i))...)
				}
				candid(t, rows, b.verify(time.Hour, rows...))
			})
		}
		time.Sleep(30 * time.Second)
		require.NotZero(t, old.count("RCPT ann")+other.count("RCPT ann"))
		moved.Store(true)
		time.Sleep(2 * siteLife)
		count := func() (n int) {
			old.note(func() {
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

// TestSilentAddress: of a provider's two addresses one says nothing. Whoever is connected to it draws nobody there, and an address
// that answers draws those who may go to either.
func TestSilentAddress(t *testing.T) {
	live, silent := &host{rcpt: knowsAnn, slow: 100 * time.Millisecond}, &host{deaf: true}
	w := newTower(".big.example", 200, live, silent)
	inLab(t, strings.Replace(labTable, "connections = 2", "connections = 10", 1), nil, w.hosts, func(b *lab) {
		b.moves = func(name string) []netip.Addr {
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

// TestAddressThatAdmitsOne: a host that closes every connection but one has not failed while that one is asked on, for whomever.
func TestAddressThatAdmitsOne(t *testing.T) {
	h := &host{rcpt: knowsAnn, slow: 200 * time.Millisecond, admits: 1}
	w := newTower(".big.example", 2, h)
	table := strings.Replace(labTable, "recipients_per_transaction = 0", "recipients_per_transaction = 2", 1)
	inLab(t, table, nil, w.hosts, func(b *lab) {
		var both sync.WaitGroup
		for i := range 2 {
			both.Go(func() {
				rows := w.rows(b, ".big.example", i, i+1, 2000)
				candid(t, rows, b.verify(time.Hour, rows...))
			})
			time.Sleep(50 * time.Millisecond)
		}
		both.Wait()
		require.Less(t, len(h.saw().dialed), 40)
	})
}

// mute is an rcpt script of a host that knows ann, and says no more on a connection on which it was asked about mute.
func mute(local string) string {
	if local == "mute" {
		return "-"
	}
	return knowsAnn(local)
}

// TestNobodyWaitsForWhoIsHeldUp: a connection on which nothing comes for long does not keep the others of its address waiting, also
// where more rows of theirs keep coming.
func TestNobodyWaitsForWhoIsHeldUp(t *testing.T) {
	w := newTower(".big.example", 3, &host{rcpt: mute})
	inLab(t, labTable, nil, w.hosts, func(b *lab) {
		var all sync.WaitGroup
		all.Go(func() { b.verify(10*time.Minute, b.rows([]string{"mx0.big.example"}, "mute@d0.example")...) })
		time.Sleep(time.Second)
		began := time.Now()
		for i := range 3 {
			all.Go(func() {
				rows := b.rows([]string{"mx1.big.example"}, fmt.Sprintf("ann%d@d1.example", i))
				candid(t, rows, b.verify(10*time.Minute, rows...))
				require.Less(t, time.Since(began), siteWait+time.Second)
			})
			time.Sleep(siteWait / 4)
		}
		all.Wait()
	})
}

// TestSinglesAndSharedConnections: a single gets a connection of its own, or one that ends for it, whatever calls at the addresses of
// its provider.
func TestSinglesAndSharedConnections(t *testing.T) {
	slow := func(d time.Duration, rcpt func(string) string) *host { return &host{rcpt: rcpt, slow: d} }
	for name, tt := range map[string]struct {
		connections int
		at          []*host
		ask         string          // of the first of the singles
		within      []time.Duration // of each single
	}{
		"one at an address where nobody is":               {2, []*host{slow(time.Second, knowsAnn), slow(time.Second, knowsAnn)}, "mx.other.big.example", []time.Duration{6 * time.Second}},
		"two, of the connections that jobs leave to them": {5, []*host{slow(5*time.Second, knowsAnn)}, "mx0.big.example", []time.Duration{time.Minute, 2 * time.Second}},
		"one where somebody is held up":                   {2, []*host{slow(0, mute), slow(time.Second, knowsAnn)}, "mx2.big.example", []time.Duration{6 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTower(".big.example", 600, tt.at...)
			w.hosts["mx.other.big.example"] = &host{rcpt: knowsAnn}
			table := strings.Replace(labTable, "connections = 2", fmt.Sprintf("connections = %d", tt.connections), 1)
			inLab(t, table, nil, w.hosts, func(b *lab) {
				var all sync.WaitGroup
				all.Go(func() {
					b.verify(10*time.Minute, b.rows([]string{"mx0.big.example"}, "mute@d0.example")...)
				})
				time.Sleep(time.Second)
				all.Go(func() { b.verify(time.Hour, w.rows(b, ".big.example", 3, 600, 1)...) })
				time.Sleep(4 * time.Second)
				for i, mx := range []string{tt.ask, "mx.other.big.example"}[:len(tt.within)] {
					began := time.Now()
					require.Equal(t, "VALID", spell(b.single(time.Minute, []string{mx}, fmt.Sprintf("annie@single%d.example", i))))
					require.Less(t, time.Since(began), tt.within[i])
				}
				all.Wait()
			})
		})
	}
}

// TestSingleBesideManyLookUps: the host of a single is looked up before those of a list.
func TestSingleBesideManyLookUps(t *testing.T) {
	w := newTower(".big.example", 10_001, &host{rcpt: knowsAnn})
	inLab(t, strings.Replace(labTable, "connections = 2", "connections = 10", 1), nil, w.hosts, func(b *lab) {
		b.musing.Store(int64(time.Second / 2))
		var all sync.WaitGroup
		for from := 0; from < 10_000; from += 2500 {
			all.Go(func() { b.verify(time.Hour, w.rows(b, ".big.example", from, from+2500, 1)...) })
		}
		time.Sleep(3 * time.Second)
		began := time.Now()
		require.Equal(t, "VALID", spell(b.single(time.Minute, []string{"mx10000.big.example"}, "annie@single.example")))
		require.Less(t, time.Since(began), 2*time.Second)
		all.Wait()
	})
}

// TestStopAmongLookUps: a node that stops does not wait for name servers that say nothing.
func TestStopAmongLookUps(t *testing.T) {
	w := newTower(".big.example", 1000, &host{rcpt: knowsAnn})
	inLab(t, labTable, nil, w.hosts, func(b *lab) {
		b.dumb.Store(true)
		var list sync.WaitGroup
		list.Go(func() { b.verify(time.Minute, w.rows(b, ".big.example", 0, 1000, 1)...) })
		time.Sleep(time.Second)
		began := time.Now()
		b.halt()
		require.Less(t, time.Since(began), 6*time.Second)
		list.Wait()
	})
}

// TestCallersSurviveALostConnection: who waited for a connection that ends finds another.
func TestCallersSurviveALostConnection(t *testing.T) {
	for name, h := range map[string]*host{
		"told to go":    {rcpt: knowsAnn, most: 3, last: "421 4.7.0 enough"},
		"cut off":       {rcpt: knowsAnn, most: 3},
		"one at a time": {rcpt: knowsAnn, most: 2, noPipe: true},
		"few mails":     {rcpt: knowsAnn, mails: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTower(".big.example", 40, h)
			inLab(t, labTable, nil, w.hosts, func(b *lab) {
				rows := w.rows(b, ".big.example", 0, 40, 1)
				candid(t, rows, b.verify(time.Hour, rows...))
			})
		})
	}
}

// TestSiteIsForgotten: what calls at an address that it has left, or is forgotten, calls there no more.
func TestSiteIsForgotten(t *testing.T) {
	w := newTower(".big.example", 1, &host{rcpt: knowsAnn})
	inLab(t, labTable, nil, w.hosts, func(b *lab) {
		l := b.prober.laneOf(b.route("mx0.big.example"), b.prober.egress.list[0], time.Now())
		l.mu.Lock()
		defer l.mu.Unlock()
		here, there := netip.MustParseAddr("10.2.2.1"), netip.MustParseAddr("10.2.2.2")
		var groups []*group
		for i := range 10 {
			g := &group{key: fmt.Sprint(i), at: here, found: time.Now()}
			set(&l.groups, g.key, g)
			l.call(g, bulk)
			l.call(g, bulk)
			l.call(g, single)
			groups = append(groups, g)
		}
		require.Equal(t, 20, l.sites[here].waiting)
		l.settleAt(groups[0], there)
		require.Equal(t, 18, l.sites[here].waiting)
		l.call(groups[0], bulk)
		require.Equal(t, 1, l.sites[there].waiting)
		for _, g := range groups {
			l.tidyGroup(g)
		}
		require.Empty(t, l.groups)
		require.Empty(t, l.sites)
	})
}

// TestConnectionsLeftToSingles: a connection that jobs could not have opened goes on to singles, and to jobs when others have ended.
func TestConnectionsLeftToSingles(t *testing.T) {
	w := newTower(".big.example", 1, &host{rcpt: knowsAnn})
	inLab(t, strings.Replace(labTable, "connections = 2", "connections = 10", 1), nil, w.hosts, func(b *lab) {
		now, at := time.Now(), netip.MustParseAddr("10.2.2.1")
		l := b.prober.laneOf(b.route("mx0.big.example"), b.prober.egress.list[0], now)
		l.mu.Lock()
		defer l.mu.Unlock()
		waits := func(key string, who priority) *group {
			g := &group{key: key, at: at, found: now}
			g.queued[who] = 1
			set(&l.groups, key, g)
			l.call(g, who)
			return g
		}
		free := l.pace.connections(bulk, now)
		require.Less(t, free, 10)
		opened := map[priority]*session{}
		for _, who := range [...]priority{single, bulk} {
			opened[who] = newSession(l, &group{}, who)
			opened[who].site = l.siteAt(at)
		}
		l.pace.open = free + 1
		defer func() { l.pace.open = 0 }()
		job := waits("a job's", bulk)
		require.Nil(t, l.next(opened[single], now))
		one := waits("a single's", single)
		require.Equal(t, one, l.next(opened[single], now))
		require.Equal(t, job, l.next(opened[bulk], now))
		job = waits("another job's", bulk)
		l.pace.open = free
		require.Equal(t, job, l.next(opened[single], now))
		clear(l.groups)
		clear(l.sites)
	})
}

// TestSilentCustomer: a customer's host that answers no recipient is found out in minutes, though others of its address are answered.
func TestSilentCustomer(t *testing.T) {
	w := newTower(".big.example", 2, &host{slow: time.Second, noPipe: true, rcpt: func(local string) string {
		if strings.HasPrefix(local, "mute") {
			return "-"
		}
		return knowsAnn(local)
	}})
	inLab(t, labTable, nil, w.hosts, func(b *lab) {
		var both sync.WaitGroup
		both.Go(func() {
			rows := w.rows(b, ".big.example", 1, 2, 1000)
			candid(t, rows, b.verify(3*time.Hour, rows...))
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

// TestHostThatCannotBeFound: a host whose name is lost is told so at once, though somebody is answered where it was, and nobody else of
// its provider waits for it.
func TestHostThatCannotBeFound(t *testing.T) {
	w := newTower(".big.example", 3, &host{rcpt: knowsAnn, slow: time.Second, noPipe: true})
	inLab(t, labTable, nil, w.hosts, func(b *lab) {
		b.fleeting.Store(true)
		var long sync.WaitGroup
		long.Go(func() {
			rows := w.rows(b, ".big.example", 1, 2, 200)
			candid(t, rows, b.verify(time.Hour, rows...))
		})
		ask := func(i int) map[uint32]wire.Result {
			return b.verify(10*time.Minute, b.rows([]string{fmt.Sprintf("mx%d.big.example", i)}, fmt.Sprintf("ann%d@d%d.example", b.row.Load(), i))...)
		}
		ask(0)
		b.nameless.Store(true)
		time.Sleep(30 * time.Second)
		began := time.Now()
		for _, r := range ask(0) {
			require.Equal(t, engine.Unknown, r.Verdict.Status)
		}
		b.nameless.Store(false)
		ask(2)
		require.Less(t, time.Since(began), 2*time.Minute)
		long.Wait()
	})
}

// TestOutdatedCustomer: nobody is lent a connection to where its host was long ago, nor taken there.
func TestOutdatedCustomer(t *testing.T) {
	w := newTower(".big.example", 1, &host{rcpt: knowsAnn})
	inLab(t, labTable, nil, w.hosts, func(b *lab) {
		now, at := time.Now(), netip.MustParseAddr("10.2.2.9")
		l := b.prober.laneOf(b.route("mx0.big.example"), b.prober.egress.list[0], now)
		l.mu.Lock()
		defer l.mu.Unlock()
		s := newSession(l, &group{key: "here"}, bulk)
		l.arrive(s, at)
		s.group.idle, s.site.idle, l.idlers = []*session{s}, []*session{s}, 1
		g := &group{key: "g", host: "mx0.big.example", at: at, found: now.Add(-siteLife), places: 1}
		g.queued[bulk] = 1
		set(&l.groups, "g", g)
		l.call(g, bulk)
		require.False(t, l.lend(g, bulk, now))
		require.Nil(t, l.next(s, now))
		require.True(t, g.finding, "it is looked up")
		g = &group{key: "fresh", host: "mx0.big.example", at: at, found: now, places: 1}
		g.queued[bulk] = 1
		set(&l.groups, "fresh", g)
		l.call(g, bulk)
		require.Equal(t, g, s.group, "it was lent at once")
		require.Zero(t, l.idlers)
		clear(l.groups)
		clear(l.sites)
	})
}

// TestWhoHasFailed: that others are answered at an address speaks for a host there whose connection fails, not for one that answers no
// recipient, nor for one that cannot be found.
func TestWhoHasFailed(t *testing.T) {
	const name = "mx0.big.example"
	for what, tt := range map[string]struct {
		dialled bool
		fail    func(h *hearing)
		down    bool
	}{
		"connection refused": {true, (*hearing).refusedConnection, false},
		"name not found":     {false, (*hearing).refusedConnection, true},
		"silence":            {true, (*hearing).threeSilences, true},
	} {
		t.Run(what, func(t *testing.T) {
			w := newTower(".big.example", 1, &host{rcpt: knowsAnn})
			inLab(t, labTable, nil, w.hosts, func(b *lab) {
				now := time.Now()
				l := b.prober.laneOf(b.route(name), b.prober.egress.list[0], now)
				l.mu.Lock()
				defer l.mu.Unlock()
				s := newSession(l, &group{key: name, host: name}, bulk)
				l.arrive(s, netip.MustParseAddr("10.2.2.9"))
				s.site.healthy, s.dialled = 1, tt.dialled
				tt.fail(&hearing{s: s, l: l, o: &smtp.Outcome{}, now: now})
				_, down := l.down[name]
				require.Equal(t, tt.down, down)
				require.Equal(t, tt.down, l.noConnect.IsZero())
				clear(l.sites)
			})
		})
	}
}

func (h *hearing) refusedConnection() {
	f := smtp.Fault{Event: engine.EventTimeout}
	h.l.failed(h.s, f, engine.Sighting{Event: f.Event, Host: h.s.group.host, At: h.now}, h.now, nil)
}

func (h *hearing) threeSilences() {
	for range maxMute {
		h.mute()
	}
}

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

	"probity/prober/wire"
	"probity/prober/wire/timing"
)

// halfOpen is a connection whose path can fail: nothing passes any more, and neither side notices. The host sees it end
// when our side closes it, as if a relay on the way reported that.
type halfOpen struct {
	net.Conn
	dead *atomic.Bool
}

func (c halfOpen) Read(b []byte) (int, error) {
	for {
		if n, err := c.Conn.Read(b); err != nil || !c.dead.Load() {
			return n, err
		}
	}
}

func (c halfOpen) Write(b []byte) (int, error) {
	if c.dead.Load() {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

// breakablePaths lets the path of every connection fail once dead is set.
func breakablePaths(dead *atomic.Bool) func(*Config) {
	return func(c *Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
			conn, err := dial(ctx, local, network, address)
			if err != nil {
				return nil, err
			}
			return halfOpen{conn, dead}, nil
		}
	}
}

// startBatch starts a batch that runs until cancel.
func (b *testNode) startBatch(rows ...wire.Row) (cancel context.CancelFunc, got <-chan map[uint32]wire.Result) {
	ctx, cancel := context.WithCancel(context.Background())
	results := make(chan map[uint32]wire.Result, 1)
	go func() {
		all := map[uint32]wire.Result{}
		err := b.prober.Verify(ctx, &wire.Batch{Job: "j", Rows: rows, MaxAge: time.Hour, Started: time.Now()},
			time.Hour, func(r wire.Results) {
				for _, x := range r.Rows {
					all[x.Row] = x
				}
			})
		if err != nil {
			b.t.Error(err)
		}
		results <- all
	}()
	return cancel, results
}

// TestHalfOpenConnectionEndsWithinHandOver: a source that loses a narrow route has closed its connections before
// another source may ask, even if a reply never comes, at any stage of the dialogue. The receiver never has connections
// of both.
func TestHalfOpenConnectionEndsWithinHandOver(t *testing.T) {
	// each batch of replies: the banner comes at 2 s, EHLO's at 4 s, those of the transaction at 6 s
	const slow = 2 * time.Second
	for name, lose := range map[string]func(b *testNode, cancelBatch context.CancelFunc){
		"the lease is lost": func(b *testNode,
			cancelBatch context.CancelFunc) {
			cancelBatch()
			b.prober.SetIsolated(true)
		},
		"the route goes to another": func(_ *testNode, cancelBatch context.CancelFunc) { cancelBatch() },
	} {
		for stage, after := range map[string]time.Duration{"banner": time.Second, "EHLO": 3 * time.Second,
			"RCPT": 5 * time.Second} {
			t.Run(name+", "+stage, func(t *testing.T) {
				mx := &fakeServer{rcpt: acceptsOnly("ann"), replyDelay: slow}
				var dead atomic.Bool
				withTestNode(t, testTable, breakablePaths(&dead), map[string]*fakeServer{"mx.site.example": mx},
					func(b *testNode) {
						row := b.rows([]string{"mx.site.example"}, "ann@site.example")
						cancelBatch, got := b.startBatch(row...)
						time.Sleep(after)
						dead.Store(true)
						lose(b, cancelBatch)
						require.Equal(t, wire.Returned, (<-got)[row[0].Number].Outcome)
						require.Equal(t, 1, mx.snapshot().open)
						time.Sleep(timing.CloseTimeout)
						time.Sleep(slow) // the host is in the middle of a batch
						require.Zero(t, mx.snapshot().open)
						require.Zero(t, b.prober.env.Slots.InUse())
						time.Sleep(time.Hour)
						require.Len(t, mx.snapshot().dialTimes, 1, "nothing is asked of whose rows went home")
						require.Zero(t, b.prober.rows.Load())
					})
			})
		}
	}
}

// TestResetConnectionSaysNothingAboutTheHost: a connection that we reset says nothing about the host; rows sent again
// are answered.
func TestResetConnectionSaysNothingAboutTheHost(t *testing.T) {
	mx := &fakeServer{rcpt: acceptsOnly("ann")}
	var dead atomic.Bool
	withTestNode(t, testTable, breakablePaths(&dead), map[string]*fakeServer{"mx.site.example": mx}, func(b *testNode) {
		b.verify(time.Minute, b.rows([]string{"mx.site.example"}, "eve@site.example")...)
		dead.Store(true)
		row := b.rows([]string{"mx.site.example"}, "ann@site.example")
		cancelBatch, got := b.startBatch(row...)
		time.Sleep(time.Second)
		cancelBatch()
		<-got
		time.Sleep(timing.CloseTimeout + time.Second)
		dead.Store(false)
		began := time.Now()
		require.Equal(t, "VALID", verdictText(b.verify(time.Minute, row...)[row[0].Number].Verdict))
		require.Less(t, time.Since(began), time.Second)
	})
}

// TestRowsSentAgainFindTheirReply: rows that are cancelled with others and sent again get the reply that they waited
// for.
func TestRowsSentAgainFindTheirReply(t *testing.T) {
	mx := &fakeServer{replyDelay: 12 * time.Second, rcpt: acceptsOnly()}
	withTestNode(t, testTable, nil, map[string]*fakeServer{"mx.site.example": mx}, func(b *testNode) {
		row := b.rows([]string{"mx.site.example"}, "ann@site.example")
		cancelBatch, got := b.startBatch(row...)
		time.Sleep(25 * time.Second) // the recipient is sent, its reply comes at 36 s
		cancelBatch()
		<-got
		time.Sleep(time.Second)
		require.Equal(t, "INVALID mailbox_not_found", verdictText(b.verify(time.Minute, row...)[row[0].Number].Verdict))
		require.Equal(t, 1, mx.count("RCPT"))
		require.Len(t, mx.snapshot().dialTimes, 1)
	})
}

// TestWideRoutesReadRepliesToTheEnd: a wide provider has a budget for each source, so no connection is reset.
func TestWideRoutesReadRepliesToTheEnd(t *testing.T) {
	mx := &fakeServer{replyDelay: 12 * time.Second, rcpt: acceptsOnly()}
	wide := strings.Replace(testTable, "name = \"Big\"", "name = \"Big\"\nwide = true", 1)
	withTestNode(t, wide, nil, map[string]*fakeServer{"mx.big.example": mx}, func(b *testNode) {
		row := b.rows([]string{"mx.big.example"}, "ann@big.example")
		cancelBatch, got := b.startBatch(row...)
		time.Sleep(25 * time.Second)
		cancelBatch()
		<-got
		time.Sleep(time.Minute)
		require.Equal(t, 1, mx.count("RCPT"))
		require.Equal(t, "INVALID mailbox_not_found", verdictText(b.verify(time.Minute, row...)[row[0].Number].Verdict))
		require.Equal(t, 1, mx.count("RCPT"), "the cache has it")
	})
}

// TestMovedKeyIsLeftWithinHandOver: rows of a narrow key were returned while their decoy waited for a budget, and
// then the key gets another owner. The former one asks nothing more of it, whatever its kind.
func TestMovedKeyIsLeftWithinHandOver(t *testing.T) {
	slow := strings.Replace(testTable, "recipients_per_minute = 0", "recipients_per_minute = 1", 1)
	tenants := strings.Replace(slow, "name = \"Big\"", "name = \"Big\"\ntenants = true", 1)
	for table, home := range map[string]string{slow: "mx.site.example", tenants: "mx.big.example"} {
		t.Run(home, func(t *testing.T) {
			mx := &fakeServer{rcpt: acceptsOnly("ann")}
			withTestNode(t, table, nil, map[string]*fakeServer{home: mx}, func(b *testNode) {
				row := b.rows([]string{home}, "ann@site.example")
				require.Equal(t, wire.Returned, b.verify(20*time.Second, row...)[row[0].Number].Outcome)
				require.Equal(t, 1, mx.count("RCPT"), "the decoy waits for the minute's budget")
				b.prober.KeysMoved()
				time.Sleep(time.Hour)
				require.Equal(t, 1, mx.count("RCPT"))
				require.Zero(t, b.prober.rows.Load())
			})
		})
	}
}

// tenantsTable has one connection to a provider with tenants.
var tenantsTable = strings.NewReplacer("name = \"Big\"", "name = \"Big\"\ntenants = true", "connections = 2",
	"connections = 1").Replace(testTable)

// connectionLog records the domains of the recipients of each connection to a host, and which of them are open.
type connectionLog struct {
	mu      sync.Mutex // guards what follows
	domains []map[string]bool
}

// script is fakeServer.connection of a host that accepts every recipient called ann.
func (l *connectionLog) script() rcptScript {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.domains)
	l.domains = append(l.domains, map[string]bool{})
	return func(local, domain string) string {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.domains[n][domain] = true
		return acceptsAnn(local)
	}
}

// connectionsOf returns the numbers of the connections on which a recipient of a domain was sent.
func (l *connectionLog) connectionsOf(domain string) (numbers []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for n, domains := range l.domains {
		if domains[domain] {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// TestSharedConnectionEndsWithinHandOver: a connection that has asked for a tenant which moved is closed before another
// source may ask, although other tenants have rows for it.
func TestSharedConnectionEndsWithinHandOver(t *testing.T) {
	var l connectionLog
	mx := &fakeServer{connection: l.script, replyDelay: time.Second}
	withTestNode(t, tenantsTable, nil, map[string]*fakeServer{"mx.big.example": mx}, func(b *testNode) {
		home := []string{"mx.big.example"}
		b.verify(time.Minute, b.rows(home, "ann@moved.example")...)
		var addresses []string
		for i := range 2000 {
			addresses = append(addresses, fmt.Sprintf("ann%d@stays%d.example", i, i))
		}
		_, got := b.startBatch(b.rows(home, addresses...)...)
		time.Sleep(5 * time.Second)
		require.Equal(t, []int{0}, l.connectionsOf("moved.example"))
		require.Len(t, mx.snapshot().dialTimes, 1, "the rows of other tenants share its connection")
		b.prober.KeysMoved()
		time.Sleep(timing.CloseTimeout + time.Second)
		require.Greater(t, len(mx.snapshot().dialTimes), 1, "the rows go on on another connection")
		require.Equal(t, 1, mx.snapshot().peak, "which comes after the first has ended")
		for _, r := range <-got {
			require.Equal(t, wire.Settled, r.Outcome)
		}
		require.Equal(t, []int{0}, l.connectionsOf("moved.example"))
	})
}

// TestMovedTenantIsLeftByAMixedTransaction: a transaction asks for a tenant that moved and for another, and its replies
// do not come within the hand-over. The connection is reset, and only the other tenant is asked again.
func TestMovedTenantIsLeftByAMixedTransaction(t *testing.T) {
	var l connectionLog
	mx := &fakeServer{connection: l.script, replyDelay: 4 * time.Second}
	var dead atomic.Bool
	withTestNode(t, tenantsTable, breakablePaths(&dead), map[string]*fakeServer{"mx.big.example": mx},
		func(b *testNode) {
			home := []string{"mx.big.example"}
			_, first := b.startBatch(b.rows(home, "ann@first.example")...)
			time.Sleep(9 * time.Second) // banner and EHLO have come: its recipient is sent
			moved := b.rows(home, "ann@moved.example")
			cancel, returned := b.startBatch(moved...)
			stays := b.rows(home, "ann@stays.example")
			_, got := b.startBatch(stays...)
			<-first
			time.Sleep(time.Second)
			dead.Store(true)
			cancel()
			b.prober.KeysMoved()
			require.Equal(t, wire.Returned, (<-returned)[moved[0].Number].Outcome)
			time.Sleep(timing.CloseTimeout + time.Second)
			dead.Store(false)
			require.Len(t, mx.snapshot().dialTimes, 2,
				"the connection is reset, and the other tenant asked on a new one")
			require.Equal(t, "VALID", verdictText((<-got)[stays[0].Number].Verdict))
			time.Sleep(time.Hour)
			require.Equal(t, []int{0}, l.connectionsOf("moved.example"))
			require.Equal(t, []int{0, 1}, l.connectionsOf("stays.example"))
		})
}

package prober

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/prober/wire"
	"probity/prober/wire/timing"
)

// halfOpen is a connection whose path can fail: nothing passes any more, and neither side notices. The host sees it end when our
// side closes it, as if a relay on the way reported that.
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
		err := b.prober.Verify(ctx, &wire.Batch{Job: "j", Rows: rows, MaxAge: time.Hour, Started: time.Now()}, time.Hour, func(r wire.Results) {
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

// TestHalfOpenConnectionEndsWithinHandOver: a source that loses a narrow route has closed its connections before another source
// may ask, even if a reply never comes, at any stage of the dialogue. The receiver never has connections of both.
func TestHalfOpenConnectionEndsWithinHandOver(t *testing.T) {
	const slow = 2 * time.Second // each batch of replies: the banner comes at 2 s, EHLO's at 4 s, those of the transaction at 6 s
	for name, lose := range map[string]func(b *testNode, cancelBatch context.CancelFunc){
		"the lease is lost":         func(b *testNode, cancelBatch context.CancelFunc) { cancelBatch(); b.prober.SetIsolated(true) },
		"the route goes to another": func(b *testNode, cancelBatch context.CancelFunc) { cancelBatch() },
	} {
		for stage, after := range map[string]time.Duration{"banner": time.Second, "EHLO": 3 * time.Second, "RCPT": 5 * time.Second} {
			t.Run(name+", "+stage, func(t *testing.T) {
				mx := &fakeServer{rcpt: acceptsOnly("ann"), replyDelay: slow}
				var dead atomic.Bool
				withTestNode(t, testTable, breakablePaths(&dead), map[string]*fakeServer{"mx.site.example": mx}, func(b *testNode) {
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

// TestResetConnectionSaysNothingAboutTheHost: a connection that we reset says nothing about the host; rows sent again are answered.
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

// TestRowsSentAgainFindTheirReply: rows that are cancelled with others and sent again get the reply that they waited for.
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

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

// halfOpen is a connection whose path can fail: nothing passes any more, and neither side is told. The host sees it end when our side
// closes it, as a relay on the way would tell it.
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

// breakable lets the path of every connection fail once dead is set.
func breakable(dead *atomic.Bool) func(*Config) {
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

// begin hands a batch over until it is called home by cancel.
func (b *lab) begin(rows ...wire.Row) (cancel context.CancelFunc, got <-chan map[uint32]wire.Result) {
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

// TestHalfOpenConnectionEndsWithinHandOver: who loses a narrow route has hung up when another source may ask, even where a reply
// never comes, at whatever stage of the dialogue; so the receiver never has the connections of both.
func TestHalfOpenConnectionEndsWithinHandOver(t *testing.T) {
	const slow = 2 * time.Second // each batch of replies: the banner comes at 2 s, EHLO's at 4 s, those of the group at 6 s
	for name, lose := range map[string]func(b *lab, callHome context.CancelFunc){
		"the lease is lost":         func(b *lab, callHome context.CancelFunc) { callHome(); b.prober.SetAlone(true) },
		"the route goes to another": func(b *lab, callHome context.CancelFunc) { callHome() },
	} {
		for stage, after := range map[string]time.Duration{"banner": time.Second, "EHLO": 3 * time.Second, "RCPT": 5 * time.Second} {
			t.Run(name+", "+stage, func(t *testing.T) {
				mx := &host{rcpt: knows("ann"), slow: slow}
				var dead atomic.Bool
				inLab(t, labTable, breakable(&dead), map[string]*host{"mx.site.example": mx}, func(b *lab) {
					row := b.rows([]string{"mx.site.example"}, "ann@site.example")
					callHome, got := b.begin(row...)
					time.Sleep(after)
					dead.Store(true)
					lose(b, callHome)
					require.Equal(t, wire.Later, (<-got)[row[0].Number].Outcome)
					require.Equal(t, 1, mx.saw().open)
					time.Sleep(timing.HangUp)
					time.Sleep(slow) // the host is in the middle of a batch
					require.Zero(t, mx.saw().open)
					require.Zero(t, b.prober.slots.inUse())
					time.Sleep(time.Hour)
					require.Len(t, mx.saw().dialed, 1, "nothing is asked of whose rows went home")
					require.Zero(t, b.prober.rows.Load())
				})
			})
		}
	}
}

// TestHalfOpenConnectionProvesNothing: that we hung up says nothing of the host, and who asks again is answered.
func TestHalfOpenConnectionProvesNothing(t *testing.T) {
	mx := &host{rcpt: knows("ann")}
	var dead atomic.Bool
	inLab(t, labTable, breakable(&dead), map[string]*host{"mx.site.example": mx}, func(b *lab) {
		b.verify(time.Minute, b.rows([]string{"mx.site.example"}, "eve@site.example")...)
		dead.Store(true)
		row := b.rows([]string{"mx.site.example"}, "ann@site.example")
		callHome, got := b.begin(row...)
		time.Sleep(time.Second)
		callHome()
		<-got
		time.Sleep(timing.HangUp + time.Second)
		dead.Store(false)
		began := time.Now()
		require.Equal(t, "VALID", spell(b.verify(time.Minute, row...)[row[0].Number].Verdict))
		require.Less(t, time.Since(began), time.Second)
	})
}

// TestRowsThatComeBackKeepTheirConnection: rows that are called home with others' and sent again find the reply that they waited for.
func TestRowsThatComeBackKeepTheirConnection(t *testing.T) {
	mx := &host{slow: 12 * time.Second, rcpt: knows()}
	inLab(t, labTable, nil, map[string]*host{"mx.site.example": mx}, func(b *lab) {
		row := b.rows([]string{"mx.site.example"}, "ann@site.example")
		callHome, got := b.begin(row...)
		time.Sleep(25 * time.Second) // the recipient is named, its reply comes at 36 s
		callHome()
		<-got
		time.Sleep(time.Second)
		require.Equal(t, "INVALID mailbox_not_found", spell(b.verify(time.Minute, row...)[row[0].Number].Verdict))
		require.Equal(t, 1, mx.count("RCPT"))
		require.Len(t, mx.saw().dialed, 1)
	})
}

// TestWideRoutesAreHeardToTheEnd: a wide provider has a budget for each source, and so nothing to hand over.
func TestWideRoutesAreHeardToTheEnd(t *testing.T) {
	mx := &host{slow: 12 * time.Second, rcpt: knows()}
	wide := strings.Replace(labTable, "name = \"Big\"", "name = \"Big\"\nwide = true", 1)
	inLab(t, wide, nil, map[string]*host{"mx.big.example": mx}, func(b *lab) {
		row := b.rows([]string{"mx.big.example"}, "ann@big.example")
		callHome, got := b.begin(row...)
		time.Sleep(25 * time.Second)
		callHome()
		<-got
		time.Sleep(time.Minute)
		require.Equal(t, 1, mx.count("RCPT"))
		require.Equal(t, "INVALID mailbox_not_found", spell(b.verify(time.Minute, row...)[row[0].Number].Verdict))
		require.Equal(t, 1, mx.count("RCPT"), "the cache has it")
	})
}

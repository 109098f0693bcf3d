package prober

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/engine/smtp"
	"probity/internal/detector"
	"probity/prober/wire"
	"probity/store/cache"
)

// TestBudgetHoldsWhenKilledEachMinute kills a node each minute for two hours; what was not synced is lost each time. No
// hour has more refusals than the budget, however many recipients the receiver refuses, and the node still makes
// progress.
func TestBudgetHoldsWhenKilledEachMinute(t *testing.T) {
	detector.SpareByDay(t)
	for _, c := range []struct {
		budget  int
		refused string // last digits of refused recipients
	}{{20, "12345678"}, {200, "12345678"}, {200, "7"}} {
		t.Run(fmt.Sprint(c.budget, c.refused), func(t *testing.T) {
			table := tableWith("refusals_per_hour = 0", fmt.Sprintf("refusals_per_hour = %d", c.budget),
				"recipients_per_transaction = 0", "recipients_per_transaction = 10")
			synctest.Test(t, func(t *testing.T) { killEachMinute(t, table, c.budget, c.refused) })
		})
	}
}

func killEachMinute(t *testing.T, table string, budget int, refused string) {
	h := &fakeServer{rcpt: func(local string) string {
		if strings.Contains(refused, local[len(local)-1:]) {
			return "550 5.1.1 User unknown"
		}
		return "250 2.1.5 ok"
	}}
	b := newTestNode(t, table, map[string]*fakeServer{"mx.a.example": h})
	require.NoError(t, b.cache.Close())
	disk, used := vfs.NewCrashableMem(), 0
	for minute := range 120 {
		var err error
		b.cache, err = cache.Open(cache.Config{FS: disk, Dir: "cache", FilterBytes: 1 << 16})
		require.NoError(t, err)
		var dead atomic.Bool
		b.start(func(c *Config) { c.Dial = killable(c.Dial, &dead) })
		var addrs []string
		for i := range 100 {
			addrs = append(addrs, fmt.Sprintf("u%d.%d@d%d.example", minute, i, i%7))
		}
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		rows := b.rows(mxA, addrs...)
		go func() {
			defer close(ended)
			require.NoError(t, b.prober.Verify(ctx, &wire.Batch{Job: "j", Rows: rows, Started: time.Now()}, time.Hour,
				func(wire.Results) {}))
		}()
		time.Sleep(time.Minute)
		dead.Store(true)
		disk = disk.CrashClone(vfs.CrashCloneCfg{}) // what the old one does from now on is lost and not sent
		cancel()
		<-ended
		b.stop()
		require.NoError(t, b.cache.Close())
		if minute == 59 {
			used = len(h.snapshot().refusalTimes)
		}
	}
	t.Logf("%d refusals in the first hour, %d in both, of %d recipients", used, len(h.snapshot().refusalTimes),
		len(h.snapshot().rcptTimes))
	require.LessOrEqual(t, mostInSpan(h.snapshot().refusalTimes, time.Hour), budget)
	require.Greater(t, len(h.snapshot().refusalTimes), budget/2)
}

// killable dials connections that send nothing any more once their prober was killed.
func killable(dial smtp.DialFunc, dead *atomic.Bool) smtp.DialFunc {
	return func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
		if dead.Load() {
			return nil, net.ErrClosed
		}
		c, err := dial(ctx, local, network, address)
		return killableConn{c, dead}, err
	}
}

type killableConn struct {
	net.Conn
	dead *atomic.Bool
}

func (c killableConn) Write(b []byte) (int, error) {
	if c.dead.Load() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

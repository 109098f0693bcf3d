package prober

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine/smtp"
	"probity/prober/source"
	"probity/prober/wire"
)

// TestDNSRebindingReachesNoPrivateHost: a name that resolves to a public mail server at one time and to a private host
// at another is dialled only while its address is public.
func TestDNSRebindingReachesNoPrivateHost(t *testing.T) {
	public := netip.MustParseAddr("9.9.9.9")
	for _, privateAddr := range []string{"127.0.0.1", "10.0.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200",
		"0.0.0.0"} {
		synctest.Test(t, func(t *testing.T) {
			b := newTestNode(t, testTable, map[string]*fakeServer{"mx.a.example": {addr: public}})
			turn := 0
			b.resolve = func(string) []netip.Addr {
				turn++
				if turn%2 == 1 {
					return []netip.Addr{netip.MustParseAddr(privateAddr)}
				}
				return []netip.Addr{public}
			}
			var mu sync.Mutex
			dialled := map[string]int{}
			b.start(func(c *Config) {
				c.AllowPrivate, c.SkipWarmUp = false, true
				c.Sources = []source.Identity{{Local: netip.MustParseAddr("9.9.9.1"), EHLO: "mail.us.example"}}
				dial := c.Dial
				c.Dial = func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
					mu.Lock()
					dialled[address]++
					mu.Unlock()
					return dial(ctx, local, network, address)
				}
			})
			for i := range 6 {
				b.verify(time.Minute, b.rows(mxA, fmt.Sprintf("ann%d@a.example", i))...)
				time.Sleep(10 * time.Minute) // longer than the resolver caches
			}
			b.stop()
			require.NoError(t, b.cache.Close())
			require.NotEmpty(t, dialled, "the address of the internet was never used")
			for address := range dialled {
				at := netip.MustParseAddrPort(address)
				require.Equal(t, smtp.Public, smtp.ClassOf(at.Addr()), "%s was dialled", address)
			}
		})
	}
}

// TestDictionaryAttackIsBounded: two customers guess mailboxes of one domain through us. Its server sees the refusals
// of one hourly budget, not of two, and no more connections than one source may have; rows of other domains are
// answered at once.
func TestDictionaryAttackIsBounded(t *testing.T) {
	const perHour, connections = 20, 2 // of an unknown receiver
	victim := &fakeServer{rcpt: acceptsOnly("ann")}
	synctest.Test(t, func(t *testing.T) {
		b := newTestNode(t, "", map[string]*fakeServer{"mx.a.example": victim,
			"mx.b.example": {rcpt: acceptsOnly("bob")}})
		b.start(nil)
		defer func() {
			b.stop()
			require.NoError(t, b.cache.Close())
		}()
		began := time.Now()
		var tenants sync.WaitGroup
		for tenant := range 2 {
			var guesses []string
			for n := range 500 {
				guesses = append(guesses, fmt.Sprintf("guess%d.%d@a.example", tenant, n))
			}
			rows := b.rows(mxA, guesses...)
			tenants.Go(func() {
				for time.Since(began) < 3*time.Hour {
					rows = b.unsettledAfter(rows, time.Minute)
					time.Sleep(time.Minute)
				}
			})
		}
		time.Sleep(10 * time.Minute)
		asked := time.Now()
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, []string{"mx.b.example"}, "bob@b.example")))
		require.Less(t, time.Since(asked), 10*time.Second, "a neighbour waits for the attack")
		tenants.Wait()
		require.NotEmpty(t, victim.snapshot().refusalTimes)
		require.LessOrEqual(t, maxInSpan(victim.snapshot().refusalTimes, time.Hour), perHour)
		require.LessOrEqual(t, victim.snapshot().peak, connections)
	})
}

// unsettledAfter verifies rows and returns those that are returned unanswered.
func (b *testNode) unsettledAfter(rows []wire.Row, hold time.Duration) (rest []wire.Row) {
	if len(rows) == 0 {
		return nil
	}
	got := b.verify(hold, rows...)
	for _, r := range rows {
		if got[r.Number].Outcome != wire.Settled {
			rest = append(rest, r)
		}
	}
	return rest
}

// maxInSpan is the largest number of times in any span.
func maxInSpan(at []time.Time, span time.Duration) (n int) {
	for i := range at {
		k := i
		for k < len(at) && at[k].Sub(at[i]) < span {
			k++
		}
		n = max(n, k-i)
	}
	return n
}

// TestHostileHostsDelayNoOtherHost: forty hosts that flood, drip, or say nothing do not delay an honest one, and each
// of their rows ends within the time of its three tries.
func TestHostileHostsDelayNoOtherHost(t *testing.T) {
	hosts := map[string]*fakeServer{"mx.b.example": {rcpt: acceptsOnly("bob")}}
	for i := range 40 {
		name := fmt.Sprintf("mx%d.a.example", i)
		switch i % 4 {
		case 0:
			hosts[name] = &fakeServer{banner: "220-" + strings.Repeat("x\r\n220-", 500) + "x"}
		case 1:
			hosts[name] = &fakeServer{banner: "220 " + strings.Repeat("x", 100_000)}
		case 2:
			hosts[name] = &fakeServer{rcpt: func(string) string { return "-" }}
		case 3:
			hosts[name] = &fakeServer{rcpt: func(string) string { return "550 5.1.1 no\r\n250 ok\r\n550 5.1.1 no" }}
		}
	}
	withTestNode(t, testTable, nil, hosts, func(b *testNode) {
		began := time.Now()
		var all sync.WaitGroup
		for i := range 40 {
			rows := b.rows([]string{fmt.Sprintf("mx%d.a.example", i)}, fmt.Sprintf("ann@d%d.example", i))
			all.Go(func() {
				got := b.verify(5*time.Minute, rows...)[rows[0].Number]
				require.NotContains(t, []string{"VALID", "INVALID"}, got.Verdict.Status.String(),
					"nobody said so: host %d", i)
			})
		}
		require.Equal(t, "VALID", verdictText(b.single(time.Minute, []string{"mx.b.example"}, "bob@b.example")))
		require.Less(t, time.Since(began), 5*time.Second)
		all.Wait()
		require.Less(t, time.Since(began), 6*time.Minute)
	})
}

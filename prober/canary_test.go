package prober

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
	"probity/engine/smtp"
	"probity/prober/wire"
)

// TestNoKnockOnceAtEase: a source that is at ease before its knock is due knocks nowhere.
func TestNoKnockOnceAtEase(t *testing.T) {
	h := &host{rcpt: knows("ann")}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		require.Equal(t, "VALID", spell(b.single(time.Minute, mxa, "ann@a.example")))
		time.Sleep(time.Minute)
		e, dialed := b.prober.egress.list[0], len(h.saw().dialed)
		e.health.mu.Lock()
		e.health.knocked = time.Now()
		e.health.mu.Unlock()
		for i := range uneasyRoutes {
			e.health.connected(false, fmt.Sprint(i), time.Now())
		}
		b.prober.watch(e)
		time.Sleep(knockEvery / 2)
		e.health.connected(true, "r", time.Now())
		time.Sleep(time.Minute)
		require.Len(t, h.saw().dialed, dialed)
		require.True(t, e.health.isAtEase())
	})
}

// isAtEase reports a source that nobody watches.
func (h *health) isAtEase() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.watched && !h.uneasy()
}

// carers counts those who look after listed sources.
func carers() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "lookAfter.func1(")
}

// TestOneCarer: a source that is well and listed again within a minute of its canary's time has one who looks after it.
func TestOneCarer(t *testing.T) {
	inLab(t, labTable, nil, nil, func(b *lab) {
		e := b.prober.egress.list[0]
		list := func() {
			for i := range votesToRest {
				e.vote(fmt.Sprint(i), time.Now().Add(24*time.Hour), canaryRest, time.Now())
			}
			b.prober.restEverywhere(e)
		}
		list()
		time.Sleep(canaryRest / 2)
		require.True(t, e.well(time.Now()))
		time.Sleep(canaryRest/2 + canaryLook/2)
		list()
		time.Sleep(2 * canaryRest)
		require.Equal(t, 1, carers())
	})
}

// TestErrandsTakeTurns: whom the table knows is asked first, and nobody is left out.
func TestErrandsTakeTurns(t *testing.T) {
	known, nobody := &engine.Provider{ID: "known"}, &engine.Provider{}
	e := &egress{miss: errand{domain: "missed.example"}}
	for _, o := range []errand{{route: engine.Route{Key: "mx.a.example", Provider: nobody}, domain: "a.example"},
		{route: engine.Route{Key: "known", Provider: known}, domain: "b.example"}, {route: engine.Route{Key: "mx.c.example", Provider: nobody}, domain: "c.example"}} {
		e.namedBy(o)
	}
	var asked []string
	for range 4 {
		asked = append(asked, e.nextErrand().domain)
	}
	require.Equal(t, []string{"b.example", "a.example", "c.example", "b.example"}, asked)
}

// TestARefusalIsProvedByAnother: within a while, and by nothing but another in a row; meanwhile no back-off is shortened.
func TestARefusalIsProvedByAnother(t *testing.T) {
	h := &host{rcpt: knows("ann")}
	inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
		require.Equal(t, "VALID", spell(b.single(time.Minute, mxa, "ann@a.example")))
		l := b.prober.allLanes()[0]
		l.mu.Lock()
		l.asked = true // so that it is not forgotten meanwhile
		l.mu.Unlock()
		s := newSession(l, &group{host: "mx.a.example"}, bulk)
		waits := func() bool {
			time.Sleep(time.Minute)
			s.began = time.Now()
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.confirms(s, smtp.Fault{Event: engine.EventConnectFailed}, false, time.Now())
		}
		late := time.Now().Add(10 * time.Minute)
		l.mu.Lock()
		l.noConnect = late
		l.mu.Unlock()
		require.True(t, waits())
		l.mu.Lock()
		require.Equal(t, late, l.noConnect)
		l.mu.Unlock()
		require.False(t, waits(), "it came again")
		require.True(t, waits())
		time.Sleep(2 * unprovenLife)
		require.True(t, waits(), "too long ago to prove anything")
		require.Equal(t, "INVALID mailbox_not_found", spell(b.single(time.Minute, mxa, "bob@a.example")))
		require.True(t, waits(), "it was reached meanwhile")
	})
}

// TestARefusalIsProvedWhereNothingLasts: at speed-up 0 too the second refusal comes before the first is forgotten; who hangs up
// before a greeting has refused.
func TestARefusalIsProvedWhereNothingLasts(t *testing.T) {
	for _, hangsUp := range []bool{false, true} {
		t.Run(fmt.Sprintf("hangs up %v", hangsUp), func(t *testing.T) {
			dials := 0
			refuse := func(c *Config) {
				inner := c.Dial
				c.Dial = func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
					dials++
					time.Sleep(time.Millisecond)
					if !hangsUp {
						return inner(ctx, local, network, address)
					}
					ours, theirs := net.Pipe()
					return ours, theirs.Close()
				}
			}
			inLab(t, "speedup = 0\n"+labTable, refuse, map[string]*host{"mx.a.example": {down: true}}, func(b *lab) {
				rows := b.rows(mxa, "ann@a.example")
				got := b.verify(time.Minute, rows...)[rows[0].Number]
				require.Equal(t, wire.Settled, got.Outcome)
				require.Equal(t, "UNKNOWN connection_failed", spell(got.Verdict))
				require.LessOrEqual(t, dials, 3)
			})
		})
	}
}

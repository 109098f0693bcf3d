package prober

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// wish is a suppress list that a test changes.
type wish struct{ atomic.Pointer[string] }

func (w *wish) config(c *Config) {
	c.Suppressed = func(domain string, hosts []string) bool {
		name := w.Load()
		return name != nil && (domain == *name || slices.Contains(hosts, *name))
	}
}

// lastMet is whom the source has reached last.
func (h *health) lastMet() knock {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.known
}

// offTable is the lab's table when an operator has switched somebody off.
func offTable(t *testing.T, mx string) *engine.Table {
	off, err := engine.DefaultTable().Override([]byte(labTable + fmt.Sprintf("[[provider]]\nid = \"off\"\nname = \"Off\"\nmx = [%q]\nprobe = \"off\"\nsource = \"an operator\"\ndate = \"2026-01-01\"\n", mx)))
	require.NoError(t, err)
	return off
}

// TestNoKnockWhereNobodyIsToBeAsked: a knock is for nobody's sake, so a wish of the owner's or of the operator's is against it as
// against any row, be it expressed after the host was met.
func TestNoKnockWhereNobodyIsToBeAsked(t *testing.T) {
	for name, forbid := range map[string]func(*lab, *wish){
		"domain":   func(_ *lab, w *wish) { w.Store(new("a.example")) },
		"host":     func(_ *lab, w *wish) { w.Store(new("mx.a.example")) },
		"provider": func(b *lab, _ *wish) { b.prober.SetTable(offTable(t, "mx.a.example")) },
	} {
		t.Run(name, func(t *testing.T) {
			var w wish
			h := &host{rcpt: knows("ann")}
			inLab(t, labTable, w.config, map[string]*host{"mx.a.example": h}, func(b *lab) {
				require.Equal(t, "VALID", spell(b.single(time.Minute, mxa, "ann@a.example")))
				e := b.prober.egress.list[0]
				time.Sleep(time.Minute + time.Second) // idle lanes are forgotten on the minute
				known := e.health.lastMet()
				require.Equal(t, "a.example", known.domain)
				require.True(t, b.prober.knock(e, known))
				time.Sleep(time.Minute)
				require.Equal(t, known, e.health.lastMet(), "a knock remembers for whom it was met")
				dialed := len(h.saw().dialed)
				forbid(b, &w)
				require.False(t, b.prober.knock(e, known))
				time.Sleep(time.Minute)
				require.Len(t, h.saw().dialed, dialed)
				require.Empty(t, e.health.lastMet().host, "others do not wait for that knock")
			})
		})
	}
}

// TestErrandsPassOverWhoIsNotToBeAsked: the canary of a listed source goes to another of those who refused it.
func TestErrandsPassOverWhoIsNotToBeAsked(t *testing.T) {
	var w wish
	hosts := map[string]*host{}
	for i := range 4 {
		hosts[fmt.Sprintf("mx.r%d.example", i)] = &host{rcpt: func(string) string {
			return "554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org"
		}}
	}
	inLab(t, labTable, w.config, hosts, func(b *lab) {
		saw := func(i int) int { return hosts[fmt.Sprintf("mx.r%d.example", i)].count("RCPT") }
		ask := func(i int) string {
			return spell(b.single(5*time.Second, []string{fmt.Sprintf("mx.r%d.example", i)}, fmt.Sprintf("u@r%d.example", i)))
		}
		for i := range votesToRest {
			require.Equal(t, "UNKNOWN blocked", ask(i))
		}
		require.Equal(t, "UNKNOWN blocked", ask(3), "there is work to miss")
		w.Store(new("r0.example"))
		off := offTable(t, "mx.r1.example")
		b.prober.SetTable(off)
		time.Sleep(2*canaryRest + 5*time.Minute)
		require.Equal(t, 1, saw(0), "suppressed")
		require.Equal(t, 1, saw(1), "off")
		require.Equal(t, 3, saw(2))
		require.Zero(t, saw(3))
	})
}

// TestAKnockIsTold: what a host says to a knock counts at its lane as what it says to a row.
func TestAKnockIsTold(t *testing.T) {
	for _, x := range []struct{ banner, state string }{
		{"554 5.7.1 Service unavailable; client host blocked using zen.spamhaus.org", "quarantined"},
		{"421 4.7.0 Too many connections from your host, try again later", "paused"},
	} {
		t.Run(x.state, func(t *testing.T) {
			h := &host{rcpt: knows("ann")}
			inLab(t, labTable, nil, map[string]*host{"mx.a.example": h}, func(b *lab) {
				require.Equal(t, "VALID", spell(b.single(time.Minute, mxa, "ann@a.example")))
				e := b.prober.egress.list[0]
				time.Sleep(time.Minute + time.Second) // idle lanes are forgotten on the minute
				h.note(func() { h.banner = x.banner })
				require.True(t, b.prober.knock(e, e.health.lastMet()))
				time.Sleep(time.Second)
				seen := b.prober.Lanes()
				require.Len(t, seen, 1)
				require.Equal(t, x.state, seen[0].State)
				require.Equal(t, x.banner[4:], seen[0].Reply)
				dialed := len(h.saw().dialed)
				require.Equal(t, engine.Unknown, b.single(time.Second, mxa, "bob@a.example").Status)
				require.Len(t, h.saw().dialed, dialed)
			})
		})
	}
}

package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/coordinator/dispatch"
)

// TestDeadResolverOnlyDelaysVerdicts: domains that fail for a while are looked up again. Domains that always fail get
// their verdict in bounded time, and at once if the resolver finds others.
func TestDeadResolverOnlyDelaysVerdicts(t *testing.T) {
	for name, x := range map[string]struct {
		domains, broken int
		dead            time.Duration // from the first second on
		lost            uint32        // rows that end as dns_error
		within          time.Duration
	}{
		"one is broken":               {300, 1, 0, 1, 35 * time.Second},
		"only one, and it is":         {0, 1, 0, 1, 3 * time.Second},
		"all are broken":              {0, 40, 0, 40, 2 * time.Minute},
		"dead for ten seconds":        {300, 0, 10 * time.Second, 0, time.Minute},
		"dead, and one broken":        {300, 1, 10 * time.Second, 1, 2 * time.Minute},
		"dead for half a minute":      {300, 0, 30 * time.Second, 0, 2 * time.Minute},
		"many are broken":             {20, 40, 0, 40, 10 * time.Second},
		"dead for longer than we ask": {300, 0, time.Hour, 290, 5 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newTestEnv(t, vfs.NewMem(), func(_ *testEnv, c *Config) { c.Lookups = 1 })
				w.dns.delay = 100 * time.Millisecond
				w.run()
				if x.dead > 0 {
					time.AfterFunc(time.Second, func() { w.dns.dead.Store(true) })
					time.AfterFunc(time.Second+x.dead, func() { w.dns.dead.Store(false) })
				}
				var list strings.Builder
				list.WriteString("email\n")
				for i := range max(x.domains, x.broken) {
					if i < x.broken {
						fmt.Fprintf(&list, "a@fail%d.example\n", i)
					}
					if i < x.domains {
						fmt.Fprintf(&list, "a@d%d.example\n", i)
					}
				}
				began := time.Now()
				j, err := w.c.Wait(t.Context(), w.accept(t, list.String()).ID)
				require.NoError(t, err)
				require.InDelta(t, x.lost, j.Reasons["dns_error"], float64(x.lost)/50)
				require.Less(t, time.Since(began), x.within)
				t.Logf("%v", time.Since(began))
				require.NoError(t, w.close(t))
			})
		})
	}
}

// TestJobShowsRowsWaitingForDNS: while failed domains are looked up again, the job's snapshot shows their rows as class
// dns; later it does not.
func TestJobShowsRowsWaitingForDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newTestEnv(t, vfs.NewMem())
		w.run()
		w.dns.dead.Store(true)
		var list strings.Builder
		list.WriteString("email\n")
		for i := range 40 {
			fmt.Fprintf(&list, "a@d%d.example\nb@d%d.example\n", i, i)
		}
		j := w.accept(t, list.String())
		time.Sleep(10 * time.Second)
		s, err := w.c.Snapshot(j.ID)
		require.NoError(t, err)
		require.Equal(t, []dispatch.WaitingClass{{Class: "dns", Rows: 80}}, s.Waiting)
		w.dns.dead.Store(false)
		time.Sleep(time.Minute)
		s, err = w.c.Snapshot(j.ID)
		require.NoError(t, err)
		require.Empty(t, s.Waiting)
		require.Zero(t, s.ByReason["dns_error"])
		require.NoError(t, w.close(t))
	})
}

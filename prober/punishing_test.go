package prober

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/persona"
	"probity/bench/sim/world"
	"probity/engine"
	"probity/prober/wire"
)

// TestPunishingReceiversStayPatient verifies addresses of each receiver that turns against a source, with the shipped
// budgets: no verdict may be false, no receiver may block us, and rows are settled in every hour but the last: at least
// a tenth of the best hour's while as many are left as that settled. A tarpit that remembers each refusal for a quarter
// of an hour must be waited for again and again, so its rows take longer, and an hour more is one pause: as single runs
// come close to the limit, the median must be at most twice the patient time.
func TestPunishingReceiversStayPatient(t *testing.T) {
	const rows = 300
	var patient time.Duration
	withPunishingServer(t, "strict", rows, nil, func(_ *testNode, _ *sim.Server,
		rows []*listRow) {
		patient = settledAfter(rows)
	})
	t.Logf("a patient receiver: %v", patient)
	for receiver, want := range map[string]struct {
		known float64 // the part of the rows that must not be UNKNOWN
		runs  int
	}{
		"cuts-421": {1, 1}, "blocks-25": {1, 1}, "silent-past": {0.95, 3}, "stickier": {0.95, 5},
		"greylist-source": {0.99, 1},
	} {
		t.Run(receiver, func(t *testing.T) {
			var times []time.Duration
			verify := func(_ *testNode, server *sim.Server, rows []*listRow) {
				requireNotPunished(t, server, rows)
				certain := 0
				for _, l := range rows {
					if l.verdict.Status != engine.Unknown {
						certain++
					}
				}
				hourly := settledPerSpan(time.Hour, rows)
				t.Logf("%d of %d known in %v; rows an hour: %v", certain, len(rows), settledAfter(rows), hourly)
				require.GreaterOrEqual(t, float64(certain), want.known*float64(len(rows)))
				most, left := slices.Max(hourly), len(rows)
				for _, settled := range hourly[:len(hourly)-1] {
					least := 1
					if left >= most {
						least = most / 10
					}
					require.GreaterOrEqual(t, settled, least, "rows stood for an hour: %v", hourly)
					left -= settled
				}
				times = append(times, settledAfter(rows))
			}
			for range want.runs {
				withPunishingServer(t, receiver, rows, nil, verify)
			}
			slices.Sort(times)
			require.Less(t, times[len(times)/2], 2*patient, "of %v", times)
		})
	}
}

// TestRateFollowsAFallingLimit asks about existing mailboxes, so that only the rate counts, of a receiver that takes a
// tenth of it for half an hour: the rate falls with the receiver's limit, and rises with it. The limit falls after
// 1,000 recipients, in the second ten minutes; a few rows that were deferred meanwhile come long after the others.
func TestRateFollowsAFallingLimit(t *testing.T) {
	present := func(w *world.World, domain, local string) bool { return w.Mailbox(domain, local) == persona.Present }
	withPunishingServer(t, "limit-falls", 2600, present, func(_ *testNode, server *sim.Server, rows []*listRow) {
		requireNotPunished(t, server, rows)
		by := settledPerSpan(10*time.Minute, rows)
		t.Logf("rows in ten minutes: %v", by)
		hour := by[:6]
		low := slices.Index(hour, slices.Min(hour))
		require.Positive(t, low)
		before, after := slices.Max(by[:low]), slices.Max(by[low:])
		require.Less(t, by[low], before/4, "the limit did not fall")
		require.Greater(t, after, before*9/10, "the pace did not come back")
	})
}

// requireNotPunished requires correct verdicts and a receiver that has not blocked us.
func requireNotPunished(t *testing.T, server *sim.Server, rows []*listRow) {
	t.Helper()
	checkTruth(t, server.World, rows)
	report := server.Referee.Report()
	require.Empty(t, report.By)
	require.Zero(t, report.Blocks, "brought to block us")
}

var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// settledAfter returns the time at which the last row was settled.
func settledAfter(rows []*listRow) time.Duration {
	last := bubbleStart
	for _, l := range rows {
		if l.settledAt.After(last) {
			last = l.settledAt
		}
	}
	return last.Sub(bubbleStart)
}

// settledPerSpan counts the rows that were settled in each span of time.
func settledPerSpan(span time.Duration, rows []*listRow) []int {
	by := make([]int, settledAfter(rows)/span+1)
	for _, l := range rows {
		by[l.settledAt.Sub(bubbleStart)/span]++
	}
	return by
}

// withPunishingServer verifies n addresses of one receiver in a bubble, those that wanted accepts.
func withPunishingServer(t *testing.T, receiver string, n int, wanted func(w *world.World, domain, local string) bool,
	check func(*testNode, *sim.Server, []*listRow)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		b := newTestNode(t, "", nil)
		server, err := sim.Start(ctx, world.Config{Seed: 7, Speedup: 1, SMTPPort: 25,
			DNS: netip.MustParseAddrPort("127.0.0.1:53"), Throttlers: true}, b.net)
		require.NoError(t, err)
		resolver := b.startProber(ctx, t, server.DNS)
		defer func() {
			b.stop()
			require.NoError(t, b.cache.Close())
			cancel()
			require.NoError(t, server.Wait())
		}()
		var rows []*listRow
		routes, home := map[string]*engine.Route{}, ""
		for i, text := range server.World.Addresses(receiver, 20*n) {
			local, domain, _ := strings.Cut(text, "@")
			d, _ := server.World.Domain(domain)
			home = cmp.Or(home, d.MX[0].Host)
			if d.MX[0].Host != home || len(rows) == n || wanted != nil && !wanted(server.World, domain, local) {
				continue // one receiver, of a dozen domains
			}
			if routes[domain] == nil {
				r := resolver.Route(ctx, domain)
				routes[domain] = &r
			}
			a, err := engine.Parse(text)
			require.NoError(t, err)
			rows = append(rows, &listRow{text: text,
				row: wire.Row{Number: uint32(i), Address: a, Route: routes[domain]}})
		}
		require.Len(t, rows, n, "the world has too few people at %s", home)
		check(b, server, b.verifyAll(ctx, rows))
	})
}

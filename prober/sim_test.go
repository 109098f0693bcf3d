package prober

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/world"
	"probity/engine"
	"probity/engine/dns"
	"probity/prober/source"
	"probity/prober/wire"
)

// TestSimulatedInternet verifies a list of the simulated internet with the shipped budgets, for as many hours of
// virtual time as they take, as a coordinator would: rows that come back Returned or Deferred are sent again when they
// are due. The referee must find no excess, and no verdict may be one that an honest verifier would not give.
func TestSimulatedInternet(t *testing.T) {
	rows := 2000
	if testing.Short() {
		rows = 300
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		b := newTestNode(t, "", nil)
		server, err := sim.Start(ctx, world.Config{Seed: 7, Speedup: 1, SMTPPort: 25,
			DNS: netip.MustParseAddrPort("127.0.0.1:53")}, b.net)
		require.NoError(t, err)
		resolver := b.startProber(ctx, t, server.DNS)
		defer func() {
			b.stop()
			require.NoError(t, b.cache.Close())
		}()
		defer cancel()
		defer func() { cancel(); require.NoError(t, server.Wait()) }()
		got := b.verifyAll(ctx, listRows(t, server.World, resolver, rows))
		checkTruth(t, server.World, got)
		report := server.Referee.Report()
		t.Logf("%d connections, %d recipients, %d refused, %s of virtual time", report.Connections, report.Recipients,
			report.Refused, time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)))
		for _, e := range report.By {
			t.Errorf("excess: %+v", e)
		}
	})
}

// startProber runs a resolver and a prober against a name server; b.stop ends both.
func (b *testNode) startProber(ctx context.Context, t *testing.T, server netip.AddrPort) *dns.Resolver {
	resolver, err := dns.New(dns.Config{Servers: []netip.AddrPort{server}, Dial: b.net.Dial,
		ListenPacket: func(context.Context, string, string) (net.PacketConn, error) {
			return b.net.ListenPacket(netip.MustParseAddrPort("127.0.0.1:0"))
		}}, b.table)
	require.NoError(t, err)
	b.prober, err = New(Config{Node: "n1", Table: b.table, Resolver: resolver, Cache: b.cache,
		MailFrom: "probe@us.example", AllowPrivate: true,
		Sources: []source.Identity{{EHLO: "mail.us.example"}, {Local: netip.IPv6Loopback(), EHLO: "mail6.us.example"}},
		Dial: func(ctx context.Context, local netip.Addr, network, address string) (net.Conn, error) {
			return b.net.DialFrom(local)(ctx, network, address)
		}})
	require.NoError(t, err)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	pctx, pcancel := context.WithCancel(ctx)
	wg.Go(func() { _ = resolver.Run(ctx) })
	ran := make(chan error, 1)
	go func() { ran <- b.prober.Run(pctx) }()
	time.Sleep(time.Millisecond)
	b.stop = func() {
		pcancel()
		require.NoError(t, <-ran)
		cancel()
		wg.Wait()
	}
	return resolver
}

type listRow struct {
	text      string
	row       wire.Row
	verdict   engine.Verdict
	settledAt time.Time // when it was settled
}

// listRows are the rows of a list that a coordinator would send to a prober, one for each address.
func listRows(t *testing.T, w *world.World, resolver *dns.Resolver, n int) []*listRow {
	var buf bytes.Buffer
	require.NoError(t, world.WriteList(&buf, w, n, 5))
	records, err := csv.NewReader(&buf).ReadAll()
	require.NoError(t, err)
	email := slices.Index(records[0], "email")
	routes, seen := map[string]*engine.Route{}, map[string]bool{}
	var out []*listRow
	for i, rec := range records[1:] {
		a, err := engine.ParseTrimmed(rec[email])
		if err != nil || seen[a.Folded()] {
			continue
		}
		seen[a.Folded()] = true
		r := routes[a.Domain()]
		if r == nil {
			found := resolver.Route(context.Background(), a.Domain())
			r = &found
			routes[a.Domain()] = r
		}
		if r.Fact.Routable() {
			out = append(out, &listRow{text: rec[email], row: wire.Row{Number: uint32(i), Address: a, Route: r}})
		}
	}
	return out
}

// verifyAll sends rows until each is settled, as a coordinator with one batch in hand for each minute would.
func (b *testNode) verifyAll(ctx context.Context, rows []*listRow) []*listRow {
	byNumber := map[uint32]*listRow{}
	type due struct {
		at  time.Time
		row wire.Row
	}
	var queue []due
	for _, l := range rows {
		byNumber[l.row.Number] = l
		queue = append(queue, due{time.Now(), l.row})
	}
	for left := len(rows); left > 0; {
		now := time.Now()
		batch := wire.Batch{Job: "j", MaxAge: 7 * 24 * time.Hour, Started: now}
		queue = slices.DeleteFunc(queue, func(d due) bool {
			if d.at.After(now) || len(batch.Rows) == wire.MaxRows {
				return false
			}
			batch.Rows = append(batch.Rows, d.row)
			return true
		})
		if len(batch.Rows) == 0 {
			time.Sleep(10 * time.Second)
			continue
		}
		err := b.prober.Verify(ctx, &batch, 60*time.Second, func(r wire.Results) {
			for _, x := range r.Rows {
				l := byNumber[x.Row]
				if x.Outcome == wire.Settled {
					l.verdict, l.settledAt = x.Verdict, time.Now()
					left--
					continue
				}
				again := l.row
				again.Attempt = x.Attempt
				queue = append(queue, due{x.Due, again})
			}
		})
		require.NoError(b.t, err)
		if time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)) > 72*time.Hour {
			for _, d := range queue {
				b.t.Logf("%s attempt %d due %s via %s", d.row.Address.Folded(), d.row.Attempt, d.at, d.row.Route.Key)
			}
			b.t.Fatalf("%d rows are not settled after 72 hours", left)
		}
	}
	return rows
}

// checkTruth compares verdicts with what the world expects. Lists and role names are not of this package.
func checkTruth(t *testing.T, w *world.World, rows []*listRow) {
	wrong := map[string]int{}
	counts := map[string]int{}
	for _, l := range rows {
		ok, listOnly, want := false, false, []string{}
		for _, o := range w.Truth(l.text) {
			s := strings.TrimSpace(o.Status + " " + o.Reason)
			want = append(want, s)
			ok = ok || s == verdictText(l.verdict)
			// A decoy that is greylisted when its target no longer is leaves an acceptance unconfirmed: honest, if not
			// the most.
			ok = ok || s == "UNKNOWN greylisted" && verdictText(l.verdict) == "RISKY accepted_unconfirmed"
			listOnly = listOnly || slices.Contains([]string{"disposable", "role_account", "possible_typo"}, o.Reason)
		}
		counts[verdictText(l.verdict)]++
		if ok || listOnly {
			continue
		}
		d, _ := w.Domain(l.row.Address.Domain())
		persona := "?"
		if d.Persona != nil {
			persona = d.Persona.Name
		}
		wrong[fmt.Sprintf("%s: got %s (%s), want %v", persona, verdictText(l.verdict), l.verdict.Rule, want)]++
	}
	t.Log(counts)
	for s, n := range wrong {
		t.Errorf("%d x %s", n, s)
	}
}

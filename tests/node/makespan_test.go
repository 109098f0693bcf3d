package node_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/persona"
	"probity/bench/sim/referee"
	"probity/bench/sim/world"
	"probity/coordinator/ingest"
	"probity/coordinator/plan"
	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/app"
	"probity/internal/detector"
	"probity/internal/memnet"
	"probity/store"
	"probity/tests/harness"
)

const (
	makespanIdentities = 8
	oneSourceRows      = 20_000
	makespanSeed       = 12
)

// The reference ratios of makespan and bound, measured on measuredDate. A ratio that is higher by more than 2 % is a
// regression.
const (
	measuredDate      = "2026-11-24"
	measuredOneSource = 1.019 // oneSourceRows from one identity: nothing is split
	// measuredManySources is for 200,000 rows from makespanIdentities. By chance one of eight sources gets more of
	// Outlook.com's refusals than an even split gives; with fewer rows the difference grows.
	measuredManySources = 1.079
)

// planAgreesFrom is the number of rows from which chance is small, with makespanIdentities.
const planAgreesFrom = 200_000

// makespanRowsEnv is the number of rows of the list for many sources, which make makespan verifies; without it there is
// none.
const makespanRowsEnv = "PROBITY_MAKESPAN_ROWS"

// TestMakespan verifies lists with the shipped budgets, in hours of virtual time, and compares the time to the last
// verdict with the bound and the plan. Both split the refusals evenly over the sources, and chance does not: for a plan
// to agree, a list must be long or use one source.
func TestMakespan(t *testing.T) {
	detector.Spare(t)
	rows := 0
	if text := os.Getenv(makespanRowsEnv); text != "" {
		var err error
		rows, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	t.Run("one source", func(t *testing.T) {
		m := measureMakespan(t, oneSourceRows, 1)
		require.LessOrEqual(t, m.ratio(), 1.02*measuredOneSource, "it was %.3f on %s", measuredOneSource, measuredDate)
		require.InEpsilon(t, m.took.Seconds(), m.planned.Seconds(), 0.1, "the plan")
	})
	if rows == 0 {
		return // make makespan has many sources, each night
	}
	t.Run("many sources", func(t *testing.T) {
		m := measureMakespan(t, rows, makespanIdentities)
		require.LessOrEqual(t, m.ratio(), 1.02*measuredManySources, "it was %.3f on %s", measuredManySources,
			measuredDate)
		// The estimate of one source rests on about twenty refusals, which vary by a quarter; that of eight on eight
		// times as many.
		require.InEpsilon(t, (m.took - time.Hour).Seconds(), (m.estimated - time.Hour).Seconds(), 0.25,
			"the end that was told after an hour")
		if rows >= planAgreesFrom {
			require.InEpsilon(t, m.took.Seconds(), m.planned.Seconds(), 0.1, "the plan")
		}
	})
}

// makespan is how long a list took, and two figures that were computed before: the bound, the least time for the true
// work at each receiver, and the plan, from the list, the DNS, and the share of refusals at the receiver that takes
// longest.
type makespan struct {
	bound, planned, took time.Duration
	estimated            time.Duration // duration that the job's record estimated after an hour
}

func (m makespan) ratio() float64 { return m.took.Seconds() / m.bound.Seconds() }

func measureMakespan(t *testing.T, rows, identities int) (m makespan) {
	cpu := harness.CPUTime()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		network := memnet.New()
		internet, err := sim.Start(ctx, world.Config{Seed: makespanSeed, Speedup: 1, Latency: "realistic", SMTPPort: 25,
			DNS: netip.MustParseAddrPort("127.0.0.1:53")}, network)
		require.NoError(t, err)
		var list, result bytes.Buffer
		require.NoError(t, world.WriteList(&list, internet.World, rows, makespanSeed))
		due := workOf(t, engine.DefaultTable(), internet.World, list.Bytes())
		bound := due.tally.Plan(identities)
		logPlan(t, "bound", bound)
		last := due.shares[bound.Receivers[0].Route]
		refused := float64(last.refused) / float64(last.addresses)
		planned := planOf(ctx, t, harness.NodeOf(t, network, internet.DNS, harness.ManyIdentities(identities)),
			list.Bytes(), refused)
		logPlan(t, fmt.Sprintf("plan with %.1f %% refused, as at %s", 100*refused, bound.Receivers[0].Route), planned)
		var job *store.Job
		n := harness.NodeOf(t, network, internet.DNS, harness.ManyIdentities(identities))
		require.NoError(t, n.RunWhile(ctx, func(ctx context.Context) error {
			job, m.estimated = verifyInVirtualHours(ctx, t, n, list.Bytes())
			return n.Coordinator.Results(ctx, job.ID, results.Filter{}, &result)
		}))
		require.NoError(t, n.Close())
		require.NoError(t, internet.Close())
		logWork(t, internet.Referee.Usage())
		m.bound, m.planned, m.took = bound.MinTime, planned.MinTime, job.FinishedAt.Sub(job.StartedAt)
		t.Logf("%d rows: bound %s, time %s, ratio %.3f; plan %s; told after an hour %s", job.Rows, m.bound,
			m.took.Round(time.Second), m.ratio(), m.planned, m.estimated.Round(time.Second))
		harness.RequireCorrect(t, internet.World, list.Bytes(), result.Bytes())
		harness.RequireWithinLimits(t, internet.Referee.Report())
	})
	t.Logf("%s of CPU time", (harness.CPUTime() - cpu).Round(time.Millisecond))
	return m
}

// listWork is the work of a list according to the truth.
type listWork struct {
	tally  plan.Tally
	shares map[string]refusedShare // by route: of the addresses at domains whose servers reveal which mailboxes exist
}

// refusedShare is how many of the addresses are refused.
type refusedShare struct{ refused, addresses int }

// domainWork is the work at one domain.
type domainWork struct {
	addresses, refused int
	simDomain          world.Domain
}

// workOf counts the work of a list: each address once that a mail server decides, and one decoy of each domain where
// one of them is accepted. Servers that reveal nothing need no work.
func workOf(t *testing.T, table *engine.Table, w *world.World, list []byte) (d listWork) {
	rows, err := csv.NewReader(bytes.NewReader(list)).ReadAll()
	require.NoError(t, err)
	seen, domains := map[string]bool{}, map[string]domainWork{}
	for _, row := range rows[1:] {
		a, err := engine.ParseTrimmed(row[3])
		home, known := w.Domain(a.Domain())
		if err != nil || !known || seen[a.Folded()] || !answeredByServer(w.Truth(row[3])[0]) {
			continue
		}
		seen[a.Folded()] = true
		at := domains[a.Domain()]
		at.simDomain = home
		at.addresses++
		if home.Persona.Refuses(w.Mailbox(a.Domain(), a.Local())) {
			at.refused++
		}
		domains[a.Domain()] = at
	}
	d.shares = map[string]refusedShare{}
	for domain, at := range domains {
		load := plan.Load{Recipients: float64(at.addresses), Refused: float64(at.refused)}
		tells := at.simDomain.Persona.Refuses(persona.Absent)
		if at.refused < at.addresses {
			load.Recipients++
			if tells {
				load.Refused++
			}
		}
		route := routeOf(table, domain, at.simDomain.MX)
		if d.tally.Add(&route, domain, load) && tells {
			s := d.shares[route.Key]
			d.shares[route.Key] = refusedShare{s.refused + at.refused, s.addresses + at.addresses}
		}
	}
	return d
}

// answeredByServer reports whether o depends on a mail server's reply to the recipient.
func answeredByServer(o persona.Outcome) bool {
	switch o.Reason {
	case "mailbox_not_found", "mailbox_disabled":
		return true
	}
	return o.Status == "VALID" || o.Status == "RISKY" && o.Reason != "accept_all_provider"
}

func routeOf(table *engine.Table, domain string, hosts []world.MX) engine.Route {
	if len(hosts) == 0 {
		return table.ImplicitRoute(domain)
	}
	records := make([]engine.MX, len(hosts))
	for i, mx := range hosts {
		records[i] = engine.MX{Preference: mx.Pref, Host: mx.Host}
	}
	return table.NewRoute(records)
}

// planOf plans a list as the command does: it accepts the list and queries the DNS, and probes no mail server.
func planOf(ctx context.Context, t *testing.T, n *app.Node, list []byte, refused float64) plan.Plan {
	job, err := n.Coordinator.Accept(ctx, ingest.Upload{Body: bytes.NewReader(list)})
	require.NoError(t, err)
	resolving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- n.Resolver.Run(resolving) }()
	p, err := n.Coordinator.Plan(ctx, job.ID, plan.Options{Refused: refused})
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, err)
	require.NoError(t, n.Close())
	t.Logf("%d addresses planned: %d not to be asked, %d not counted", p.Addresses, p.Unasked, p.Uncounted)
	return p.Plan
}

func logPlan(t *testing.T, what string, p plan.Plan) {
	t.Logf("%s: %s from %d sources; %d sources more halve it", what, p.MinTime, p.Sources, p.MoreToHalve)
	for _, r := range p.Receivers {
		t.Logf("  %-14s %-7s %7.1f recipients, %6.1f refused: %9s for %d %s", r.Route[:min(14, len(r.Route))], r.Kind,
			r.Due.Recipients, r.Due.Refused, r.MinTime, r.Budget, r.Limit)
	}
}

// logWork logs what the receivers saw, for comparison with the expected work: all of it, and that of the busiest
// sources and receivers.
func logWork(t *testing.T, work []referee.SourceUsage) {
	var total referee.SourceUsage
	for _, w := range work {
		total.Connections += w.Connections
		total.Recipients += w.Recipients
		total.Denied += w.Denied
	}
	t.Logf("%d connections, %d recipients, %d refused", total.Connections, total.Recipients, total.Denied)
	slices.SortFunc(work, func(a, b referee.SourceUsage) int { return cmp.Compare(b.Denied, a.Denied) })
	for _, w := range work[:min(30, len(work))] {
		t.Logf("  %s at %s (%d): %d connections, %d recipients, %d refused", w.Source, w.Persona, w.Cluster,
			w.Connections, w.Recipients, w.Denied)
	}
}

// verifyInVirtualHours verifies a list, however long that takes, and logs its progress each hour. It returns the total
// time that the job's record estimates after an hour.
func verifyInVirtualHours(all context.Context, t *testing.T, n *app.Node,
	list []byte) (job *store.Job, reported time.Duration) {
	began, cpu := time.Now(), harness.CPUTime()
	var err error
	job, err = n.Coordinator.Accept(all, ingest.Upload{Body: bytes.NewReader(list),
		Options: ingest.Options{MaxHours: 1000}})
	require.NoError(t, err)
	for hours := 1; !job.State.Finished(); hours++ {
		ctx, cancel := context.WithDeadline(all, began.Add(time.Duration(hours)*time.Hour))
		job, err = n.Coordinator.Wait(ctx, job.ID)
		cancel()
		if hours == 1 {
			reported = estimatedEnd(all, n, job.ID, began)
		}
		if s, err := n.Coordinator.Snapshot(job.ID); err == nil {
			t.Logf("%s, %s of CPU time: %d of %d; %d wait for budget, %d for their retry; the end in %s; %v",
				time.Since(began).Round(time.Second),
				(harness.CPUTime() - cpu).Round(time.Second), s.Answered, s.Unique, s.WaitingBudget, s.PendingRetry,
				s.ETA.Round(time.Second), s.Waiting)
		}
	}
	require.NoError(t, err)
	require.Equal(t, store.JobCompleted, job.State, job.Error)
	return job, reported
}

// estimatedEnd is the job's total time that its record estimates within ten minutes; 0 without an estimate. There is
// none while no row ends for a minute, or while one of its routes has not been probed for long enough.
func estimatedEnd(ctx context.Context, n *app.Node, id string, began time.Time) time.Duration {
	for range 10 {
		if s, err := n.Coordinator.Snapshot(id); err == nil && s.ETA > 0 {
			return time.Since(began) + s.ETA
		}
		minute, cancel := context.WithTimeout(ctx, time.Minute)
		_, err := n.Coordinator.Wait(minute, id)
		cancel()
		if err != nil && ctx.Err() != nil {
			return 0
		}
	}
	return 0
}

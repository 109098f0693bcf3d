package main

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/coordinator"
	"probity/engine"
	"probity/prober"
	"probity/store"
)

const (
	makespanRows       = 50_000 // in the suite; PROBITY_MAKESPAN_ROWS sets another number
	makespanIdentities = 8
	makespanSeed       = 12
)

// TestMakespan verifies a list with the shipped budgets from eight identities, in as many hours of virtual time as that takes,
// and holds the time to the last verdict against the lower bound: the longest that any identity must work for any receiver,
// were the budget that binds there used to the last recipient. The work is what the receivers saw: targets, decoys, retries.
func TestMakespan(t *testing.T) {
	if raceEnabled {
		t.Skip("it is long, and its paces are tried without the race detector; other tests look for races")
	}
	rows := makespanRows
	if text := os.Getenv("PROBITY_MAKESPAN_ROWS"); text != "" {
		var err error
		rows, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	cpu := cpuTime()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		network := sim.NewMemNet()
		internet, err := sim.Start(ctx, sim.Config{Seed: makespanSeed, Speedup: 1, Latency: "realistic", SMTPPort: 25, DNS: netip.MustParseAddrPort("127.0.0.1:53")}, network)
		require.NoError(t, err)
		var list, result bytes.Buffer
		require.NoError(t, sim.WriteList(&list, internet.World, rows, makespanSeed))
		var job *store.Job
		n := memNodeOf(t, network, internet.DNS, manyIdentities(makespanIdentities))
		require.NoError(t, withNode(ctx, n, func(ctx context.Context) error {
			job = verifyInTime(t, ctx, n, list.Bytes())
			return n.coordinator.Results(ctx, job.ID, coordinator.Filter{}, &result)
		}))
		require.NoError(t, n.Close())
		require.NoError(t, internet.Close())
		took, bound := job.FinishedAt.Sub(job.StartedAt), leastTime(t, n.table, internet.Referee.Work())
		t.Logf("%d rows in %s of virtual time, %.3f of the bound of %s", job.Rows, took.Round(time.Second), took.Seconds()/bound.Seconds(), bound.Round(time.Second))
		requireHonest(t, internet.World, list.Bytes(), result.Bytes())
		requirePolite(t, internet.Referee.Report())
		require.LessOrEqual(t, took.Seconds(), 1.05*bound.Seconds(), "%s of the bound of %s", took, bound)
	})
	t.Logf("%s of CPU time", (cpuTime() - cpu).Round(time.Millisecond))
}

// verifyInTime verifies a list, however long that takes, and tells of its progress each hour.
func verifyInTime(t *testing.T, ctx context.Context, n *node, list []byte) *store.Job {
	began, cpu := time.Now(), cpuTime()
	job, err := n.coordinator.Accept(ctx, coordinator.Upload{Body: bytes.NewReader(list), Options: coordinator.Options{MaxHours: 1000}})
	require.NoError(t, err)
	for hours := 1; !job.State.Finished(); hours++ {
		ctx, cancel := context.WithDeadline(ctx, began.Add(time.Duration(hours)*time.Hour))
		job, err = n.coordinator.Wait(ctx, job.ID)
		cancel()
		if s, err := n.coordinator.Snapshot(job.ID); err == nil {
			t.Logf("%s, %s of CPU time: %d of %d; %d wait for budget, %d for their retry; the end in %s; %v", time.Since(began).Round(time.Second),
				(cpuTime() - cpu).Round(time.Second), s.Answered, s.Unique, s.WaitingBudget, s.PendingRetry, s.ETA.Round(time.Second), s.Waiting)
		}
	}
	require.NoError(t, err)
	require.Equal(t, store.JobCompleted, job.State, job.Error)
	return job
}

// leastTime is the lower bound, and tells where it comes from.
func leastTime(t *testing.T, table *engine.Table, work []sim.Work) time.Duration {
	slices.SortFunc(work, func(a, b sim.Work) int { return int(leastOf(table, b) - leastOf(table, a)) })
	for _, w := range work[:min(10, len(work))] {
		t.Logf("%s at %s (%d): %d connections, %d recipients, %d refused: %s at least", w.Source, w.Persona, w.Cluster, w.Connections, w.Recipients, w.Denied, leastOf(table, w).Round(time.Minute))
	}
	return leastOf(table, work[0])
}

// leastOf is the time that a source's work at a receiver takes at least.
func leastOf(table *engine.Table, w sim.Work) time.Duration {
	p := table.Provider(w.Persona)
	if p == nil {
		p = table.Unknown
	}
	span := func(work int64, budget int, each time.Duration) time.Duration {
		if budget == 0 {
			return 0
		}
		return time.Duration(float64(work) / float64(budget) * float64(each))
	}
	return max(span(w.Recipients, p.Limits.RecipientsPerMinute, time.Minute), span(w.Denied, p.Limits.RefusalsPerHour, time.Hour),
		span(w.Connections, p.Limits.ConnectionsPerMinute, time.Minute))
}

func manyIdentities(n int) (ids []prober.Identity) {
	for i := range n {
		ids = append(ids, prober.Identity{Local: netip.AddrFrom4([4]byte{10, 8, 0, byte(i + 1)}), EHLO: fmt.Sprintf("mx%d.prober.example", i)})
	}
	return append(ids, prober.Identity{Local: netip.IPv6Loopback(), EHLO: "mx6.prober.example"})
}

// cpuTime is what this process has used of the processors so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

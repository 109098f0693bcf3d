package fleet_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator"
	"probity/coordinator/fleet"
	"probity/tests/harness"
)

// keepRows keeps the header of a list and the rows whose address f selects.
func keepRows(t *testing.T, list []byte, f func(email string) bool) []byte {
	rows, err := csv.NewReader(bytes.NewReader(list)).ReadAll()
	require.NoError(t, err)
	column := slices.Index(rows[0], "email")
	kept := [][]string{rows[0]}
	for _, row := range rows[1:] {
		if f(row[column]) {
			kept = append(kept, row)
		}
	}
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	require.NoError(t, w.WriteAll(kept))
	return out.Bytes()
}

// withMemCluster runs f with a coordinator and nodes in a bubble.
func withMemCluster(t *testing.T, speedup float64, nodes, identities int,
	do func(ctx context.Context, f *memCluster, probers []*memProber)) {
	withMemClusterAt(t, speedup, "none", nodes, identities, do)
}

func withMemClusterAt(t *testing.T, speedup float64, latency string, nodes, identities int,
	do func(ctx context.Context, f *memCluster, probers []*memProber)) {
	withMemClusterOf(t, func(*memCluster) {}, speedup, latency, nodes, identities, do)
}

// withMemClusterOf is withMemClusterAt, with the cluster changed before anything starts.
func withMemClusterOf(t *testing.T, change func(*memCluster), speedup float64, latency string, nodes, identities int,
	do func(ctx context.Context, f *memCluster, probers []*memProber)) {
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		f := newMemCluster(ctx, t, speedup, latency)
		change(f)
		f.coord = f.startCoordinator(coordinatorIP, "hub")
		var probers []*memProber
		for n := range nodes {
			s := f.newProber(n+1, identities)
			s.start()
			probers = append(probers, s)
		}
		f.waitUsable(nodes)
		do(ctx, f, probers)
		f.coord.stop()
		for _, s := range probers {
			s.stop()
		}
		require.NoError(t, f.internet.Close())
		time.Sleep(time.Minute) // until memberlist's timers have ended
	})
	t.Logf("%s of real time", time.Since(began).Round(time.Millisecond))
}

// waitUsable waits until so many nodes accept work.
func (f *memCluster) waitUsable(nodes int) {
	f.t.Helper()
	for range 300 {
		usable := 0
		for _, n := range f.coord.fleet.Report().Nodes {
			if n.Usable {
				usable++
			}
		}
		if usable == nodes {
			return
		}
		time.Sleep(time.Second)
	}
	require.Fail(f.t, "nodes are missing", "%+v\n%s", f.coord.fleet.Report(), f.log)
}

// fleetSpeedup makes an hour pass in a minute: the hourly budgets of the wide providers delay a job by some minutes.
const fleetSpeedup = 60

// TestFleetInABubble verifies a list with four nodes of two identities each.
func TestFleetInABubble(t *testing.T) {
	withMemCluster(t, fleetSpeedup, 4, 2, func(ctx context.Context, f *memCluster, _ []*memProber) {
		list := f.list(10_000, nil)
		began := time.Now()
		id := f.coord.accept(ctx, t, list)
		job, result := f.coord.waitResult(ctx, t, id)
		t.Logf("%d rows in %s of virtual time: %v %v", job.Rows, time.Since(began).Round(time.Second), job.Counts,
			job.Reasons)
		harness.RequireCorrect(t, f.internet.World, list, result)
		harness.RequireWithinLimits(t, f.internet.Referee.Report())
		harness.RequireRoutes(t, f.internet.Referee.Report())
		f.requireOwners(8, "google", "microsoft365", "outlook", "yahoo")
	})
}

// TestNodeLeavesAndReturnsDuringAJob verifies a list while a node leaves and comes back. The speed-up is lower, so that
// all of it happens while the job runs.
func TestNodeLeavesAndReturnsDuringAJob(t *testing.T) {
	withMemCluster(t, fleetSpeedup/4, 4, 2, func(ctx context.Context, f *memCluster, probers []*memProber) {
		list := f.list(4000, nil)
		id := f.coord.accept(ctx, t, list)
		time.Sleep(10 * time.Second)
		probers[3].stop()
		time.Sleep(30 * time.Second)
		probers[3].start()
		f.waitUsable(4)
		f.requireStillRunning(id)
		f.requireCorrectEnd(ctx, id, list)
	})
}

func nodeOf(f *memCluster, name string) fleet.NodeReport {
	for _, n := range f.coord.fleet.Report().Nodes {
		if n.Name == name {
			return n
		}
	}
	return fleet.NodeReport{}
}

// TestSecondCoordinatorIsRefused starts one more while a job runs.
func TestSecondCoordinatorIsRefused(t *testing.T) {
	withMemCluster(t, fleetSpeedup, 2, 1, func(ctx context.Context, f *memCluster, _ []*memProber) {
		second := f.startCoordinator("10.9.0.2", "usurper")
		time.Sleep(20 * time.Second)
		for _, n := range second.fleet.Report().Nodes {
			require.False(t, n.Usable)
			require.Contains(t, n.Problem, "works for coordinator hub")
		}
		require.Contains(t, f.log.String(), "refused a coordinator")
		require.NotEmpty(t, second.fleet.Report().Rivals)
		second.stop()
		list := f.list(300, nil)
		_, result := f.coord.waitResult(ctx, t, f.coord.accept(ctx, t, list))
		harness.RequireCorrect(t, f.internet.World, list, result)
	})
}

// TestSingleWithoutProbersIsRefused: a single call fails with the API's error, and is answered once there is a prober.
func TestSingleWithoutProbersIsRefused(t *testing.T) {
	withMemCluster(t, fleetSpeedup, 1, 2, func(ctx context.Context, f *memCluster, probers []*memProber) {
		ask := func() (coordinator.Answer, error) {
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			return f.coord.coordinator.Single(ctx,
				coordinator.Request{Email: "nobody.at.all.here@gmail.com", MaxAge: time.Hour})
		}
		a, err := ask()
		require.NoError(t, err)
		require.Equal(t, "p1", a.Node)
		probers[0].stop()
		time.Sleep(time.Minute)
		_, err = ask()
		require.ErrorIs(t, err, fleet.ErrNoProber)
		probers[0].start()
		f.waitUsable(1)
		a, err = ask()
		require.NoError(t, err)
		require.True(t, a.Verdict.FromCache, "the cache outlasts a restart")
	})
}

// TestCoordinatorReportsNodeMetrics: the outcomes of probes at nodes are in the coordinator's metrics.
func TestCoordinatorReportsNodeMetrics(t *testing.T) {
	withMemCluster(t, fleetSpeedup, 2, 1, func(ctx context.Context, f *memCluster, _ []*memProber) {
		f.coord.waitResult(ctx, t, f.coord.accept(ctx, t, f.list(300, nil)))
		time.Sleep(10 * time.Second)
		for _, n := range f.coord.fleet.Report().Nodes {
			outcomes := 0
			for name, count := range n.Counters {
				if strings.HasPrefix(name, "probity_prober_outcomes_total{") {
					outcomes += int(count)
				}
			}
			require.Positive(t, outcomes, "%s: %v", n.Name, n.Counters)
		}
	})
}

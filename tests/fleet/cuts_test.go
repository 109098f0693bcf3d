package fleet_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/internal/detector"
	"probity/store"
	"probity/tests/harness"
)

// fleetCuts are the ways in which a node loses its cluster.
var fleetCuts = []struct {
	name            string
	gossip, streams bool
	lasts           time.Duration
}{
	{"gossip for half a minute", true, false, 30 * time.Second},
	{"gossip for three minutes", true, false, 3 * time.Minute},
	{"streams for half a minute", false, true, 30 * time.Second},
	{"streams for three minutes", false, true, 3 * time.Minute},
	{"both for half a minute", true, true, 30 * time.Second},
	{"both for three minutes", true, true, 3 * time.Minute},
}

// TestFleetIsCut cuts one node off in each way, one after the other, while a job runs: each row has one verdict, no
// receiver's limit is exceeded, and a node without its coordinator does not probe.
func TestFleetIsCut(t *testing.T) {
	detector.Spare(t)
	withMemCluster(t, 4, 3, 2, func(ctx context.Context, f *memCluster, probers []*memProber) {
		list := f.list(6000, nil)
		id := f.coord.accept(ctx, t, list)
		time.Sleep(10 * time.Second)
		for i, cut := range fleetCuts {
			f.cutNode(probers[i%len(probers)], cut.gossip, cut.streams, cut.lasts)
			f.waitUsable(3)
			time.Sleep(20 * time.Second)
		}
		f.requireStillRunning(id)
		f.requireCorrectEnd(ctx, id, list)
	})
}

// TestFleetSurvivesKillsAndCutsInVirtualTime combines all faults in one run: two nodes killed and one of them started
// again, the others cut off in every way, the coordinator killed and started again.
func TestFleetSurvivesKillsAndCutsInVirtualTime(t *testing.T) {
	detector.SpareByDay(t)
	withMemCluster(t, 4, 4, 2, func(ctx context.Context, f *memCluster, probers []*memProber) {
		list := f.list(6000, nil)
		id := f.coord.accept(ctx, t, list)
		time.Sleep(10 * time.Second)
		probers[0].kill()
		probers[1].kill()
		var cuts sync.WaitGroup
		cuts.Go(func() { f.cutNode(probers[2], true, true, 3*time.Minute) })
		time.Sleep(20 * time.Second)
		probers[0].start()
		cuts.Wait()
		f.waitUsable(3)
		f.cutNode(probers[2], true, true, 30*time.Second)

		f.killCoordinator()
		time.Sleep(2 * time.Second)
		f.coord = f.restartCoordinator(coordinatorIP, "hub", f.coord)
		f.waitUsable(3)

		cuts.Go(func() { f.cutNode(probers[3], false, true, 3*time.Minute) })
		cuts.Go(func() { f.cutNode(probers[0], true, false, 3*time.Minute) })
		cuts.Wait()
		f.waitUsable(3)
		f.requireStillRunning(id)
		f.requireCorrectEnd(ctx, id, list)
		probers[1].start() // it is stopped with the others
	})
}

// TestEndedStreamsCostNoRecipients ends the streams of one node every two seconds while a job runs. The node forgets
// its batches, and their rows are sent again: what it has probed is in its cache, and what it is probing is joined.
func TestEndedStreamsCostNoRecipients(t *testing.T) {
	detector.SpareByDay(t)
	calm := recipientsOfAJob(t, func(*memCluster, *memProber) {})
	ends := 0
	disturbed := recipientsOfAJob(t, func(f *memCluster, s *memProber) {
		f.lan.endStreams(s.ip)
		ends++
	})
	t.Logf("%d recipients; %d with %d ends of streams", calm, disturbed, ends)
	require.Greater(t, ends, 100)
	require.LessOrEqual(t, float64(disturbed), 1.01*float64(calm))
}

// recipientsOfAJob verifies a list with three nodes, disturbs one of them every two seconds, and returns how many
// recipients receivers saw.
func recipientsOfAJob(t *testing.T, disturb func(*memCluster, *memProber)) (recipients int64) {
	withMemCluster(t, 4, 3, 2, func(ctx context.Context, f *memCluster, probers []*memProber) {
		list := f.list(3000, nil)
		id := f.coord.accept(ctx, t, list)
		ended := make(chan struct{})
		var disturbing sync.WaitGroup
		disturbing.Go(func() {
			every := time.NewTicker(2 * time.Second)
			defer every.Stop()
			for {
				select {
				case <-every.C:
					disturb(f, probers[0])
				case <-ended:
					return
				}
			}
		})
		f.requireCorrectEnd(ctx, id, list)
		close(ended)
		disturbing.Wait()
		recipients = f.internet.Referee.Report().Recipients
	})
	return recipients
}

// cutNode takes gossip, streams or both from a node for a time. Without streams it may probe for ten seconds more, and
// not after.
func (f *memCluster) cutNode(s *memProber, gossip, streams bool, lasts time.Duration) {
	f.lan.cutStreams(s.ip, streams)
	f.lan.cutGossip(s.ip, gossip)
	began := time.Now()
	time.Sleep(lasts)
	if streams {
		require.Less(f.t, s.lastProbe().Sub(began), 10*time.Second+100*time.Millisecond,
			"%s probes without its coordinator", s.name)
	}
	require.Equal(f.t, !streams, nodeOf(f, s.name).Usable, "the stream decides")
	f.lan.cutGossip(s.ip, false)
	f.lan.cutStreams(s.ip, false)
}

// kill ends a node without notice: its leave message reaches no other node.
func (s *memProber) kill() {
	s.cluster.lan.cutStreams(s.ip, true)
	s.cluster.lan.cutGossip(s.ip, true)
	s.stop()
	s.cluster.lan.cutGossip(s.ip, false)
	s.cluster.lan.cutStreams(s.ip, false)
}

// killCoordinator ends the coordinator likewise.
func (f *memCluster) killCoordinator() {
	var nodes []string
	for _, n := range f.coord.fleet.Report().Nodes {
		ip, _, _ := net.SplitHostPort(n.Address)
		nodes = append(nodes, ip)
		f.lan.cutStreams(ip, true)
	}
	f.lan.cutGossip(coordinatorIP, true)
	f.coord.stop()
	f.lan.cutGossip(coordinatorIP, false)
	for _, ip := range nodes {
		f.lan.cutStreams(ip, false)
	}
}

func (f *memCluster) requireStillRunning(id string) {
	f.t.Helper()
	job, err := f.coord.store.Job(id)
	require.NoError(f.t, err)
	require.Equal(f.t, store.JobRunning, job.State, "it ended before all had happened")
}

// requireCorrectEnd waits for a job and checks its result.
func (f *memCluster) requireCorrectEnd(ctx context.Context, id string, list []byte) {
	f.t.Helper()
	job, result := f.coord.waitResult(ctx, f.t, id)
	harness.RequireCorrect(f.t, f.internet.World, list, result)
	harness.RequireWithinLimits(f.t, f.internet.Referee.Report())
	harness.RequireRoutes(f.t, f.internet.Referee.Report())
	require.EqualValues(f.t, job.Rows-job.Blank, job.Counts["VALID"]+job.Counts["RISKY"]+job.Counts["INVALID"]+
		job.Counts["UNKNOWN"])
}

// TestRestartedCoordinatorWaitsForItsNodes kills the coordinator, and one of the nodes is slow to attach to the next
// one: its narrow routes go to no other node meanwhile. A node that does not come back loses them; as it has not
// reported its use of their hourly budgets, these count as used up.
func TestRestartedCoordinatorWaitsForItsNodes(t *testing.T) {
	detector.Spare(t)
	withMemCluster(t, 1, 2, 1, func(ctx context.Context, f *memCluster, probers []*memProber) {
		list, _ := f.receiver("strict", 120)
		id := f.coord.accept(ctx, t, list)
		time.Sleep(20 * time.Second)
		owner, other := probers[0], probers[1]
		if owner.lastProbe().Before(other.lastProbe()) {
			owner, other = other, owner
		}
		f.killCoordinator()
		f.lan.cutStreams(owner.ip, true)
		f.lan.cutGossip(owner.ip, true)
		f.coord = f.restartCoordinator(coordinatorIP, "hub", f.coord)
		restarted := time.Now()
		time.Sleep(40 * time.Second)
		require.True(t, other.lastProbe().Before(restarted), "who is away keeps its routes")
		s, err := f.coord.coordinator.Snapshot(id)
		require.NoError(t, err)
		require.NotZero(t, s.WaitingBudget)
		require.True(t, s.ETA == 0 || s.ETA >= 25*time.Second,
			"no end before the owner is back or another may ask; 0 is one that cannot be told: %s", s.ETA)
		time.Sleep(50 * time.Minute)
		require.True(t, other.lastProbe().Before(restarted), "nobody knows what its owner has used of the hour")
		time.Sleep(15 * time.Minute)
		require.GreaterOrEqual(t, other.lastProbe().Sub(restarted), time.Hour, "who is away too long loses them")
		f.lan.cutStreams(owner.ip, false)
		f.lan.cutGossip(owner.ip, false)
		f.waitUsable(2)
		f.requireCorrectEnd(ctx, id, list)
	})
}

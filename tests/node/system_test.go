package node_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim"
	"probity/bench/sim/world"
	"probity/coordinator/ingest"
	"probity/coordinator/results"
	"probity/internal/detector"
	"probity/internal/memnet"
	"probity/store"
	"probity/tests/harness"
)

// The list of the bubble: ordinary rows, and rows of slow receivers, drawn from a longer list.
const (
	bubbleRows     = 5000
	bubbleOrdinary = 4000
	bubbleDrawn    = 500_000
	bubbleBudget   = 10 * time.Second // of the processors
)

// slowPersonas are the personas that delay a prober: by greylisting, rates, few connections, or few refusals.
var slowPersonas = []string{"greylist-triple", "greylist-address", "strict", "too-many-connections", "hard-error-limit",
	"few-recipients",
	"slow-banner", "early-talker", "busy-primary", "unknown-450", "temporary"}

// TestSystemInVirtualTime verifies a list with the shipped limits and retry schedule, against receivers that run in
// real time: hours for them, seconds for us. Everything is real but sockets, files and the clock.
func TestSystemInVirtualTime(t *testing.T) {
	began, spent := time.Now(), harness.CPUTime()
	synctest.Test(t, func(t *testing.T) { // returns only when no goroutine of the bubble is left
		verifyInVirtualTime(t)
	})
	spent = harness.CPUTime() - spent
	t.Logf("%s of real time, %s of the processors", time.Since(began).Round(time.Millisecond),
		spent.Round(time.Millisecond))
	if !detector.On {
		require.Less(t, spent, bubbleBudget)
	}
}

func verifyInVirtualTime(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	network := memnet.New()
	server, err := sim.Start(ctx, world.Config{Seed: harness.ListSeed, Speedup: 1, SMTPPort: 25,
		DNS: netip.MustParseAddrPort("127.0.0.1:53")}, network)
	require.NoError(t, err)
	list := slowReceiverList(t, server.World)
	n := harness.NodeOfTwo(t, network, server.DNS)
	began := time.Now()
	var job *store.Job
	var result bytes.Buffer
	require.NoError(t, n.RunWhile(ctx, func(ctx context.Context) error {
		var err error
		if job, err = n.Coordinator.Accept(ctx, ingest.Upload{Body: bytes.NewReader(list),
			Options: ingest.Options{MaxHours: ingest.MaxHours}}); err != nil {
			return err
		}
		if job, err = n.Coordinator.Wait(ctx, job.ID); err != nil {
			return err
		}
		return n.Coordinator.Results(ctx, job.ID, results.Filter{}, &result)
	}))
	t.Logf("%d rows, %s of virtual time: %v %v", job.Rows, time.Since(began).Round(time.Minute), job.Counts,
		job.Reasons)
	require.NoError(t, n.Close())
	require.NoError(t, server.Close())

	require.Equal(t, store.JobCompleted, job.State)
	require.Less(t, time.Since(began), ingest.MaxHours*time.Hour, "rows that are settled by the clock are not verified")
	require.Greater(t, time.Since(began), time.Hour, "the limits held nothing up")
	harness.RequireCorrect(t, server.World, list, result.Bytes())
	harness.RequireWithinLimits(t, server.Referee.Report())
	require.Zero(t, job.Reasons["greylisted"], "the schedule outlasts every greylisting")
	require.EqualValues(t, bubbleRows-job.Blank, job.Counts["VALID"]+job.Counts["RISKY"]+job.Counts["INVALID"]+
		job.Counts["UNKNOWN"])
}

// slowReceiverList is a list with a fifth of its rows at slow receivers.
func slowReceiverList(t *testing.T, w *world.World) []byte {
	var out bytes.Buffer
	keep := csv.NewWriter(&out)
	rows, column := 0, -1
	harness.EachRow(t, w, bubbleDrawn, func(cells []string) bool {
		if column < 0 {
			column = slices.Index(cells, "email")
			require.NoError(t, keep.Write(cells))
			return true
		}
		if rows < bubbleOrdinary || slices.Contains(slowPersonas, harness.PersonaOf(w, cells[column])) {
			require.NoError(t, keep.Write(cells))
			rows++
		}
		return rows < bubbleRows
	})
	require.Equal(t, bubbleRows, rows, "the drawn list is too short")
	keep.Flush()
	return out.Bytes()
}

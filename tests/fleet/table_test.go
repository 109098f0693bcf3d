package fleet_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/results"
	"probity/engine"
	"probity/internal/detector"
)

// TestFleetChangesItsTable changes the coordinator's provider table while a job runs, with a node whose own table was
// different from the start: each row is judged by one table, no receiver's limit is exceeded, and no node is lost.
func TestFleetChangesItsTable(t *testing.T) {
	detector.Spare(t)
	withMemCluster(t, fleetSpeedup/4, 3, 2, func(ctx context.Context, f *memCluster, probers []*memProber) {
		probers[2].stop()
		time.Sleep(5 * time.Second) // the coordinator sees it leave, so that its share waits when it is back
		probers[2].ownTable = engine.DefaultTable()
		probers[2].start()
		f.waitUsable(3)
		require.Equal(t, f.table.Hash(), probers[2].lastTable().Hash(), "it took the coordinator's")
		next, err := f.table.Override([]byte("[[provider]]\nid = \"google\"\nname = \"Google, renamed\"\n"))
		require.NoError(t, err)

		list := f.list(4000, nil)
		id := f.coord.accept(ctx, t, list)
		time.Sleep(30 * time.Second)
		f.coord.reloadTable(next)
		time.Sleep(15 * time.Second)
		for _, s := range probers {
			require.Equal(t, next.Hash(), s.lastTable().Hash(), s.name)
		}
		f.waitUsable(3)
		require.NotContains(t, f.log.String(), "node dropped")
		f.requireStillRunning(id)
		f.requireCorrectEnd(ctx, id, list)
		var result bytes.Buffer
		require.NoError(t, f.coord.coordinator.Results(ctx, id, results.Filter{}, &result))
		rows, err := csv.NewReader(&result).ReadAll()
		require.NoError(t, err)
		column, names := slices.Index(rows[0], "verify_smtp_provider"), map[string]int{}
		for _, row := range rows[1:] {
			names[row[column]]++
		}
		require.Greater(t, names["Google"], 50)
		require.Greater(t, names["Google, renamed"], 50)
	})
}

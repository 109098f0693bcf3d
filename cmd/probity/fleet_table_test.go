package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/coordinator/results"
	"probity/engine"
)

// TestFleetChangesItsTable changes the coordinator's provider table while a job runs, with a node whose own table was different
// from the start: each row is judged by one table, no receiver's limit is exceeded, and no node is lost.
func TestFleetChangesItsTable(t *testing.T) {
	withMemCluster(t, fleetSpeedup/4, 3, 2, func(ctx context.Context, f *memCluster, probers []*memProber) {
		probers[2].stop()
		probers[2].ownTable = engine.DefaultTable()
		probers[2].start()
		f.waitUsable(3)
		require.Equal(t, f.table.Hash(), probers[2].lastTable().Hash(), "it took the coordinator's")
		next, err := f.table.Override([]byte("[[provider]]\nid = \"google\"\nname = \"Google, renamed\"\n"))
		require.NoError(t, err)

		list := f.list(4000, nil)
		id := f.coord.accept(t, ctx, list)
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

// TestReloadedTableReachesProbers reloads a coordinator with another --providers file: its prober uses that file instead of its own.
func TestReloadedTableReachesProbers(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes two processes; run without -short")
	}
	dir := t.TempDir()
	at := func(name ...string) string { return filepath.Join(append([]string{dir}, name...)...) }
	makeClusterCerts(t, at("certs"), "p1")
	hashOf := func(text string) string {
		table, err := engine.DefaultTable().Override([]byte(text))
		require.NoError(t, err)
		hash := table.Hash()
		return fmt.Sprintf("now=\"%x of ", hash[:])
	}
	const before, after, own = "[defaults.limits]\nconnections = 2\n", "[defaults.limits]\nconnections = 3\n", "[defaults.limits]\nconnections = 4\n"
	require.NoError(t, os.WriteFile(at("hub.toml"), []byte(before), 0o600))
	require.NoError(t, os.WriteFile(at("p1.toml"), []byte(own), 0o600))
	coord := startLogged(t, "coordinator", "--name", "hub", "--data", at("hub"), "--certs", at("certs"), "--cluster-listen", "127.77.1.1:17946", "--providers", at("hub.toml"),
		"--listen", "127.77.1.1:0", "--admin-listen", "127.77.1.1:0", "--dns", "127.77.1.1:53", "--disk-floor", "1")
	coord.waitForLog("msg=serving")
	prober := startLogged(t, "prober", "--name", "p1", "--data", at("p1"), "--certs", at("certs"), "--join", "127.77.1.1:17946", "--cluster-listen", "127.77.1.2:17946",
		"--node-listen", "127.77.1.2:17947", "--admin-listen", "127.77.1.2:0", "--dns", "127.77.1.1:53", "--egress", "127.77.1.2=p1.prober.example", "--providers", at("p1.toml"))
	prober.waitForLog(hashOf(before))
	coord.waitForLog(`msg="attached to the node"`)
	require.NoError(t, os.WriteFile(at("hub.toml"), []byte(after), 0o600))
	require.NoError(t, coord.cmd.Process.Signal(syscall.SIGHUP))
	prober.waitForLog(hashOf(after))
	require.NoError(t, prober.cmd.Process.Signal(syscall.SIGHUP))
	prober.waitForLog("the coordinator's provider table stays in force")
	require.NotContains(t, prober.logText(), hashOf(own))
	require.NotContains(t, coord.logText(), "not attached to the node", "it kept its stream")
}

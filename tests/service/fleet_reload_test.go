package service_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"probity/engine"
)

// TestReloadedTableReachesProbers reloads a coordinator with another --providers file: its prober uses that file
// instead of its own.
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
	const before, after, own = "[defaults.limits]\nconnections = 2\n", "[defaults.limits]\nconnections = 3\n",
		"[defaults.limits]\nconnections = 4\n"
	require.NoError(t, os.WriteFile(at("hub.toml"), []byte(before), 0o600))
	require.NoError(t, os.WriteFile(at("p1.toml"), []byte(own), 0o600))
	coord := startLogged(t, "coordinator", "--name", "hub", "--data", at("hub"), "--certs", at("certs"),
		"--cluster-listen", "127.77.1.1:17946", "--providers", at("hub.toml"),
		"--listen", "127.77.1.1:0", "--admin-listen", "127.77.1.1:0", "--dns", "127.77.1.1:53", "--disk-floor", "1")
	coord.waitForLog("msg=serving")
	prober := startLogged(t, "prober", "--name", "p1", "--data", at("p1"), "--certs", at("certs"), "--join",
		"127.77.1.1:17946", "--cluster-listen", "127.77.1.2:17946",
		"--node-listen", "127.77.1.2:17947", "--admin-listen", "127.77.1.2:0", "--dns", "127.77.1.1:53", "--egress",
		"127.77.1.2=p1.prober.example", "--providers", at("p1.toml"))
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

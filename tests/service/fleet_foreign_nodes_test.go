package service_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/tests/harness"
)

// loggedProcess is a process with a log that tests can wait for.
type loggedProcess struct {
	t   *testing.T
	cmd *exec.Cmd
	mu  sync.Mutex // guards log
	log bytes.Buffer
}

func (w *loggedProcess) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

func (w *loggedProcess) logText() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.String()
}

// startLogged starts this program, and ends it with the test.
func startLogged(t *testing.T, args ...string) *loggedProcess {
	t.Helper()
	w := &loggedProcess{t: t, cmd: harness.Command(context.Background(), args...)}
	w.cmd.Stderr = w
	require.NoError(t, w.cmd.Start())
	t.Cleanup(func() {
		_ = w.cmd.Process.Signal(syscall.SIGTERM)
		_ = w.cmd.Wait()
	})
	return w
}

// waitForLog waits for words in the log.
func (w *loggedProcess) waitForLog(words string) {
	w.t.Helper()
	require.Eventually(w.t, func() bool { return bytes.Contains([]byte(w.logText()), []byte(words)) }, 30*time.Second,
		100*time.Millisecond, "never said: %s\n%s", words, w)
}

func (w *loggedProcess) String() string { return w.logText() }

// makeClusterCerts makes the files of a cluster.
func makeClusterCerts(t *testing.T, dir string, nodes ...string) {
	t.Helper()
	makeCerts(t, dir, []string{"init"}, []string{"coordinator", "hub"}, append([]string{"node"}, nodes...))
}

// makeCerts runs commands of probity certs.
func makeCerts(t *testing.T, dir string, commands ...[]string) {
	t.Helper()
	for _, line := range commands {
		words, err := harness.Command(t.Context(),
			append(append([]string{"certs"}, line...), "--dir", dir)...).CombinedOutput()
		require.NoError(t, err, "%s", words)
	}
}

// TestForeignNodesAreRefused starts a coordinator and, one after another, foreign nodes: each is refused, and
// both sides log why.
func TestForeignNodesAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seven processes; run without -short")
	}
	dir := t.TempDir()
	at := func(name ...string) string { return filepath.Join(append([]string{dir}, name...)...) }
	makeClusterCerts(t, at("ours"), "p1", "p2", "p3", "p4", "p5", "p6")
	makeClusterCerts(t, at("theirs"), "p3")
	require.NoError(t, os.WriteFile(at("other.toml"), []byte("[defaults.limits]\nconnections = 1\n"), 0o600))
	coord := startLogged(t, "coordinator", "--name", "hub", "--data", at("hub"), "--certs", at("ours"),
		"--cluster-listen", "127.77.0.1:17946",
		"--listen", "127.77.0.1:0", "--admin-listen", "127.77.0.1:0", "--dns", "127.77.0.1:53", "--disk-floor", "1")
	coord.waitForLog("msg=serving")
	node := func(name, ip string, flags ...string) *loggedProcess {
		return startLogged(t, append([]string{"prober", "--name", name, "--data", at(name), "--certs", at("ours"),
			"--join", "127.77.0.1:17946", "--cluster-listen", ip + ":17946",
			"--node-listen", ip + ":17947", "--admin-listen", ip + ":0", "--dns", "127.77.0.1:53", "--egress",
			ip + "=" + name + ".prober.example"}, flags...)...)
	}

	key := node("p1", "127.77.0.11", "--cluster-key", at("theirs", "cluster.key"))
	key.waitForLog("no seed could be joined")
	coord.waitForLog("no installed keys could decrypt")

	label := node("p2", "127.77.0.12", "--cluster-label", "another")
	label.waitForLog("no seed could be joined")
	coord.waitForLog("unacceptable label")

	cert := node("p3", "127.77.0.13", "--node-cert", at("theirs", "p3.crt"), "--node-key", at("theirs", "p3.key"),
		"--node-ca", at("theirs", "ca.crt"))
	cert.waitForLog("refused a connection to this node")
	coord.waitForLog("certificate signed by unknown authority")

	terms := node("p4", "127.77.0.14", "--respect-terms")
	terms.waitForLog("cannot be used; taking no work")
	coord.waitForLog("give the coordinator --respect-terms too")

	wrongCert := node("p5", "127.77.0.15", "--node-cert", at("ours", "p6.crt"), "--node-key", at("ours", "p6.key"))
	wrongCert.waitForLog("is not p5's")
	require.Error(t, wrongCert.cmd.Wait())

	for _, n := range []*loggedProcess{key, label, cert} {
		require.NotContains(t, n.logText(), `msg="attached to a coordinator"`)
	}
	require.NotContains(t, coord.logText(), `msg="attached to the node"`)
	// a node of ours attaches, and takes over our table
	ours := node("p6", "127.77.0.16", "--providers", at("other.toml"))
	ours.waitForLog("attached to a coordinator")
	ours.waitForLog("a provider table is in force")
	coord.waitForLog(`msg="attached to the node"`)
}

package process_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"probity/bench/sim/referee"
	"probity/coordinator/fleet"
	"probity/tests/harness"
)

// netnsTest is a set of machines as network namespaces of this kernel, connected by a bridge. The test itself runs in
// one of them, so that the machine's own network is not touched: inNetworkNamespaces starts it again there.
type netnsTest struct {
	t        *testing.T
	ctx      context.Context
	name     string // of our namespace; those of machines begin with it
	dir      string
	programs map[string]string // programs of machines that do not run this one
	slowdown int               // divisor of the minute budgets that the receivers' speed-up allows; 0: none
}

const (
	netnsTestEnv       = "PROBITY_FLEET_YARD"
	bridgeAddress      = "10.77.0.1"
	simNetwork         = "10.78.0.0/16"
	simDNS             = "10.78.0.1:53"
	simReferee         = "10.78.0.1:8053"
	coordinatorAddress = "10.77.0.3"
)

// inNetworkNamespaces runs do in a namespace of its own, in a process of its own.
func inNetworkNamespaces(t *testing.T, patience time.Duration, do func(*netnsTest)) {
	if name := os.Getenv(netnsTestEnv); name != "" {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		do(&netnsTest{t: t, ctx: ctx, name: name, dir: t.TempDir()})
		return
	}
	if testing.Short() {
		t.Skip("it takes six processes and minutes; run without -short")
	}
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("network namespaces are Linux's, and for root to make")
	}
	name := fmt.Sprintf("pbt%d", os.Getpid())
	if words, err := exec.Command("ip", "netns", "add", name).CombinedOutput(); err != nil {
		t.Skipf("this machine forbids network namespaces: %v: %s", err, words)
	}
	t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", name).Run() })
	for _, line := range []string{"link set lo up", "link add br0 type bridge",
		"addr add " + bridgeAddress + "/16 dev br0", "link set br0 up"} {
		if words, err := exec.Command("ip", append([]string{"-n", name},
			strings.Fields(line)...)...).CombinedOutput(); err != nil {
			t.Skipf("this machine forbids bridges: %v: %s", err, words)
		}
	}
	harness.DependOnSources(t)
	inner := exec.Command("ip", "netns", "exec", name, os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v",
		"-test.timeout", (patience + time.Minute).String())
	inner.Env = append(os.Environ(), netnsTestEnv+"="+name)
	said, err := inner.CombinedOutput()
	t.Logf("%s", said)
	require.NoError(t, err)
}

// runIP runs ip in our namespace, or in a machine's.
func (y *netnsTest) runIP(machine, line string) {
	y.t.Helper()
	words, err := exec.Command("ip", append([]string{"-n", y.namespace(machine)},
		strings.Fields(line)...)...).CombinedOutput()
	require.NoError(y.t, err, "ip %s: %s", line, words)
}

func (y *netnsTest) namespace(machine string) string {
	if machine == "" {
		return y.name
	}
	return y.name + "-" + machine
}

// addMachine makes a machine with addresses on the bridge; it is removed at the end of the test.
func (y *netnsTest) addMachine(name string, addresses ...string) {
	ns := y.namespace(name)
	require.NoError(y.t, exec.Command("ip", "netns", "add", ns).Run())
	y.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
	y.runIP("", "link add v-"+name+" type veth peer name eth0 netns "+ns)
	y.runIP("", "link set v-"+name+" master br0")
	y.runIP("", "link set v-"+name+" up")
	y.runIP(name, "link set lo up")
	for _, a := range addresses {
		y.runIP(name, "addr add "+a+"/16 dev eth0")
	}
	y.runIP(name, "link set eth0 up")
	if name == "sim" {
		y.runIP(name, "route add local "+simNetwork+" dev lo")
		y.runIP("", "route add "+simNetwork+" via "+addresses[0])
		return
	}
	y.runIP(name, "route add "+simNetwork+" via 10.77.0.2")
}

func (y *netnsTest) path(name string) string { return filepath.Join(y.dir, name) }

// testProcess is a process on a machine.
type testProcess struct {
	cmd    *exec.Cmd
	exited chan struct{}

	mu  sync.Mutex // guards words
	log bytes.Buffer
}

// start runs this program on a machine until terminate; the end of the test kills it.
func (y *netnsTest) start(machine string, args ...string) *testProcess {
	y.t.Helper()
	inside := harness.Command(context.Background(), args...)
	program := cmp.Or(y.programs[machine], inside.Path)
	p := &testProcess{cmd: exec.Command("ip", append([]string{"netns", "exec", y.namespace(machine), program},
		args...)...), exited: make(chan struct{})}
	p.cmd.Env = inside.Env
	lines, err := p.cmd.StderrPipe()
	require.NoError(y.t, err)
	require.NoError(y.t, p.cmd.Start())
	go func() {
		defer close(p.exited)
		in := bufio.NewScanner(lines)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			p.mu.Lock()
			p.log.WriteString(in.Text() + "\n")
			p.mu.Unlock()
		}
		_ = p.cmd.Wait()
	}()
	y.t.Cleanup(func() {
		p.kill()
		if y.t.Failed() {
			y.t.Logf("%s: %s", machine, lastBytes(p.logText(), 4000))
		}
	})
	return p
}

// runInside runs this program on a machine to its end.
func (y *netnsTest) runInside(machine string, args ...string) ([]byte, error) {
	path := harness.Command(y.ctx, args...).Path
	return exec.CommandContext(y.ctx, "ip", append([]string{"netns", "exec", y.namespace(machine), path},
		args...)...).Output()
}

func lastBytes(s string, n int) string { return s[max(0, len(s)-n):] }

func (p *testProcess) logText() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

// kill sends SIGKILL.
func (p *testProcess) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

// terminate sends SIGTERM, and returns how long the process took to end.
func (p *testProcess) terminate() time.Duration {
	began := time.Now()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.exited
	return time.Since(began)
}

// waitFor waits until a condition holds.
func (y *netnsTest) waitFor(what string, is func() bool) {
	y.t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-y.ctx.Done():
			require.Fail(y.t, "too late: "+what)
		}
	}
}

func (y *netnsTest) getJSON(url string, v any) error {
	ctx, cancel := context.WithTimeout(y.ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return json.NewDecoder(resp.Body).Decode(v)
}

// startSimulator starts the simulated internet on a machine of its own.
func (y *netnsTest) startSimulator(speedup int) {
	y.addMachine("sim", "10.77.0.2")
	y.start("sim", "sim", "serve", "--network", simNetwork, "--dns", simDNS, "--http", simReferee, "--smtp-port", "25",
		"--speedup", strconv.Itoa(speedup))
	harness.WriteOutput(y.ctx, y.t, y.path("providers.toml"), "sim", "providers", "--speedup", strconv.Itoa(speedup))
	y.lowerMinuteBudgets()
	y.waitFor("the simulated internet is up", func() bool {
		return y.getJSON("http://"+simReferee+"/referee",
			&referee.Report{}) == nil
	})
}

func (y *netnsTest) referee() (r referee.Report) {
	require.NoError(y.t, y.getJSON("http://"+simReferee+"/referee", &r))
	return r
}

// makeCerts makes the files of a cluster with these nodes.
func (y *netnsTest) makeCerts(nodes ...string) {
	for _, line := range [][]string{{"init"}, {"coordinator", "hub"}, append([]string{"node"}, nodes...)} {
		words, err := harness.Command(y.ctx, append(append([]string{"certs"}, line...), "--dir",
			y.path("certs"))...).CombinedOutput()
		require.NoError(y.t, err, "%s", words)
	}
}

func (y *netnsTest) startCoordinator(flags ...string) *testProcess {
	return y.start("hub", append([]string{"coordinator", "--name", "hub", "--data", y.path("hub"), "--certs",
		y.path("certs"), "--cluster-listen", coordinatorAddress + ":7946",
		"--listen", coordinatorAddress + ":8080", "--admin-listen", coordinatorAddress + ":9090", "--dns", simDNS,
		"--smtp-port", "25", "--allow-private-targets",
		"--providers", y.path("providers.toml"), "--disk-floor", "1"}, flags...)...)
}

// startProber starts node pN at 10.77.0.1N, which probes from 10.77.1.N and 10.77.2.N.
func (y *netnsTest) startProber(n int, flags ...string) *testProcess {
	name := fmt.Sprintf("p%d", n)
	return y.start(name, append([]string{"prober", "--name", name, "--data", y.path(name), "--certs", y.path("certs"),
		"--join", coordinatorAddress + ":7946",
		"--cluster-listen", proberAddress(n) + ":7946", "--node-listen", proberAddress(n) + ":7947", "--admin-listen",
		proberAddress(n) + ":9090",
		"--dns", simDNS, "--smtp-port", "25", "--allow-private-targets", "--providers", y.path("providers.toml"),
		"--mail-from", "probe@prober.example",
		"--egress", fmt.Sprintf("10.77.1.%d=mx%d-1.prober.example", n, n), "--egress",
		fmt.Sprintf("10.77.2.%d=mx%d-2.prober.example", n, n)}, flags...)...)
}

func proberAddress(n int) string { return fmt.Sprintf("10.77.0.%d", 10+n) }

// clusterReport is the coordinator's report; empty while it is down.
func (y *netnsTest) clusterReport() (r fleet.ClusterReport) {
	_ = y.getJSON("http://"+coordinatorAddress+":9090/debug/cluster", &r)
	return r
}

func (y *netnsTest) hasUsable(want int) bool {
	n := 0
	for _, node := range y.clusterReport().Nodes {
		if node.Usable {
			n++
		}
	}
	return n == want
}

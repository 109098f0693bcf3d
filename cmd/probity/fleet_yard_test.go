package main

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

	"probity/bench/sim"
	"probity/coordinator/fleet"
)

// yard is machines as network namespaces of this kernel, joined by a bridge. The test itself runs in one of them, so that
// nothing of the machine's own network is touched: inYard begins it again there.
type yard struct {
	t    *testing.T
	ctx  context.Context
	name string // of our namespace; those of machines begin with it
	dir  string
	runs map[string]string // the program of machines that run another one than this
	pace int               // the recipients of a minute are so many times fewer than the receivers' speed-up allows; 0: as many
}

const (
	yardEnv     = "PROBITY_FLEET_YARD"
	yardAddress = "10.77.0.1"
	simNetwork  = "10.78.0.0/16"
	simDNS      = "10.78.0.1:53"
	simReferee  = "10.78.0.1:8053"
	hubAddress  = "10.77.0.3"
)

// inYard runs do in a namespace of its own, in a process of its own.
func inYard(t *testing.T, patience time.Duration, do func(*yard)) {
	if name := os.Getenv(yardEnv); name != "" {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		do(&yard{t: t, ctx: ctx, name: name, dir: t.TempDir()})
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
	for _, line := range []string{"link set lo up", "link add br0 type bridge", "addr add " + yardAddress + "/16 dev br0", "link set br0 up"} {
		if words, err := exec.Command("ip", append([]string{"-n", name}, strings.Fields(line)...)...).CombinedOutput(); err != nil {
			t.Skipf("this machine forbids bridges: %v: %s", err, words)
		}
	}
	inner := exec.Command("ip", "netns", "exec", name, os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v", "-test.timeout", (patience + time.Minute).String())
	inner.Env = append(os.Environ(), yardEnv+"="+name)
	said, err := inner.CombinedOutput()
	t.Logf("%s", said)
	require.NoError(t, err)
}

// ip runs ip in our namespace, or in a machine's.
func (y *yard) ip(machine, line string) {
	y.t.Helper()
	words, err := exec.Command("ip", append([]string{"-n", y.ns(machine)}, strings.Fields(line)...)...).CombinedOutput()
	require.NoError(y.t, err, "ip %s: %s", line, words)
}

func (y *yard) ns(machine string) string {
	if machine == "" {
		return y.name
	}
	return y.name + "-" + machine
}

// machine makes one, with addresses on the bridge; it ends with the test.
func (y *yard) machine(name string, addresses ...string) {
	ns := y.ns(name)
	require.NoError(y.t, exec.Command("ip", "netns", "add", ns).Run())
	y.t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", ns).Run() })
	y.ip("", "link add v-"+name+" type veth peer name eth0 netns "+ns)
	y.ip("", "link set v-"+name+" master br0")
	y.ip("", "link set v-"+name+" up")
	y.ip(name, "link set lo up")
	for _, a := range addresses {
		y.ip(name, "addr add "+a+"/16 dev eth0")
	}
	y.ip(name, "link set eth0 up")
	if name == "sim" {
		y.ip(name, "route add local "+simNetwork+" dev lo")
		y.ip("", "route add "+simNetwork+" via "+addresses[0])
		return
	}
	y.ip(name, "route add "+simNetwork+" via 10.77.0.2")
}

func (y *yard) at(name string) string { return filepath.Join(y.dir, name) }

// started is a process on a machine.
type started struct {
	cmd   *exec.Cmd
	ended chan struct{}

	mu    sync.Mutex // guards words
	words bytes.Buffer
}

// start runs this program on a machine until it is told to end; the test's end kills it.
func (y *yard) start(machine string, args ...string) *started {
	y.t.Helper()
	inside := command(context.Background(), args...)
	program := cmp.Or(y.runs[machine], inside.Path)
	p := &started{cmd: exec.Command("ip", append([]string{"netns", "exec", y.ns(machine), program}, args...)...), ended: make(chan struct{})}
	p.cmd.Env = inside.Env
	lines, err := p.cmd.StderrPipe()
	require.NoError(y.t, err)
	require.NoError(y.t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		in := bufio.NewScanner(lines)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			p.mu.Lock()
			p.words.WriteString(in.Text() + "\n")
			p.mu.Unlock()
		}
		_ = p.cmd.Wait()
	}()
	y.t.Cleanup(func() {
		p.kill()
		if y.t.Failed() {
			y.t.Logf("%s: %s", machine, tail(p.said(), 4000))
		}
	})
	return p
}

// inside runs this program on a machine to its end.
func (y *yard) inside(machine string, args ...string) ([]byte, error) {
	path := command(y.ctx, args...).Path
	return exec.CommandContext(y.ctx, "ip", append([]string{"netns", "exec", y.ns(machine), path}, args...)...).Output()
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

func (p *started) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.words.String()
}

// kill is SIGKILL: nothing is said, nothing written.
func (p *started) kill() {
	_ = p.cmd.Process.Kill()
	<-p.ended
}

// end is SIGTERM; it says how long the process took.
func (p *started) end() time.Duration {
	began := time.Now()
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	<-p.ended
	return time.Since(began)
}

// until waits for something that a process brings about.
func (y *yard) until(what string, is func() bool) {
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

func (y *yard) get(url string, v any) error {
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

// internet starts the pretend internet on a machine of its own.
func (y *yard) internet(speedup int) {
	y.machine("sim", "10.77.0.2")
	y.start("sim", "sim", "serve", "--network", simNetwork, "--dns", simDNS, "--http", simReferee, "--smtp-port", "25", "--speedup", strconv.Itoa(speedup))
	produce(y.ctx, y.t, y.at("providers.toml"), "sim", "providers", "--speedup", strconv.Itoa(speedup))
	y.slow()
	y.until("the pretend internet is up", func() bool { return y.get("http://"+simReferee+"/referee", &sim.Report{}) == nil })
}

func (y *yard) referee() (r sim.Report) {
	require.NoError(y.t, y.get("http://"+simReferee+"/referee", &r))
	return r
}

// certs makes the files of a cluster with these nodes.
func (y *yard) certs(nodes ...string) {
	for _, line := range [][]string{{"init"}, {"coordinator", "hub"}, append([]string{"node"}, nodes...)} {
		words, err := command(y.ctx, append(append([]string{"certs"}, line...), "--dir", y.at("certs"))...).CombinedOutput()
		require.NoError(y.t, err, "%s", words)
	}
}

func (y *yard) hub(flags ...string) *started {
	return y.start("hub", append([]string{"coordinator", "--name", "hub", "--data", y.at("hub"), "--certs", y.at("certs"), "--cluster-listen", hubAddress + ":7946",
		"--listen", hubAddress + ":8080", "--admin-listen", hubAddress + ":9090", "--dns", simDNS, "--smtp-port", "25", "--allow-private-targets",
		"--providers", y.at("providers.toml"), "--disk-floor", "1"}, flags...)...)
}

// prober starts node pN at 10.77.0.1N, which asks from 10.77.1.N and 10.77.2.N.
func (y *yard) prober(n int, flags ...string) *started {
	name := fmt.Sprintf("p%d", n)
	return y.start(name, append([]string{"prober", "--name", name, "--data", y.at(name), "--certs", y.at("certs"), "--join", hubAddress + ":7946",
		"--cluster-listen", proberAddress(n) + ":7946", "--node-listen", proberAddress(n) + ":7947", "--admin-listen", proberAddress(n) + ":9090",
		"--dns", simDNS, "--smtp-port", "25", "--allow-private-targets", "--providers", y.at("providers.toml"), "--mail-from", "probe@prober.example",
		"--egress", fmt.Sprintf("10.77.1.%d=mx%d-1.prober.example", n, n), "--egress", fmt.Sprintf("10.77.2.%d=mx%d-2.prober.example", n, n)}, flags...)...)
}

func proberAddress(n int) string { return fmt.Sprintf("10.77.0.%d", 10+n) }

// cluster is what the coordinator shows; empty while it is not there.
func (y *yard) cluster() (r fleet.ClusterReport) {
	_ = y.get("http://"+hubAddress+":9090/debug/cluster", &r)
	return r
}

func (y *yard) usable(want int) bool {
	n := 0
	for _, node := range y.cluster().Nodes {
		if node.Usable {
			n++
		}
	}
	return n == want
}

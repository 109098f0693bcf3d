//go:build linux

package mta

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	cacheEnv  = "PROBITY_MTA"      // folder of the systems and programs, made by make mta
	insideEnv = "PROBITY_MTA_WORK" // set in the namespaces: an empty folder

	prefixLength  = "/16"
	proberAddress = "10.79.0.1" // also the name server's
	// source of the checks that servers are up, so that no server knows the prober's address before its probes
	checkAddress = "10.79.0.2"
	startTimeout = 30 * time.Second
)

// testNetwork is a network of machines. The prober's is the namespace that the test itself runs in.
type testNetwork struct {
	cache      string // read only: systems, and bin with programs
	work       string // a file system in memory
	nameServer *nameServer

	mu       sync.Mutex // guards machines
	machines int
}

// TestMailServers runs each server with each of its configurations, and prints the results.
func TestMailServers(t *testing.T) {
	if !inNamespaces(t) {
		return
	}
	l := newTestNetwork(t)
	var results []*result
	t.Run("server", func(t *testing.T) {
		for _, s := range allSetups() {
			r := &result{setup: s}
			results = append(results, r)
			t.Run(s.server+"/"+s.configuration, func(t *testing.T) {
				t.Parallel()
				l.verifySetup(t, s, r)
			})
		}
	})
	t.Logf("\n%s", resultTable(results))
}

// inNamespaces reports whether it runs in the namespaces. Outside it runs this test again in new ones, to its end. The
// inner process is the first of its process namespace: when it ends, so do all processes that it started, all mounts
// and all interfaces.
func inNamespaces(t *testing.T) bool {
	if os.Getenv(insideEnv) != "" {
		return true
	}
	if os.Getenv(cacheEnv) == "" {
		t.Skipf("real mail servers are asked only when told to: run make mta as root (%s is not set)", cacheEnv)
	}
	if os.Getuid() != 0 {
		t.Skip("chroots and network namespaces are for root to make: run make mta as root")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	inner := exec.CommandContext(t.Context(), self, os.Args[1:]...)
	work := t.TempDir()
	// temporary folders of the test are in memory, too
	inner.Env = append(os.Environ(), insideEnv+"="+work, "TMPDIR="+work)
	inner.Stdout, inner.Stderr = os.Stdout, os.Stderr
	inner.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	runtime.LockOSThread() // Pdeathsig is sent when this thread ends
	defer runtime.UnlockOSThread()
	require.NoError(t, inner.Run(), "the servers' test, in its namespaces")
	return false
}

// newTestNetwork makes a test network in fresh namespaces: mounts, a bridge, and a name server.
func newTestNetwork(t *testing.T) *testNetwork {
	l := &testNetwork{cache: os.Getenv(cacheEnv), work: os.Getenv(insideEnv)}
	require.NoError(t, syscall.Mount("none", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	require.NoError(t, syscall.Mount("proc", "/proc", "proc", 0, ""))
	require.NoError(t, syscall.Mount("tmpfs", "/run", "tmpfs", 0, "")) // ip keeps names of namespaces there
	require.NoError(t, syscall.Mount("tmpfs", l.work, "tmpfs", 0, ""))
	l.ip(t, "link set lo up")
	l.ip(t, "link add br0 type bridge")
	l.ip(t, "link set br0 up")
	l.ip(t, "addr add "+proberAddress+prefixLength+" dev br0")
	l.ip(t, "addr add "+checkAddress+prefixLength+" dev br0")
	l.nameServer = newNameServer(t, proberAddress)
	l.nameServer.addHost(t, "mx.prober.example", proberAddress)
	l.nameServer.addDomain(t, "prober.example", "mx.prober.example")
	l.nameServer.addDomain(t, "silent.example", "mx.silent.example")
	l.nameServer.addHost(t, "mx.silent.example", checkAddress) // nothing listens there
	startSenderServer(t, net.JoinHostPort(proberAddress, "25"))
	return l
}

func (l *testNetwork) ip(t *testing.T, line string) {
	t.Helper()
	output, err := exec.CommandContext(t.Context(), "ip", strings.Fields(line)...).CombinedOutput()
	require.NoError(t, err, "ip %s: %s", line, output)
}

// machine is one system with an address, in a network namespace and a folder of its own.
type machine struct {
	name, address, root string
	log                 string // file that its processes write to
}

// newMachine mounts a layer in memory over a cached system and connects the machine to the bridge.
func (l *testNetwork) newMachine(t *testing.T, system string) *machine {
	l.mu.Lock()
	l.machines++
	n := l.machines
	l.mu.Unlock()
	m := &machine{name: fmt.Sprintf("m%d", n), address: fmt.Sprintf("10.79.1.%d", n)}
	dir := filepath.Join(l.work, m.name)
	m.root, m.log = filepath.Join(dir, "root"), filepath.Join(dir, "log")
	for _, sub := range []string{"root", "upper", "scratch"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
	}
	layers := "lowerdir=" + filepath.Join(l.cache, system) + ",upperdir=" + filepath.Join(dir, "upper") + ",workdir=" +
		filepath.Join(dir, "scratch")
	require.NoError(t, syscall.Mount("overlay", m.root, "overlay", 0, layers), "%s in %s: make mta makes it", system,
		l.cache)
	require.NoError(t, syscall.Mount("proc", filepath.Join(m.root, "proc"), "proc", 0, ""))

	l.ip(t, "netns add "+m.name)
	l.ip(t, "link add v-"+m.name+" type veth peer name eth0 netns "+m.name)
	l.ip(t, "link set v-"+m.name+" master br0 up")
	l.ip(t, "-n "+m.name+" link set lo up")
	l.ip(t, "-n "+m.name+" addr add "+m.address+prefixLength+" dev eth0")
	l.ip(t, "-n "+m.name+" link set eth0 up")
	m.write(t, "etc/resolv.conf", "nameserver "+proberAddress+"\n")
	return m
}

func (m *machine) write(t *testing.T, path, content string) {
	t.Helper()
	path = filepath.Join(m.root, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

// mountProgram mounts a program of the cache's bin in /usr/local/bin of the machine.
func (l *testNetwork) mountProgram(t *testing.T, m *machine, name string) {
	m.write(t, "usr/local/bin/"+name, "")
	at := filepath.Join(m.root, "usr/local/bin", name)
	require.NoError(t, syscall.Mount(filepath.Join(l.cache, "bin", name), at, "", syscall.MS_BIND, ""))
}

func (m *machine) command(ctx context.Context, line string) *exec.Cmd {
	return exec.CommandContext(ctx, "ip", "netns", "exec", m.name, "chroot", m.root, "/bin/sh", "-c", "exec "+line)
}

// run runs a command on the machine to its end.
func (m *machine) run(t *testing.T, line string) {
	t.Helper()
	output, err := m.command(t.Context(), line).CombinedOutput()
	require.NoError(t, err, "%s: %s", line, output)
}

// start runs a command on the machine until the test ends. If it still runs then, it gets SIGTERM, and after a while
// SIGKILL.
func (m *machine) start(t *testing.T, line string) {
	t.Helper()
	out, err := os.OpenFile(m.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	p := m.command(t.Context(), line)
	p.Stdout, p.Stderr = out, out
	p.Cancel = func() error { return p.Process.Signal(syscall.SIGTERM) }
	p.WaitDelay = 5 * time.Second
	require.NoError(t, p.Start())
	t.Cleanup(func() { // the test's context has ended
		_ = p.Wait() // the exit status of a terminated server does not matter
		out.Close()
	})
}

// waitForBanner waits until the machine sends an SMTP banner.
func (m *machine) waitForBanner(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(checkAddress)}}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := checkBanner(ctx, d, net.JoinHostPort(m.address, "25"))
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			require.NoError(t, err, "the server is not up after %s", startTimeout)
		}
	}
}

func checkBanner(ctx context.Context, d net.Dialer, at string) error {
	c, err := d.DialContext(ctx, "tcp", at)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(startTimeout)); err != nil {
		return err
	}
	banner := make([]byte, 3)
	if _, err := c.Read(banner); err != nil {
		return err
	}
	if string(banner) != "220" {
		return fmt.Errorf("banner begins with %q", banner)
	}
	_, err = c.Write([]byte("QUIT\r\n"))
	return err
}

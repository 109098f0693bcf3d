package service_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"probity/bench/sim/referee"
	"probity/bench/sim/world"
	"probity/store"
	"probity/tests/harness"
)

// Timeouts of all stories together, by default and with an upload of a requested size.
const (
	serviceDeadline       = 10 * time.Minute
	serviceDeadlineByHand = 2 * time.Hour
)

// serviceEnv is what the tests of the service share: one simulated internet and its files.
type serviceEnv struct {
	internet
	processCtx context.Context // of processes
	ctx        context.Context // of waits
	world      *world.World    // of the simulated internet

	overrides string // of the provider table
}

// TestService runs `probity serve` as a process against `sim serve`, and uses it as its customers do.
func TestService(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes real processes and some 20 s; run without -short")
	}
	// Processes continue after the deadline, so that a slow one can be inspected; t.Context() ends before they do.
	lives, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	deadline := serviceDeadline
	if _, byHand := uploadRows(t); byHand {
		deadline = serviceDeadlineByHand
	}
	ctx, cancel := context.WithTimeout(lives, deadline)
	t.Cleanup(cancel)
	p := &serviceEnv{processCtx: lives, ctx: ctx, world: world.New(world.Config{Seed: 1}),
		internet:  startInternet(lives, t),
		overrides: filepath.Join(t.TempDir(), "providers.toml")}
	harness.WriteOutput(ctx, t, p.overrides, "sim", "providers", "--speedup", strconv.Itoa(systemSpeedup))
	for name, test := range map[string]func(*testing.T, *serviceEnv){
		"ledger": testLedger, "same key": testIdempotencyKey, "callbacks": testCallbacks, "revoked": testRevokedKey,
		"upload": testUpload, "killed": testKilledServer, "bad input": testBadInput, "restored": testRestore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, p)
		})
	}
	// after the stories, which run at the same time
	t.Cleanup(func() { harness.RequireWithinLimits(t, dropAllSourceEntries(p.referee(lives, t))) })
}

// dropAllSourceEntries drops the referee's entries over all sources: the servers of the stories are not a cluster, and
// do not know of each other.
func dropAllSourceEntries(r referee.Report) referee.Report {
	r.By = slices.DeleteFunc(r.By, func(e referee.Entry) bool { return e.Source == "every source" })
	return r
}

// serveArgs is the command line of a server over a folder of data. Each has its own source address, so that the referee
// counts them separately: the budgets of two servers add up.
func (p *serviceEnv) serveArgs(data, egress string, flags ...string) []string {
	return append([]string{"serve", "--data", data, "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--dns",
		p.dns, "--smtp-port", p.smtp,
		"--allow-private-targets", "--providers", p.overrides, "--mail-from", "probe@prober.example", "--egress",
		egress + "=mx.prober.example",
		"--allow-private-callbacks", "127.0.0.0/8", "--disk-floor", "1"}, flags...)
}

// withStoppedStore opens the store of a server that is not running.
func withStoppedStore(t *testing.T, data string, do func(*store.Store)) {
	t.Helper()
	s, err := store.Open(vfs.Default, filepath.Join(data, "state"))
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	do(s)
}

// serverProcess is `probity serve` in a process of its own.
type serverProcess struct {
	process    *exec.Cmd
	listenAddr chan string // the public address, once
	base       string      // URL of the public listener
	exited     chan struct{}
	err        error // of its end; read after ended

	mu  sync.Mutex // guards the log
	log bytes.Buffer
}

var serveLogLine = regexp.MustCompile(`msg=serving public=(\S+) admin=\S+`)

// startServer returns once the server listens.
func startServer(t *testing.T, p *serviceEnv, data, egress string, flags ...string) *serverProcess {
	t.Helper()
	s := launchServer(t, p, data, egress, flags...)
	s.awaitListening(t)
	return s
}

// launchServer returns once there is a process. The caller stops or kills it; if a test fails before, it is killed.
func launchServer(t *testing.T, p *serviceEnv, data, egress string, flags ...string) *serverProcess {
	t.Helper()
	s := &serverProcess{process: harness.Command(p.processCtx, p.serveArgs(data, egress, flags...)...),
		listenAddr: make(chan string, 1), exited: make(chan struct{})}
	lines, err := s.process.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, s.process.Start())
	t.Cleanup(s.kill)
	go func() {
		defer close(s.exited)
		in := bufio.NewScanner(lines)
		in.Buffer(nil, 1<<20)
		for in.Scan() {
			s.appendLog(in.Text())
			if found := serveLogLine.FindStringSubmatch(in.Text()); found != nil {
				s.listenAddr <- found[1]
			}
		}
		s.err = s.process.Wait()
	}()
	return s
}

// awaitListening waits until the server listens, and records the address.
func (s *serverProcess) awaitListening(t *testing.T) {
	t.Helper()
	select {
	case address := <-s.listenAddr:
		s.base = "http://" + address
	case <-s.exited:
		require.Fail(t, "the server ended before it listened", "%v: %s", s.err, s.logText())
	}
}

func (s *serverProcess) appendLog(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.WriteString(line + "\n")
}

// logText returns what the server has written to its log.
func (s *serverProcess) logText() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

// stop ends the server as an operator does, and requires exit status 0.
func (s *serverProcess) stop(t *testing.T) {
	t.Helper()
	require.NoError(t, s.process.Process.Signal(syscall.SIGTERM))
	<-s.exited
	require.NoError(t, s.err, s.logText())
	s.requireNoErrors(t)
}

// kill ends it with SIGKILL. For an ended process it does nothing.
func (s *serverProcess) kill() {
	_ = s.process.Process.Kill()
	<-s.exited
}

// requireNoErrors requires that the server had no error.
func (s *serverProcess) requireNoErrors(t *testing.T) {
	t.Helper()
	for _, bad := range []string{"DATA RACE", "panic", "BUG:", "level=ERROR"} {
		require.NotContains(t, s.logText(), bad)
	}
}

// memoryUse is the current and the highest resident memory of the server, in bytes.
func (s *serverProcess) memoryUse(t *testing.T) (now, peak int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Process.Pid))
	if err != nil {
		t.Skipf("this system does not tell what memory a process has: %v", err)
	}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		switch name {
		case "VmRSS":
			now = kilobytes << 10
		case "VmHWM":
			peak = kilobytes << 10
		}
	}
	require.Positive(t, peak)
	return now, peak
}

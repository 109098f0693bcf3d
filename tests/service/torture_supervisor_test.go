package service_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"probity/tests/harness"
)

// supervisor keeps one process running, as an init system does: however it ends, it is started again.
type supervisor struct {
	t          *testing.T
	name       string
	args       []string
	admin      string // its admin listener
	diskSocket string // of its disk
	done       chan struct{}

	mu            sync.Mutex // guards what follows
	cmd           *exec.Cmd  // nil between two runs
	stopped       bool       // by SIGSTOP
	stopping      bool       // it must not start again
	lowMemory     bool       // its next run gets little memory
	beforeRestart []func()   // called before its next run
	starts        int
	failures      []string // forbidden lines of its log, with the lines that follow
	followLines   int      // lines that still belong to the last failure
	recentLines   []string // lines of its log
}

const (
	restartDelay    = 100 * time.Millisecond // between two runs
	keptLogLines    = 60                     // lines of its log that are kept
	stackLines      = 40                     // after a forbidden line
	lowMemoryEnv    = "GOMEMLIMIT=40MiB"
	shutdownTimeout = 40 * time.Second // of a process after SIGTERM
)

// supervise starts a process and keeps it running until stop.
func supervise(t *testing.T, dir, name, admin string, args []string) *supervisor {
	k := &supervisor{t: t, name: name, args: args, admin: admin, diskSocket: filepath.Join(dir, name+".sock"),
		done: make(chan struct{})}
	go k.run()
	return k
}

func (k *supervisor) run() {
	defer close(k.done)
	for {
		if !k.runOnce() {
			return
		}
		<-time.After(restartDelay)
	}
}

// runOnce is one run; false if there must be none.
func (k *supervisor) runOnce() bool {
	c := harness.CommandNamed(context.Background(), harness.FaultyDiskProgram, k.args...)
	c.Env = append(c.Env, harness.FaultyDiskEnv+"="+k.diskSocket)
	words, err := c.StderrPipe()
	if err != nil {
		k.recordFailure(err.Error())
		return false
	}
	if !k.startProcess(c) {
		return false
	}
	in := bufio.NewScanner(words)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		k.checkLine(in.Text())
	}
	_ = c.Wait() // its log shows how it ended
	k.mu.Lock()
	down := k.beforeRestart
	k.cmd, k.stopped, k.beforeRestart = nil, false, nil
	k.mu.Unlock()
	for _, do := range down {
		do()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.stopping
}

func (k *supervisor) startProcess(c *exec.Cmd) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stopping {
		return false
	}
	if k.lowMemory {
		c.Env = append(c.Env, lowMemoryEnv)
		k.lowMemory = false
	}
	if err := c.Start(); err != nil {
		k.failures = append(k.failures, err.Error())
		return false
	}
	k.cmd = c
	k.starts++
	return true
}

// allowedFailures are the log lines of a process that ends because its disk failed: ours, or those of the database,
// which panics in a goroutine of its own if it cannot be opened (its table statistics outlive its file cache), or if
// there is no space for another log.
var allowedFailures = []string{"state store cannot go on", "cache cannot go on", "pebble/v2.(*DB).collectTableStats",
	"pebble/v2.Open(", "pebble/v2.(*DB).rotateWAL"}

// checkLine keeps a line, and records a failure for a forbidden one.
func (k *supervisor) checkLine(line string) {
	k.mu.Lock()
	k.recentLines = append(k.recentLines, line)
	if len(k.recentLines) > keptLogLines {
		k.recentLines = k.recentLines[1:]
	}
	if k.followLines > 0 && len(k.failures) > 0 {
		k.followLines--
		k.failures[len(k.failures)-1] += "\n" + line
		k.mu.Unlock()
		return
	}
	k.mu.Unlock()
	for _, word := range []string{"panic:", "fatal error:", "BUG:", "DATA RACE", "handler panicked"} {
		if strings.Contains(line, word) {
			k.recordFailure(line)
			return
		}
	}
}

// logFailures logs what was forbidden in its log, if the test failed.
func (k *supervisor) logFailures(t *testing.T) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if t.Failed() && len(k.failures) > 0 {
		t.Log(strings.Join(k.failures, "\n"))
	}
}

func (k *supervisor) recordFailure(line string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.failures, k.followLines = append(k.failures, k.name+": "+line), stackLines
}

// signal sends a signal to the current process; false if there is none.
func (k *supervisor) signal(s os.Signal) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil || k.cmd.Process.Signal(s) != nil {
		return false
	}
	switch s {
	case syscall.SIGSTOP:
		k.stopped = true
	case syscall.SIGCONT:
		k.stopped = false
	}
	return true
}

// killWithLowMemory kills the process and gives its next run little memory.
func (k *supervisor) killWithLowMemory() bool {
	k.mu.Lock()
	k.lowMemory = true
	k.mu.Unlock()
	return k.signal(syscall.SIGKILL)
}

// killThen kills the process; do is called before its next run. It returns false if there is no process.
func (k *supervisor) killThen(do func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil || k.cmd.Process.Kill() != nil {
		return false
	}
	k.beforeRestart = append(k.beforeRestart, do)
	return true
}

// exhaustDescriptors leaves the process a few descriptors more than it has. The returned function restores its limit.
func (k *supervisor) exhaustDescriptors(more int) (heal func(), ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil {
		return nil, false
	}
	pid := k.cmd.Process.Pid
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return nil, false
	}
	var had syscall.Rlimit
	if limitFiles(pid, nil, &had) != nil {
		return nil, false
	}
	lowLimit := syscall.Rlimit{Cur: uint64(len(open) + more), Max: had.Max}
	if limitFiles(pid, &lowLimit, nil) != nil {
		return nil, false
	}
	startNumber := k.starts
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.cmd != nil && k.starts == startNumber {
			_ = limitFiles(pid, &had, nil) // the process may have ended
		}
	}, true
}

// limitFiles is prlimit(2) of RLIMIT_NOFILE.
func limitFiles(pid int, set, get *syscall.Rlimit) error {
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_NOFILE,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(get)), 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// socketCount counts the descriptors of the process that are neither files nor what the runtime needs.
func (k *supervisor) socketCount() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil {
		return -1
	}
	dir, n := fmt.Sprintf("/proc/%d/fd", k.cmd.Process.Pid), 0
	open, _ := os.ReadDir(dir)
	for _, f := range open {
		if to, err := os.Readlink(filepath.Join(dir, f.Name())); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// goroutineCount asks the process for its number of goroutines; -1 if it does not answer.
func (k *supervisor) goroutineCount() int {
	text, err := fetchPage("http://" + k.admin + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		return -1
	}
	line, _, _ := strings.Cut(text, "\n")
	n, err := strconv.Atoi(strings.TrimPrefix(line, "goroutine profile: total "))
	if err != nil {
		return -1
	}
	return n
}

// stop ends the process as an operator does.
func (k *supervisor) stop() {
	k.mu.Lock()
	k.stopping = true
	c := k.cmd
	k.mu.Unlock()
	if c != nil {
		k.signal(syscall.SIGCONT)
		k.signal(syscall.SIGTERM)
		late := time.AfterFunc(shutdownTimeout, func() {
			k.recordFailure("it did not end by itself")
			k.signal(syscall.SIGKILL)
		})
		defer late.Stop()
	}
	<-k.done
}

// requireNoFailures requires that no run has logged a forbidden line.
func (k *supervisor) requireNoFailures(t *testing.T) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, words := range k.failures {
		if !slices.ContainsFunc(allowedFailures, func(known string) bool { return strings.Contains(words, known) }) {
			t.Error(words)
		}
	}
}

// fetchPage reads a page of an admin listener.
func fetchPage(url string) (string, error) {
	web := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := web.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

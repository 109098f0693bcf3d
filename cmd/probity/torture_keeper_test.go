package main

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
)

// keeper keeps one process alive, as the init system of a machine does: however it ends, it begins again.
type keeper struct {
	t      *testing.T
	name   string
	args   []string
	admin  string // its admin listener
	socket string // of its disk
	done   chan struct{}

	mu      sync.Mutex // guards what follows
	cmd     *exec.Cmd  // nil between two lives
	stopped bool       // by SIGSTOP
	ending  bool       // it shall not begin again
	poor    bool       // its next life gets little memory
	down    []func()   // what happens before its next life
	lives   int
	bad     []string // lines of its log that nothing excuses, with what follows them
	follow  int      // lines that still belong to the last of them
	last    []string // lines of its log
}

const (
	keeperRest   = 100 * time.Millisecond // between two lives
	keeperLines  = 60                     // of its log are kept
	stackLines   = 40                     // behind a line that nothing excuses
	littleMemory = "GOMEMLIMIT=40MiB"
	longestEnd   = 40 * time.Second // of a process that is told to end
)

// keep starts a process and keeps it until end.
func keep(t *testing.T, dir, name, admin string, args []string) *keeper {
	k := &keeper{t: t, name: name, args: args, admin: admin, socket: filepath.Join(dir, name+".sock"), done: make(chan struct{})}
	go k.run()
	return k
}

func (k *keeper) run() {
	defer close(k.done)
	for {
		if !k.live() {
			return
		}
		<-time.After(keeperRest)
	}
}

// live is one life; false when there shall be none.
func (k *keeper) live() bool {
	c := command(context.Background(), k.args...)
	path, err := exec.LookPath(tornProgram)
	if err != nil {
		k.blame(err.Error())
		return false
	}
	c.Path, c.Args[0] = path, tornProgram
	c.Env = append(c.Env, tornEnv+"="+k.socket)
	words, err := c.StderrPipe()
	if err != nil {
		k.blame(err.Error())
		return false
	}
	if !k.begin(c) {
		return false
	}
	in := bufio.NewScanner(words)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		k.hear(in.Text())
	}
	_ = c.Wait() // how it ended is told by its words
	k.mu.Lock()
	down := k.down
	k.cmd, k.stopped, k.down = nil, false, nil
	k.mu.Unlock()
	for _, do := range down {
		do()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.ending
}

func (k *keeper) begin(c *exec.Cmd) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ending {
		return false
	}
	if k.poor {
		c.Env = append(c.Env, littleMemory)
		k.poor = false
	}
	if err := c.Start(); err != nil {
		k.bad = append(k.bad, err.Error())
		return false
	}
	k.cmd = c
	k.lives++
	return true
}

// excused is what stands in the words of a process that ends because a disk failed under it: ours, or the database's own, which
// panics in a goroutine of its own when it cannot be opened (its table statistics outlive its file cache), and cannot end
// otherwise when there is no room for another log.
var excused = []string{"state store cannot go on", "cache cannot go on", "pebble/v2.(*DB).collectTableStats", "pebble/v2.Open(", "pebble/v2.(*DB).rotateWAL"}

// hear keeps a line, and blames the process for what it must never say.
func (k *keeper) hear(line string) {
	k.mu.Lock()
	k.last = append(k.last, line)
	if len(k.last) > keeperLines {
		k.last = k.last[1:]
	}
	if k.follow > 0 && len(k.bad) > 0 {
		k.follow--
		k.bad[len(k.bad)-1] += "\n" + line
		k.mu.Unlock()
		return
	}
	k.mu.Unlock()
	for _, word := range []string{"panic:", "fatal error:", "BUG:", "DATA RACE", "handler panicked"} {
		if strings.Contains(line, word) {
			k.blame(line)
			return
		}
	}
}

func (k *keeper) blame(line string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.bad, k.follow = append(k.bad, k.name+": "+line), stackLines
}

// signal reaches the present life; false when there is none.
func (k *keeper) signal(s os.Signal) bool {
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

// starve kills the process and gives its next life little memory.
func (k *keeper) starve() bool {
	k.mu.Lock()
	k.poor = true
	k.mu.Unlock()
	return k.signal(syscall.SIGKILL)
}

// killAnd kills the process; do is called before its next life. It reports false when there is no process.
func (k *keeper) killAnd(do func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cmd == nil || k.cmd.Process.Kill() != nil {
		return false
	}
	k.down = append(k.down, do)
	return true
}

// noFiles leaves the process a few descriptors more than it has. The returned function gives it back what it had.
func (k *keeper) noFiles(more int) (heal func(), ok bool) {
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
	few := syscall.Rlimit{Cur: uint64(len(open) + more), Max: had.Max}
	if limitFiles(pid, &few, nil) != nil {
		return nil, false
	}
	born := k.lives
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.cmd != nil && k.lives == born {
			_ = limitFiles(pid, &had, nil) // it may have ended just now
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

// sockets counts the descriptors of the process that are neither files nor what the runtime needs.
func (k *keeper) sockets() int {
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

// goroutines asks the process how many it has; -1 when it does not answer.
func (k *keeper) goroutines() int {
	text, err := fetch("http://" + k.admin + "/debug/pprof/goroutine?debug=1")
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

// end ends the process as an operator does.
func (k *keeper) end() {
	k.mu.Lock()
	k.ending = true
	c := k.cmd
	k.mu.Unlock()
	if c != nil {
		k.signal(syscall.SIGCONT)
		k.signal(syscall.SIGTERM)
		late := time.AfterFunc(longestEnd, func() { k.blame("it did not end by itself"); k.signal(syscall.SIGKILL) })
		defer late.Stop()
	}
	<-k.done
}

// requireCalm demands that no life has said what nothing excuses.
func (k *keeper) requireCalm(t *testing.T) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, words := range k.bad {
		if !slices.ContainsFunc(excused, func(known string) bool { return strings.Contains(words, known) }) {
			t.Error(words)
		}
	}
}

// fetch reads a page of an admin listener.
func fetch(url string) (string, error) {
	web := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := web.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

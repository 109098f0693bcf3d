package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// sampleEvery is how often a process is looked at, at first.
	sampleEvery = 50 * time.Millisecond
	// maxSamples bounds what is kept of one process: when it is full, every second sample goes and the pause doubles.
	maxSamples = 2048
	// endTime is how long a process may take to end after SIGTERM, before it is killed.
	endTime = 30 * time.Second
	// keptOutput is how much of a process's last words is kept.
	keptOutput = 8 << 10
)

// process is a child of ours. It is started with startProcess, sampled while it runs, and must be waited for or stopped.
type process struct {
	name    string
	cmd     *exec.Cmd
	started time.Time
	stop    context.CancelFunc
	words   *lastWords
	done    chan struct{} // closed at its end
	sampled sync.WaitGroup

	// Valid after done is closed.
	ended time.Time
	err   error

	mu      sync.Mutex // guards what follows
	samples []Sample
}

// command is what to start.
type command struct {
	name   string
	binary string
	args   []string
	stdin  io.Reader
	stdout io.Writer
	line   func(string) // called with every line on stderr; may be nil
}

// startProcess starts c and its sampler. When ctx ends, the process is asked to end.
func startProcess(ctx context.Context, c command) (*process, error) {
	ctx, stop := context.WithCancel(ctx)
	p := &process{name: c.name, stop: stop, words: &lastWords{line: c.line}, done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, c.binary, c.args...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = c.stdin, c.stdout, p.words
	p.cmd.Env = plainEnvironment(os.Environ())
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = endTime
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	go p.attend()
	p.sampled.Go(p.watch)
	return p, nil
}

// plainEnvironment drops PROBITY_* variables: a bench measures what its flags say.
func plainEnvironment(env []string) []string {
	var plain []string
	for _, v := range env {
		if !strings.HasPrefix(v, "PROBITY_") {
			plain = append(plain, v)
		}
	}
	return plain
}

// attend waits for the end.
func (p *process) attend() {
	err := p.cmd.Wait()
	p.ended = time.Now()
	if err != nil {
		p.err = fmt.Errorf("%s: %w: %s", p.name, err, p.words.last())
	}
	close(p.done)
	p.stop()
}

// wait returns at the process's end, with what it failed of.
func (p *process) wait() error {
	<-p.done
	p.sampled.Wait()
	return p.err
}

// end asks the process to end and waits for it. That it ended by our signal is no failure.
func (p *process) end() error {
	p.stop()
	err := p.wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// watch samples the process until it ends.
func (p *process) watch() {
	pause := sampleEvery
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if s, ok := p.look(); ok && p.keep(s) {
			pause *= 2
			tick.Reset(pause)
		}
		select {
		case <-p.done:
			return
		case <-tick.C:
		}
	}
}

// look samples now.
func (p *process) look() (Sample, bool) {
	s, ok := sampleProcess(p.cmd.Process.Pid)
	s.At = time.Since(p.started)
	return s, ok
}

// keep adds a sample and reports that every second one had to go.
func (p *process) keep(s Sample) (thinned bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.samples = append(p.samples, s)
	if len(p.samples) < maxSamples {
		return false
	}
	half := p.samples[:0]
	for i := 0; i < len(p.samples); i += 2 {
		half = append(half, p.samples[i])
	}
	p.samples = half
	return true
}

// history is what was sampled so far.
func (p *process) history() []Sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Sample(nil), p.samples...)
}

// peak is the highest resident size so far, in bytes; 0 when it could not be read.
func (p *process) peak() (most int64) {
	for _, s := range p.history() {
		most = max(most, s.Peak)
	}
	return most
}

// cpu is the CPU time so far: exact after the end, to a hundredth of a second before.
func (p *process) cpu() time.Duration {
	select {
	case <-p.done:
		if state := p.cmd.ProcessState; state != nil {
			return state.UserTime() + state.SystemTime()
		}
		return 0
	default:
	}
	s, _ := p.look()
	return s.CPU
}

// elapsed is how long an ended process ran.
func (p *process) elapsed() time.Duration { return p.ended.Sub(p.started) }

// lastWords keeps the end of what a process wrote, and hands on its lines.
type lastWords struct {
	line func(string)

	mu   sync.Mutex // guards what follows
	kept []byte
	part []byte // a line that has no end yet, at most keptOutput
}

// Write never fails.
func (w *lastWords) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.kept = append(w.kept, b...)
	if over := len(w.kept) - keptOutput; over > 0 {
		w.kept = append(w.kept[:0], w.kept[over:]...)
	}
	lines := w.split(b)
	w.mu.Unlock()
	for _, l := range lines {
		w.line(l)
	}
	return len(b), nil
}

// split returns the lines that b completes. Holds w.mu.
func (w *lastWords) split(b []byte) (lines []string) {
	if w.line == nil {
		return nil
	}
	w.part = append(w.part, b...)
	for {
		n := bytes.IndexByte(w.part, '\n')
		if n < 0 {
			break
		}
		lines = append(lines, string(bytes.TrimRight(w.part[:n], "\r")))
		w.part = w.part[n+1:]
	}
	if len(w.part) > keptOutput {
		w.part = w.part[:0]
	}
	return lines
}

// last is the last line that is not blank.
func (w *lastWords) last() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(w.kept)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

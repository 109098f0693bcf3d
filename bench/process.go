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
	// sampleEvery is how often a process is sampled, at first.
	sampleEvery = 50 * time.Millisecond
	// maxSamples bounds the samples of one process: when it is reached, every second sample is dropped and the interval doubles.
	maxSamples = 2048
	// endTimeout is how long a process may take to end after SIGTERM, before it is killed.
	endTimeout = 30 * time.Second
	// maxOutput is how many bytes of the end of a process's output are kept.
	maxOutput = 8 << 10
)

// process is a child process. startProcess starts it; it is sampled while it runs, and must be waited for or ended.
type process struct {
	name    string
	cmd     *exec.Cmd
	started time.Time
	stop    context.CancelFunc
	output  *outputTail
	done    chan struct{} // closed at its end
	sampler sync.WaitGroup

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
	p := &process{name: c.name, stop: stop, output: &outputTail{line: c.line}, done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, c.binary, c.args...)
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = c.stdin, c.stdout, p.output
	p.cmd.Env = cleanEnvironment(os.Environ())
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = endTimeout
	p.started = time.Now()
	if err := p.cmd.Start(); err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", c.name, err)
	}
	go p.waitForExit()
	p.sampler.Go(p.sampleLoop)
	return p, nil
}

// cleanEnvironment drops PROBITY_* variables: only the flags of the bench count.
func cleanEnvironment(env []string) []string {
	var plain []string
	for _, v := range env {
		if !strings.HasPrefix(v, "PROBITY_") {
			plain = append(plain, v)
		}
	}
	return plain
}

// waitForExit waits for the end.
func (p *process) waitForExit() {
	err := p.cmd.Wait()
	p.ended = time.Now()
	if err != nil {
		p.err = fmt.Errorf("%s: %w: %s", p.name, err, p.output.lastLine())
	}
	close(p.done)
	p.stop()
}

// wait waits for the end of the process and returns its error.
func (p *process) wait() error {
	<-p.done
	p.sampler.Wait()
	return p.err
}

// end asks the process to end and waits for it. An end by our signal is no error.
func (p *process) end() error {
	p.stop()
	err := p.wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// sampleLoop samples the process until it ends.
func (p *process) sampleLoop() {
	pause := sampleEvery
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if s, ok := p.sampleNow(); ok && p.addSample(s) {
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

// sampleNow takes one sample.
func (p *process) sampleNow() (Sample, bool) {
	s, ok := sampleProcess(p.cmd.Process.Pid)
	s.At = time.Since(p.started)
	return s, ok
}

// addSample adds a sample and reports whether every second one was dropped.
func (p *process) addSample(s Sample) (thinned bool) {
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

// history returns the samples so far.
func (p *process) history() []Sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Sample(nil), p.samples...)
}

// peak is the highest resident size so far, in bytes; 0 if it could not be read.
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
	s, _ := p.sampleNow()
	return s.CPU
}

// elapsed is how long an ended process ran.
func (p *process) elapsed() time.Duration { return p.ended.Sub(p.started) }

// outputTail keeps the end of a process's output, and passes on its lines.
type outputTail struct {
	line func(string)

	mu      sync.Mutex // guards what follows
	tail    []byte
	partial []byte // an unfinished line, at most maxOutput
}

// Write never fails.
func (ot *outputTail) Write(b []byte) (int, error) {
	ot.mu.Lock()
	ot.tail = append(ot.tail, b...)
	if over := len(ot.tail) - maxOutput; over > 0 {
		ot.tail = append(ot.tail[:0], ot.tail[over:]...)
	}
	lines := ot.split(b)
	ot.mu.Unlock()
	for _, l := range lines {
		ot.line(l)
	}
	return len(b), nil
}

// split returns the lines that b completes. Holds w.mu.
func (ot *outputTail) split(b []byte) (lines []string) {
	if ot.line == nil {
		return nil
	}
	ot.partial = append(ot.partial, b...)
	for {
		n := bytes.IndexByte(ot.partial, '\n')
		if n < 0 {
			break
		}
		lines = append(lines, string(bytes.TrimRight(ot.partial[:n], "\r")))
		ot.partial = ot.partial[n+1:]
	}
	if len(ot.partial) > maxOutput {
		ot.partial = ot.partial[:0]
	}
	return lines
}

// lastLine is the last line that is not blank.
func (ot *outputTail) lastLine() string {
	ot.mu.Lock()
	defer ot.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(ot.tail)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

package process

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
	// maxSamples bounds the samples of one process: when it is reached, every second sample is dropped and the interval
	// doubles.
	maxSamples = 2048
	// endTimeout is how long a process may take to end after SIGTERM, before it is killed.
	endTimeout = 30 * time.Second
	// maxOutput is how many bytes of the end of a process's output are kept.
	maxOutput = 8 << 10
)

// Process is a child process. Start starts it; it is sampled while it runs, and must be waited for or ended.
type Process struct {
	Started time.Time
	name    string
	cmd     *exec.Cmd
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

// Command is what to start.
type Command struct {
	Name   string
	Binary string
	Args   []string
	Stdout io.Writer
	Line   func(string) // called with every line on stderr; may be nil
}

// Start starts c and its sampler. When ctx ends, the process is asked to end.
func Start(ctx context.Context, c Command) (*Process, error) {
	ctx, stop := context.WithCancel(ctx)
	p := &Process{name: c.Name, stop: stop, output: &outputTail{line: c.Line}, done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, c.Binary, c.Args...)
	p.cmd.Stdout, p.cmd.Stderr = c.Stdout, p.output
	p.cmd.Env = CleanEnvironment(os.Environ())
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = endTimeout
	p.Started = time.Now()
	if err := p.cmd.Start(); err != nil {
		stop()
		return nil, fmt.Errorf("start %s: %w", c.Name, err)
	}
	go func() {
		err := p.cmd.Wait()
		p.ended = time.Now()
		if err != nil {
			p.err = fmt.Errorf("%s: %w: %s", p.name, err, p.output.lastLine())
		}
		close(p.done)
		p.stop()
	}()
	p.sampler.Go(p.sampleLoop)
	return p, nil
}

// CleanEnvironment drops PROBITY_* variables: only the flags of the bench count.
func CleanEnvironment(env []string) []string {
	var plain []string
	for _, v := range env {
		if !strings.HasPrefix(v, "PROBITY_") {
			plain = append(plain, v)
		}
	}
	return plain
}

// Done is closed at the end of the process.
func (p *Process) Done() <-chan struct{} { return p.done }

// LastLine is the last line of its standard error that is not blank.
func (p *Process) LastLine() string { return p.output.lastLine() }

// Kill ends the process with SIGKILL. It must still be waited for.
func (p *Process) Kill() error { return p.cmd.Process.Kill() }

// Wait waits for the end of the process and returns its error.
func (p *Process) Wait() error {
	<-p.done
	p.sampler.Wait()
	return p.err
}

// End asks the process to end and waits for it. An end by our signal is no error.
func (p *Process) End() error {
	p.stop()
	err := p.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// sampleLoop samples the process until it ends.
func (p *Process) sampleLoop() {
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
func (p *Process) sampleNow() (Sample, bool) {
	s, ok := sampleProcess(p.cmd.Process.Pid)
	s.At = time.Since(p.Started)
	return s, ok
}

// addSample adds a sample and reports whether every second one was dropped.
func (p *Process) addSample(s Sample) (thinned bool) {
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

// Samples returns the samples so far.
func (p *Process) Samples() []Sample {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Sample(nil), p.samples...)
}

// Peak is the highest resident size so far, in bytes; 0 if it could not be read.
func (p *Process) Peak() (most int64) {
	for _, s := range p.Samples() {
		most = max(most, s.Peak)
	}
	return most
}

// CPU is the CPU time so far: exact after the end, to a hundredth of a second before.
func (p *Process) CPU() time.Duration {
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

// Elapsed returns how long an ended process ran.
func (p *Process) Elapsed() time.Duration { return p.ended.Sub(p.Started) }

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
	var lines []string // that b completes
	if ot.line != nil {
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
	}
	ot.mu.Unlock()
	for _, l := range lines {
		ot.line(l)
	}
	return len(b), nil
}

// lastLine is the last line that is not blank.
func (ot *outputTail) lastLine() string {
	ot.mu.Lock()
	defer ot.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(ot.tail)), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

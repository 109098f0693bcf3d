package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// contest is one latency, at which every contestant verifies the list.
type contest struct {
	probity string // the binary
	dir     string // for lists and results
	seed    uint64
	latency string
	workers []int // tried with peers
	sample  int   // addresses for the trial of each number of workers
	share   int   // addresses of the list for peers; 0 is all
	log     io.Writer
}

// Count is the cost of a contestant.
type Count struct {
	Name      string
	Version   string
	Workers   int // goroutines of a peer
	Addresses int
	Elapsed   time.Duration
	timed     int // addresses done within Elapsed
	CPU       time.Duration
	Peak      int64 // bytes resident
	Traffic   traffic
	Good, Bad int
	Unknown   int
}

func (c Count) perSecond() float64 { return float64(c.timed) / c.Elapsed.Seconds() }
func (c Count) cpuEach() float64   { return float64(c.CPU.Nanoseconds()) / 1000 / float64(c.Addresses) }
func (c Count) connsEach() float64 { return float64(c.Traffic.Connections) / float64(c.Addresses) }
func (c contest) seedText() string { return strconv.FormatUint(c.seed, 10) }
func (c contest) say(f string, a ...any) {
	fmt.Fprintf(c.log, "peers: latency "+c.latency+": "+f+"\n", a...)
}

// measure runs a command against a fresh internet.
func (c contest) measure(ctx context.Context, cmd *exec.Cmd) (count Count, err error) {
	in, err := c.startInternet(ctx)
	if err != nil {
		return count, err
	}
	defer func() { err = errors.Join(err, in.end()) }()
	var words bytes.Buffer
	cmd.Stderr, cmd.SysProcAttr = &words, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return count, err
	}
	peak := watchPeak(cmd.Process.Pid)
	err = cmd.Wait()
	count.Elapsed, count.Peak = time.Since(began), peak()
	if err != nil {
		return count, fmt.Errorf("%w: %s", err, lastLine(words.String()))
	}
	count.CPU = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	count.Traffic, err = in.report(ctx)
	return count, err
}

// tell prints the result of a contestant.
func (c contest) tell(n Count) {
	c.say("%s: %.0f addresses/s, %.1f us of CPU and %.3f connections an address", n.Name, n.perSecond(), n.cpuEach(),
		n.connsEach())
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// ours runs Probity's command line on the list.
func (c contest) ours(ctx context.Context, list string, addresses int) (Count, error) {
	result := filepath.Join(c.dir, "result.csv")
	providers := filepath.Join(c.dir, "providers.toml")
	text, err := exec.CommandContext(ctx, c.probity, "sim", "providers", "--speedup", "0").Output()
	if err != nil {
		return Count{}, err
	}
	if err := os.WriteFile(providers, text, 0o644); err != nil {
		return Count{}, err
	}
	defer os.Remove(result)
	c.say("probity")
	count, err := c.measure(ctx, exec.CommandContext(ctx, c.probity, "verify", list, "-o", result, "--dns",
		nameServer+":53", "--smtp-port", strconv.Itoa(smtpPort),
		"--allow-private-targets", "--providers", providers, "--mail-from", mailFrom, "--egress",
		"127.0.0.1=probe.bench.example", "--egress", "::1=probe6.bench.example"))
	count.Name, count.Addresses, count.timed = "probity", addresses, addresses
	if err != nil {
		return count, fmt.Errorf("probity: %w", err)
	}
	return count, count.readStatuses(result)
}

// theirs runs a peer on the addresses, with the number of workers that suits it best.
func (c contest) theirs(ctx context.Context, p Peer, addresses []string) (best Count, err error) {
	workers := c.workers[0]
	if len(c.workers) > 1 {
		rate := 0.0
		for _, n := range c.workers {
			count, err := c.with(ctx, p, n, addresses[:min(c.sample, len(addresses))])
			if err != nil {
				return best, err
			}
			c.say("%s with %d workers: %.0f addresses/s on a part", p.Name, n, count.perSecond())
			if count.perSecond() > rate {
				workers, rate = n, count.perSecond()
			}
		}
	}
	if c.share > 0 {
		addresses = addresses[:min(c.share, len(addresses))]
	}
	c.say("%s with %d workers", p.Name, workers)
	return c.with(ctx, p, workers, addresses)
}

// with runs a peer in a process of its own.
func (c contest) with(ctx context.Context, p Peer, workers int, addresses []string) (Count, error) {
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "work", p.Name, strconv.Itoa(workers))
	cmd.Stdin = strings.NewReader(strings.Join(addresses, "\n"))
	var out bytes.Buffer
	cmd.Stdout = &out
	count, err := c.measure(ctx, cmd)
	count.Name = p.Name
	count.Version = p.version()
	count.Workers = workers
	count.Addresses = len(addresses)
	if err != nil {
		return count, fmt.Errorf("%s: %w", p.Name, err)
	}
	var nearly int64
	_, err = fmt.Sscan(out.String(), &nearly, &count.timed, &count.Good, &count.Bad, &count.Unknown)
	count.Elapsed = time.Duration(nearly)
	return count, err
}

// peakEvery is how often the peak of a process is read. A peak never falls: only growth after the last reading is
// missed.
const peakEvery = 50 * time.Millisecond

// watchPeak polls the highest resident memory of a process until stop is called, which returns it in bytes. The
// kernel's figure for an ended process cannot be used: it includes the memory of the parent process.
func watchPeak(pid int) (stop func() int64) {
	ended, most := make(chan struct{}), make(chan int64)
	peak := peakOf(pid)
	go func() {
		tick := time.NewTicker(peakEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				peak = max(peak, peakOf(pid))
			case <-ended:
				most <- peak
				return
			}
		}
	}()
	return func() int64 {
		close(ended)
		return <-most
	}
}

// peakOf is VmHWM (proc_pid_status(5)) in bytes; 0 if the process has ended or the value is unknown.
func peakOf(pid int) int64 {
	status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "\nVmHWM:")
	line, _, _ := strings.Cut(rest, "\n")
	var kilobytes int64
	if _, err := fmt.Sscanf(line, "%d kB", &kilobytes); err != nil {
		return 0
	}
	return kilobytes << 10
}

// readStatuses counts the verdicts of a result: VALID as good, INVALID as bad, the rest as unknown, each address once.
func (c *Count) readStatuses(result string) error {
	f, err := os.Open(result)
	if err != nil {
		return err
	}
	defer f.Close()
	in := csv.NewReader(bufio.NewReader(f))
	in.ReuseRecord = true
	header, err := in.Read()
	if err != nil {
		return err
	}
	email, status := slices.Index(header, "email"), slices.Index(header, "verify_status")
	if email < 0 || status < 0 {
		return fmt.Errorf("%s: no column email or verify_status", result)
	}
	seen := map[string]bool{}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if seen[row[email]] {
			continue
		}
		seen[strings.Clone(row[email])] = true
		switch row[status] {
		case "VALID":
			c.Good++
		case "INVALID":
			c.Bad++
		default:
			c.Unknown++
		}
	}
}

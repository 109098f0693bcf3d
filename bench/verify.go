package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"strconv"
	"time"

	"probity/bench/baseline"
	"probity/bench/process"
	"probity/bench/report"
)

// runVerify measures verify on a tenth of the rows and on all rows.
func runVerify(ctx context.Context, t *Trial) error {
	return t.withInternet(ctx, 0, func(in *internet) error {
		run := func(ctx context.Context, in *internet, name, list string) (runStats, error) {
			return verify(ctx, t, in, verifyJob{list: list, result: name + ".csv.zst"})
		}
		g, err := t.measureGrowth(ctx, in, run)
		if err != nil {
			return err
		}
		t.reportRun(g.large, t.rows, g.bare)
		if t.Latency == "none" {
			t.AtLeast("rows_per_second", 40_000)
		}
		t.AtMost("peak_memory", 400)
		t.reportGrowth(g)
		return t.scoreRun(in.world, g.list, g.large)
	})
}

// verifyJob is one run of the verify command.
type verifyJob struct {
	list, result string // result: a file name in the trial's folder
	speedup      float64
	flags        []string // further flags
}

// verify runs the command on a list, and samples it and the simulated internet.
func verify(ctx context.Context, t *Trial, in *internet, job verifyJob) (r runStats, err error) {
	providers, err := t.writeProviders(job.speedup)
	if err != nil {
		return r, err
	}
	before, err := in.report(ctx)
	if err != nil {
		return r, err
	}
	r.result = filepath.Join(t.Dir, job.result)
	simBefore := in.CPU()
	t.logProgress("verify %s", filepath.Base(job.list))
	args := append([]string{"verify", job.list, "-o", r.result}, probingFlags(in.dns, in.smtpPort, providers)...)
	p, err := process.Start(ctx, process.Command{Name: "verify", Binary: t.Binary, Args: append(args, job.flags...),
		Stdout: io.Discard})
	if err != nil {
		return r, err
	}
	r.throughput = in.throughput(ctx, p)
	if err := errors.Join(p.Wait(), ctx.Err()); err != nil {
		return r, err
	}
	r.simCPU = in.CPU() - simBefore
	r.elapsed = p.Elapsed()
	r.cpu = p.CPU()
	r.peak = p.Peak()
	r.samples = p.Samples()
	after, err := in.report(ctx)
	r.traffic = trafficBetween(before, after)
	return r, err
}

// probingFlags are the flags for a name server and the one port of all mail servers.
func probingFlags(dns netip.AddrPort, smtpPort int, providers string) []string {
	flags := []string{"--dns", dns.String(), "--smtp-port", strconv.Itoa(smtpPort), "--allow-private-targets",
		"--providers", providers, "--mail-from", "probe@bench.example", "--egress", "127.0.0.1=probe.bench.example"}
	if hasIPv6() {
		flags = append(flags, "--egress", "::1=probe6.bench.example")
	}
	return flags
}

// hasIPv6 reports whether this machine has the IPv6 loopback address.
func hasIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// throughputEvery is how often the referee's report is read while a process runs.
const throughputEvery = 500 * time.Millisecond

// throughput counts recipients per second until p ends.
func (in *internet) throughput(ctx context.Context, p *process.Process) report.Series {
	s := report.Series{Name: "recipients asked", Unit: "rcpt/s"}
	tick := time.NewTicker(throughputEvery)
	defer tick.Stop()
	seen, at := int64(-1), p.Started
	for {
		select {
		case <-p.Done():
			return s
		case now := <-tick.C:
			rep, err := in.report(ctx)
			if err != nil {
				continue // a gap in the plot
			}
			if seen >= 0 {
				s.Add(now.Sub(p.Started), float64(rep.Recipients-seen)/now.Sub(at).Seconds())
			}
			seen, at = rep.Recipients, now
		}
	}
}

// measureBaseline runs the bare SMTP client over the list's recipients and reports its cost.
func measureBaseline(ctx context.Context, t *Trial, in *internet, list string) (baseline.Count, error) {
	tasks, err := plan(ctx, t, in, list)
	if err != nil {
		return baseline.Count{}, err
	}
	return runBareClient(ctx, t, tasks)
}

// plan makes tasks of the list's recipients.
func plan(ctx context.Context, t *Trial, in *internet, list string) ([]baseline.Task, error) {
	p := baseline.Planner{World: in.world, Dial: t.Dial, DNS: in.dns, Port: in.smtpPort}
	return p.Plan(ctx, list)
}

// connections is how many connections the bare SMTP client and our conversation have at one time.
const connections = 32

// bareClient is the bare SMTP client on tasks.
func bareClient(t *Trial, tasks []baseline.Task) baseline.RunTask {
	c := baseline.SMTP{Dial: t.Dial, Timeout: 10 * time.Second, EHLO: "floor.bench.example",
		From: "floor@bench.example"}
	return func(ctx context.Context, i int) baseline.Count { return c.RunTask(ctx, tasks[i]) }
}

// runBareClient lets the bare SMTP client run the tasks and reports its cost.
func runBareClient(ctx context.Context, t *Trial, tasks []baseline.Task) (baseline.Count, error) {
	t.logProgress("floor: a bare pipelined SMTP client")
	count, err := baseline.Measure(ctx, connections, len(tasks), bareClient(t, tasks))
	if err != nil {
		return count, fmt.Errorf("floor: %w", err)
	}
	reportBaseline(t, count)
	return count, nil
}

func reportBaseline(t *Trial, count baseline.Count) {
	t.Metric("floor_recipients", float64(count.Recipients), "")
	t.Metric("floor_recipients_lost", float64(count.Lost), "")
	t.Metric("floor_connections", float64(count.Connections), "")
	t.Metric("floor_recipients_per_second", count.Rate(), "rcpt/s")
	t.Metric("floor_cpu_per_recipient", perItem(count.CPU, count.Recipients), "us")
}

// perItem is the CPU time or time per item in microseconds.
func perItem(d time.Duration, items int) float64 {
	return ratio(float64(d)/float64(time.Microsecond), float64(items))
}

// ratio is a/b, and 0 if b is 0.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

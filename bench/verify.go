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
)

func verifyScenario() Scenario {
	return Scenario{
		Name: "verify", Rows: 1_000_000, Run: runVerify,
		What: "a list through the command line: verify LIST.csv -o RESULT.csv.zst, realistic mix, no limits",
		Bars: "40,000 rows/s, peak under 400 MB and within 1.15 of that of a tenth of the rows, no wrong verdict",
	}
}

// runVerify measures the bare client, a tenth of the rows, and all of them, against one pretend internet.
func runVerify(ctx context.Context, t *Trial) (err error) {
	in, err := t.startInternet(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.end()) }()
	list, err := t.writeList("list.csv", in.world, t.rows)
	if err != nil {
		return err
	}
	floor, err := t.measureFloor(ctx, in, list, nil)
	if err != nil {
		return err
	}
	fewer := max(1, t.rows/10)
	sample, err := t.writeList("sample.csv", in.world, fewer)
	if err != nil {
		return err
	}
	small, err := t.verify(ctx, in, verifyJob{list: sample, result: "sample.out.csv.zst"})
	if err != nil {
		return err
	}
	large, err := t.verify(ctx, in, verifyJob{list: list, result: "result.csv.zst"})
	if err != nil {
		return err
	}
	t.reportVerify(large, t.rows, floor)
	t.reportGrowth(small, fewer, large, t.rows)
	scores, err := t.score(in.world, list, large.result)
	if err != nil {
		return err
	}
	t.judge(scores)
	return nil
}

// verifyJob is one run of the verify command.
type verifyJob struct {
	list, result string // result: a file name in the trial's folder
	speedup      float64
	more         []string // further flags
}

// verifyRun is what one run of the command took.
type verifyRun struct {
	result  string
	elapsed time.Duration
	cpu     time.Duration
	simCPU  time.Duration
	peak    int64
	samples []Sample
	pulse   Series // recipients per second at the pretend internet
	traffic traffic
}

// verify runs the command on a list, and watches it and the pretend internet.
func (t *Trial) verify(ctx context.Context, in *internet, job verifyJob) (run verifyRun, err error) {
	providers, err := t.writeProviders(job.speedup)
	if err != nil {
		return run, err
	}
	before, err := in.report(ctx)
	if err != nil {
		return run, err
	}
	run.result = filepath.Join(t.Dir, job.result)
	simBefore := in.cpu()
	t.say("verify %s", filepath.Base(job.list))
	args := append([]string{"verify", job.list, "-o", run.result}, probingFlags(in.dns, in.smtpPort, providers)...)
	p, err := startProcess(ctx, command{name: "verify", binary: t.Binary, args: append(args, job.more...), stdout: io.Discard})
	if err != nil {
		return run, err
	}
	run.pulse = in.pulse(ctx, p)
	if err := errors.Join(p.wait(), ctx.Err()); err != nil {
		return run, err
	}
	run.simCPU = in.cpu() - simBefore
	run.elapsed, run.cpu, run.peak, run.samples = p.elapsed(), p.cpu(), p.peak(), p.history()
	after, err := in.report(ctx)
	run.traffic = between(before, after)
	return run, err
}

// probingFlags point a prober at a name server and the one port of all mail servers.
func probingFlags(dns netip.AddrPort, smtpPort int, providers string) []string {
	flags := []string{"--dns", dns.String(), "--smtp-port", strconv.Itoa(smtpPort), "--allow-private-targets",
		"--providers", providers, "--mail-from", "probe@bench.example", "--egress", "127.0.0.1=probe.bench.example"}
	if hasIPv6() {
		flags = append(flags, "--egress", "::1=probe6.bench.example")
	}
	return flags
}

// hasIPv6 reports that this machine has the IPv6 loopback address.
func hasIPv6() bool {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// pulseEvery is how often the referee is asked while a process runs.
const pulseEvery = 500 * time.Millisecond

// pulse counts recipients per second until p ends.
func (in *internet) pulse(ctx context.Context, p *process) Series {
	s := Series{Name: "recipients asked", Unit: "rcpt/s"}
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	seen, at := int64(-1), p.started
	for {
		select {
		case <-p.done:
			return s
		case now := <-tick.C:
			rep, err := in.report(ctx)
			if err != nil {
				continue // a gap in a picture
			}
			if seen >= 0 {
				s.add(now.Sub(p.started), float64(rep.Recipients-seen)/now.Sub(at).Seconds())
			}
			seen, at = rep.Recipients, now
		}
	}
}

// measureFloor runs the bare SMTP client over the list's recipients and notes what it took.
func (t *Trial) measureFloor(ctx context.Context, in *internet, list string, p *planner) (floorCount, error) {
	t.say("floor: a bare pipelined SMTP client")
	if p == nil {
		p = &planner{}
	}
	book := hostBook{dial: t.Dial, server: in.dns}
	p.world, p.ask = in.world, book.find
	errands, err := p.plan(ctx, list)
	if err != nil {
		return floorCount{}, err
	}
	count, err := t.defaultFloor(in).repeat(ctx, errands)
	if err != nil {
		return count, fmt.Errorf("floor: %w", err)
	}
	t.metric("floor_recipients", float64(count.Recipients), "")
	t.metric("floor_recipients_lost", float64(count.Lost), "")
	t.metric("floor_connections", float64(count.Connections), "")
	t.metric("floor_recipients_per_second", count.rate(), "rcpt/s")
	t.metric("floor_cpu_per_recipient", perItem(count.CPU, count.Recipients), "us")
	return count, nil
}

// perItem is CPU or time by item in microseconds.
func perItem(d time.Duration, items int) float64 {
	return ratio(float64(d)/float64(time.Microsecond), float64(items))
}

// reportVerify notes the run and holds it against the bars.
func (t *Trial) reportVerify(run verifyRun, rows int, floor floorCount) {
	t.metric("rows", float64(rows), "")
	t.metric("seconds", run.elapsed.Seconds(), "s")
	t.metric("rows_per_second", ratio(float64(rows), run.elapsed.Seconds()), "rows/s")
	t.metric("cpu_per_row", perItem(run.cpu, rows), "us")
	t.metric("internet_cpu_per_row", perItem(run.simCPU, rows), "us")
	t.reportPeak("peak_memory", run.peak)
	t.reportTraffic(run.traffic, rows)
	t.metric("ratio_to_floor", ratio(t.Metrics["rows_per_second"].Value, floor.rate()), "ratio")
	t.metric("cpu_ratio_to_floor", ratio(t.Metrics["cpu_per_row"].Value, perItem(floor.CPU, floor.Recipients)), "ratio")
	if t.Latency == "none" {
		t.atLeast("rows_per_second", 40_000)
	}
	t.atMost("peak_memory", 400)
	t.Plots.Throughput = append(t.Plots.Throughput, run.pulse)
	t.Plots.Memory = append(t.Plots.Memory, memorySeries("verify", run.samples))
	t.Plots.Stages = append(t.Plots.Stages, Stage{Name: "bare client, all recipients", Parts: []Part{{"bench", floor.CPU}}},
		Stage{Name: "verify, all rows", Parts: []Part{{"verify", run.cpu}, {"sim", run.simCPU}}})
}

// reportPeak notes a peak, unless the system does not tell.
func (t *Trial) reportPeak(name string, bytes int64) {
	if bytes > 0 {
		t.metric(name, float64(bytes)/1e6, "MB")
	}
}

func (t *Trial) reportTraffic(seen traffic, rows int) {
	t.metric("connections", float64(seen.connections), "")
	t.metric("recipients", float64(seen.recipients), "")
	t.metric("recipients_per_row", ratio(float64(seen.recipients), float64(rows)), "ratio")
	t.metric("recipients_per_connection", ratio(float64(seen.recipients), float64(seen.connections)), "")
}

// growsFrom is how many rows a run must have for its tenth to be what growth is held against: shorter runs still fill
// their buffers, and wait for the slowest host longer than they work.
const growsFrom = 500_000

// reportGrowth holds a run against a smaller one: memory must not grow with the rows, and speed must not fall.
func (t *Trial) reportGrowth(small verifyRun, few int, large verifyRun, many int) {
	t.metric("sample_rows", float64(few), "")
	t.metric("sample_rows_per_second", ratio(float64(few), small.elapsed.Seconds()), "rows/s")
	t.reportPeak("sample_peak_memory", small.peak)
	t.metric("speed_growth", ratio(float64(many)/large.elapsed.Seconds(), float64(few)/small.elapsed.Seconds()), "ratio")
	if small.peak > 0 {
		t.metric("memory_growth", ratio(float64(large.peak), float64(small.peak)), "ratio")
	}
	if many < growsFrom {
		t.remark("growth is not held against its bars below %s rows", number(growsFrom))
		return
	}
	t.atLeast("speed_growth", 0.9)
	t.atMost("memory_growth", 1.15)
}

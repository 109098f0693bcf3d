package bench

import (
	"context"
	"errors"
	"time"

	"probity/bench/baseline"
	"probity/bench/process"
	"probity/bench/report"
)

// runStats is the cost of one list, from the first byte of its upload to the last byte of its result.
type runStats struct {
	result     string // path
	rows       int    // for growth only
	elapsed    time.Duration
	cpu        time.Duration // of the measured process
	simCPU     time.Duration // of the simulated internet
	peak       int64
	samples    []process.Sample
	throughput report.Series // of recipients or rows over time
	traffic    traffic

	// Of jobs only.
	stages     []report.Stage
	stateTimes map[string]time.Duration // how long the job was seen in each state
	bytes      int64                    // of the result, compressed
}

// listRunner verifies a list. name is for its files in the trial's folder.
type listRunner func(ctx context.Context, in *internet, name, list string) (runStats, error)

// withInternet calls do with a simulated internet.
func (t *Trial) withInternet(ctx context.Context, speedup float64, do func(*internet) error) (err error) {
	in, err := t.startInternet(ctx, speedup)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.End()) }()
	return do(in)
}

// growth is two runs of one kind, of a tenth of the rows and of all rows, and the baseline of the longer.
type growth struct {
	list, sample string
	sampleRows   int
	small, large runStats
	bare         baseline.Count
}

// measureGrowth measures the bare client, a tenth of the rows, and all rows, against one simulated internet.
func (t *Trial) measureGrowth(ctx context.Context, in *internet, do listRunner) (g growth, err error) {
	if g.list, err = t.writeList("list.csv", in.world, t.rows); err != nil {
		return g, err
	}
	if g.bare, err = measureBaseline(ctx, t, in, g.list); err != nil {
		return g, err
	}
	g.sampleRows = max(1, t.rows/10)
	if g.sample, err = t.writeList("sample.csv", in.world, g.sampleRows); err != nil {
		return g, err
	}
	if g.small, err = do(ctx, in, "small", g.sample); err != nil {
		return g, err
	}
	g.large, err = do(ctx, in, "large", g.list)
	return g, err
}

// reportRun reports a run next to its baseline.
func (t *Trial) reportRun(r runStats, rows int, bare baseline.Count) {
	t.Metric("rows", float64(rows), "")
	t.Metric("seconds", r.elapsed.Seconds(), "s")
	t.Metric("rows_per_second", ratio(float64(rows), r.elapsed.Seconds()), "rows/s")
	t.Metric("cpu_per_row", perItem(r.cpu, rows), "us")
	t.Metric("internet_cpu_per_row", perItem(r.simCPU, rows), "us")
	t.reportPeak("peak_memory", r.peak)
	t.reportTraffic(r.traffic, rows)
	t.Metric("ratio_to_floor", ratio(t.Metrics["rows_per_second"].Value, bare.Rate()), "ratio")
	t.Metric("cpu_ratio_to_floor", ratio(t.Metrics["cpu_per_row"].Value, perItem(bare.CPU, bare.Recipients)), "ratio")
	t.Plots.Throughput = append(t.Plots.Throughput, r.throughput)
	t.Plots.Stages = append(t.Plots.Stages, report.Stage{Name: "bare client, all recipients",
		Parts: []report.Part{{Process: "floor", CPU: bare.CPU}}})
	if r.stages != nil {
		t.Plots.Stages = append(t.Plots.Stages, r.stages...)
		return
	}
	t.Plots.Stages = append(t.Plots.Stages, report.Stage{Name: "all rows",
		Parts: []report.Part{{Process: "probity", CPU: r.cpu}, {Process: "internet", CPU: r.simCPU}}})
}

// reportPeak reports a peak if it is known.
func (t *Trial) reportPeak(name string, bytes int64) {
	if bytes > 0 {
		t.Metric(name, float64(bytes)/1e6, "MB")
	}
}

func (t *Trial) reportTraffic(seen traffic, rows int) {
	t.Metric("connections", float64(seen.connections), "")
	t.Metric("recipients", float64(seen.recipients), "")
	t.Metric("recipients_per_row", ratio(float64(seen.recipients), float64(rows)), "ratio")
	t.Metric("recipients_per_connection", ratio(float64(seen.recipients), float64(seen.connections)), "")
}

// The bars of growth need at least so many rows: short runs mostly wait for the slowest host, and memory is flat only
// when every buffer is full.
const (
	growthMinRows = 500_000
	memoryMinRows = 500_000 // of the shorter run
)

// reportGrowth compares the longer run with the shorter: memory must not grow with the rows, and speed must not fall.
func (t *Trial) reportGrowth(g growth) {
	sampleRows, allRows := float64(g.sampleRows), float64(t.rows)
	t.Metric("sample_rows", sampleRows, "")
	t.Metric("sample_rows_per_second", ratio(sampleRows, g.small.elapsed.Seconds()), "rows/s")
	t.reportPeak("sample_peak_memory", g.small.peak)
	t.Metric("speed_growth", ratio(allRows/g.large.elapsed.Seconds(), sampleRows/g.small.elapsed.Seconds()), "ratio")
	if g.small.peak > 0 {
		t.Metric("memory_growth", ratio(float64(g.large.peak), float64(g.small.peak)), "ratio")
	}
	t.Plots.Memory = append(t.Plots.Memory, process.MemorySeries("all rows", g.large.samples),
		process.MemorySeries("a tenth of them", g.small.samples))
	if t.rows < growthMinRows {
		t.Note("growth is not held against its bars below %s rows", report.FormatNumber(growthMinRows))
		return
	}
	t.AtLeast("speed_growth", 0.9)
	if g.sampleRows < memoryMinRows {
		t.Note("memory is not held against that of a tenth of the rows below %s rows",
			report.FormatNumber(10*memoryMinRows))
		return
	}
	t.AtMost("memory_growth", 1.15)
}

package bench

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"probity/bench/report"
)

func ingestScenario() Scenario {
	return Scenario{
		Name: "ingest", Rows: 5_000_000, Run: runIngest,
		What: "an upload, from its first byte to 202: received, spooled, counted, deduplicated, synced",
		Bars: "0.5 of parsing and zstd of the same bytes",
	}
}

// ingestRounds is how often the list is uploaded, each time after its baseline; the fastest of each counts.
const ingestRounds = 3

// runIngest measures uploads and cancels their jobs. It uses a test key, so that nothing is probed meanwhile.
func runIngest(ctx context.Context, t *Trial) error {
	return withTestService(ctx, t, func(s *service, list string) error {
		var baseline bytesBaseline
		var best uploadCount
		for range ingestRounds {
			f, err := ingestBaseline(list)
			if err != nil {
				return err
			}
			if baseline.Elapsed == 0 || f.Elapsed < baseline.Elapsed {
				baseline = f
			}
			u, err := timeUpload(ctx, t, s, list)
			if err != nil {
				return err
			}
			if best.elapsed == 0 || u.elapsed < best.elapsed {
				best = u
			}
		}
		reportIngest(t, baseline, best, s)
		return nil
	})
}

// uploadCount is what one upload took.
type uploadCount struct {
	rows         int
	elapsed, cpu time.Duration
}

// timeUpload uploads a list and cancels its job.
func timeUpload(ctx context.Context, t *Trial, s *service, list string) (u uploadCount, err error) {
	t.logProgress("upload")
	start, cpu := time.Now(), s.cpu()
	job, err := s.upload(ctx, s.keys[0], list, nil)
	if err != nil {
		return u, err
	}
	u = uploadCount{rows: job.Rows, elapsed: time.Since(start), cpu: s.cpu() - cpu}
	if err := s.cancel(ctx, s.keys[0], job.ID); err != nil {
		return u, err
	}
	return u, s.follow(ctx, s.keys[0], job.ID, pollEvery, func(jobRecord) {})
}

func reportIngest(t *Trial, baseline bytesBaseline, u uploadCount, s *service) {
	t.Metric("rows", float64(t.rows), "")
	t.Metric("seconds", u.elapsed.Seconds(), "s")
	t.Metric("rows_per_second", ratio(float64(t.rows), u.elapsed.Seconds()), "rows/s")
	t.Metric("cpu_per_row", perItem(u.cpu, t.rows), "us")
	t.Metric("size", float64(baseline.Bytes)/1e6, "MB")
	reportBytesBaseline(t, baseline, u.elapsed, u.cpu)
	t.Metric("missing_rows", float64(t.rows-u.rows), "")
	t.reportPeak("peak_memory", s.peak())
	t.AtLeast("ratio_to_floor", 0.5)
	t.AtMost("missing_rows", 0)
	t.Plots.Memory = []report.Series{memorySeries("serve", s.history())}
	t.Plots.Stages = []report.Stage{{Name: "parsing and zstd", Parts: []report.Part{{Process: "floor", CPU: baseline.CPU}}}, {Name: "upload", Parts: []report.Part{{Process: "serve", CPU: u.cpu}}}}
}

// reportBytesBaseline reports a baseline and the ratio to it.
func reportBytesBaseline(t *Trial, baseline bytesBaseline, took, used time.Duration) {
	t.Metric("floor_rows_per_second", ratio(float64(t.rows), baseline.Elapsed.Seconds()), "rows/s")
	t.Metric("floor_cpu_per_row", perItem(baseline.CPU, t.rows), "us")
	t.Metric("ratio_to_floor", ratio(baseline.Elapsed.Seconds(), took.Seconds()), "ratio")
	t.Metric("cpu_ratio_to_floor", ratio(used.Seconds(), baseline.CPU.Seconds()), "ratio")
}

func assembleScenario() Scenario {
	return Scenario{
		Name: "assemble", Rows: 2_000_000, Run: runAssemble,
		What: "the making of the result file: from the last verdict to completed",
		Bars: "0.6 of zstd of the same bytes",
	}
}

// assemblePollEvery is how often the job is polled for the state finalizing.
const assemblePollEvery = 5 * time.Millisecond

// runAssemble runs a job with a test key and measures how long it stays in the state finalizing.
func runAssemble(ctx context.Context, t *Trial) error {
	return withTestService(ctx, t, func(s *service, list string) error {
		t.logProgress("upload and run")
		job, err := s.upload(ctx, s.keys[0], list, nil)
		if err != nil {
			return err
		}
		var from, to time.Time
		var cpu, used time.Duration
		err = s.follow(ctx, s.keys[0], job.ID, assemblePollEvery, func(j jobRecord) {
			switch {
			case j.Status == "finalizing" && from.IsZero():
				from, cpu = time.Now(), s.cpu()
			case j.finished():
				to, used = time.Now(), s.cpu()-cpu
			}
		})
		if err != nil {
			return err
		}
		if from.IsZero() {
			return errors.New("the job was never seen finalizing: give more --rows")
		}
		result := filepath.Join(t.Dir, "result.csv.zst")
		if _, err := s.results(ctx, s.keys[0], job.ID, result); err != nil {
			return err
		}
		return reportAssemble(t, result, to.Sub(from), used, s)
	})
}

func reportAssemble(t *Trial, result string, took, used time.Duration, s *service) error {
	baseline, err := fastest(func() (bytesBaseline, error) { return zstdBaseline(result) })
	if err != nil {
		return err
	}
	t.Metric("rows", float64(t.rows), "")
	t.Metric("seconds", took.Seconds(), "s")
	t.Metric("rows_per_second", ratio(float64(t.rows), took.Seconds()), "rows/s")
	t.Metric("cpu_per_row", perItem(used, t.rows), "us")
	t.Metric("size", float64(baseline.Bytes)/1e6, "MB")
	reportBytesBaseline(t, baseline, took, used)
	t.reportPeak("peak_memory", s.peak())
	t.AtLeast("ratio_to_floor", 0.6)
	t.Plots.Memory = []report.Series{memorySeries("serve", s.history())}
	t.Plots.Stages = []report.Stage{{Name: "zstd", Parts: []report.Part{{Process: "floor", CPU: baseline.CPU}}}, {Name: "finalizing", Parts: []report.Part{{Process: "serve", CPU: used}}}}
	return nil
}

// withTestService calls do with a list and a service whose keys probe nothing.
func withTestService(ctx context.Context, t *Trial, do func(*service, string) error) error {
	return t.withInternet(ctx, 0, func(in *internet) error {
		return t.withService(ctx, in, serviceConfig{name: "data", test: true}, func(s *service) error {
			list, err := t.writeList("list.csv", in.world, t.rows)
			if err != nil {
				return err
			}
			return do(s, list)
		})
	})
}

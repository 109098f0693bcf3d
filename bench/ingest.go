package bench

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"probity/bench/baseline"
	"probity/bench/process"
	"probity/bench/report"
)

// byteRounds is how often a list is uploaded, and how often a baseline of bytes is measured. The fastest of each
// counts: other load of the machine can only slow them down.
const byteRounds = 3

// runIngest measures uploads and cancels their jobs. It uses a test key, so that nothing is probed meanwhile.
func runIngest(ctx context.Context, t *Trial) error {
	return withTestService(ctx, t, func(s *service, list string) error {
		var bare baseline.Bytes
		var best uploadCount
		for range byteRounds {
			f, err := baseline.ParseList(list)
			if err != nil {
				return err
			}
			if bare.Elapsed == 0 || f.Elapsed < bare.Elapsed {
				bare = f
			}
			u, err := timeUpload(ctx, t, s, list)
			if err != nil {
				return err
			}
			if best.elapsed == 0 || u.elapsed < best.elapsed {
				best = u
			}
		}
		reportBytes(t, bare, best.elapsed, best.cpu)
		t.Metric("missing_rows", float64(t.rows-best.rows), "")
		t.reportPeak("peak_memory", s.Peak())
		t.AtLeast("ratio_to_floor", 0.5)
		t.AtMost("missing_rows", 0)
		t.Plots.Memory = []report.Series{process.MemorySeries("serve", s.Samples())}
		t.Plots.Stages = []report.Stage{{Name: "parsing and zstd",
			Parts: []report.Part{{Process: "floor", CPU: bare.CPU}}},
			{Name: "upload", Parts: []report.Part{{Process: "serve", CPU: best.cpu}}}}
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
	start, cpu := time.Now(), s.CPU()
	job, err := s.upload(ctx, s.keys[0], list)
	if err != nil {
		return u, err
	}
	u = uploadCount{rows: job.Rows, elapsed: time.Since(start), cpu: s.CPU() - cpu}
	if err := s.cancel(ctx, s.keys[0], job.ID); err != nil {
		return u, err
	}
	return u, s.follow(ctx, s.keys[0], job.ID, pollEvery, func(jobRecord) {})
}

// reportBytes reports what work on bytes took, and its ratio to the baseline.
func reportBytes(t *Trial, bare baseline.Bytes, took, used time.Duration) {
	t.Metric("rows", float64(t.rows), "")
	t.Metric("seconds", took.Seconds(), "s")
	t.Metric("rows_per_second", ratio(float64(t.rows), took.Seconds()), "rows/s")
	t.Metric("cpu_per_row", perItem(used, t.rows), "us")
	t.Metric("size", float64(bare.Bytes)/1e6, "MB")
	t.Metric("floor_rows_per_second", ratio(float64(t.rows), bare.Elapsed.Seconds()), "rows/s")
	t.Metric("floor_cpu_per_row", perItem(bare.CPU, t.rows), "us")
	t.Metric("ratio_to_floor", ratio(bare.Elapsed.Seconds(), took.Seconds()), "ratio")
	t.Metric("cpu_ratio_to_floor", ratio(used.Seconds(), bare.CPU.Seconds()), "ratio")
}

// assemblePollEvery is how often the job is polled for the state finalizing.
const assemblePollEvery = 5 * time.Millisecond

// runAssemble runs a job with a test key and measures how long it stays in the state finalizing.
func runAssemble(ctx context.Context, t *Trial) error {
	return withTestService(ctx, t, func(s *service, list string) error {
		t.logProgress("upload and run")
		job, err := s.upload(ctx, s.keys[0], list)
		if err != nil {
			return err
		}
		var from, to time.Time
		var cpu, used time.Duration
		err = s.follow(ctx, s.keys[0], job.ID, assemblePollEvery, func(j jobRecord) {
			switch {
			case j.Status == "finalizing" && from.IsZero():
				from, cpu = time.Now(), s.CPU()
			case j.finished():
				to, used = time.Now(), s.CPU()-cpu
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
		took := to.Sub(from)
		var bare baseline.Bytes
		for range byteRounds {
			f, err := baseline.CompressAgain(result)
			if err != nil {
				return err
			}
			if bare.Elapsed == 0 || f.Elapsed < bare.Elapsed {
				bare = f
			}
		}
		reportBytes(t, bare, took, used)
		t.reportPeak("peak_memory", s.Peak())
		t.AtLeast("ratio_to_floor", 0.6)
		t.Plots.Memory = []report.Series{process.MemorySeries("serve", s.Samples())}
		t.Plots.Stages = []report.Stage{{Name: "zstd", Parts: []report.Part{{Process: "floor", CPU: bare.CPU}}},
			{Name: "finalizing", Parts: []report.Part{{Process: "serve", CPU: used}}}}
		return nil
	})
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

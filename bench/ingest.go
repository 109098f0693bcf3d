package bench

import (
	"context"
	"errors"
	"path/filepath"
	"time"
)

func ingestScenario() Scenario {
	return Scenario{
		Name: "ingest", Rows: 5_000_000, Run: runIngest,
		What: "an upload, from its first byte to 202: received, spooled, counted, deduplicated, synced",
		Bars: "0.5 of parsing and zstd of the same bytes",
	}
}

// runIngest measures one upload with a test key, so that nothing is probed beside it, and cancels the job.
func runIngest(ctx context.Context, t *Trial) error {
	return t.withTestService(ctx, func(s *service, list string) error {
		floor, err := ingestFloor(list)
		if err != nil {
			return err
		}
		t.say("upload")
		began, cpu := time.Now(), s.cpu()
		job, err := s.upload(ctx, s.keys[0], list, nil)
		if err != nil {
			return err
		}
		took, used := time.Since(began), s.cpu()-cpu
		t.metric("rows", float64(t.rows), "")
		t.metric("seconds", took.Seconds(), "s")
		t.metric("rows_per_second", ratio(float64(t.rows), took.Seconds()), "rows/s")
		t.metric("cpu_per_row", perItem(used, t.rows), "us")
		t.metric("size", float64(floor.Bytes)/1e6, "MB")
		t.metric("floor_rows_per_second", ratio(float64(floor.Rows), floor.Elapsed.Seconds()), "rows/s")
		t.metric("ratio_to_floor", ratio(floor.Elapsed.Seconds(), took.Seconds()), "ratio")
		t.metric("missing_rows", float64(t.rows-job.Rows), "")
		t.reportPeak("peak_memory", s.peak())
		t.atLeast("ratio_to_floor", 0.5)
		t.atMost("missing_rows", 0)
		t.Plots.Memory = []Series{memorySeries("serve", s.history())}
		if err := s.cancel(ctx, s.keys[0], job.ID); err != nil {
			return err
		}
		return s.follow(ctx, s.keys[0], job.ID, lookEvery, func(jobRecord) {})
	})
}

func assembleScenario() Scenario {
	return Scenario{
		Name: "assemble", Rows: 2_000_000, Run: runAssemble,
		What: "the making of the result file: from the last verdict to completed",
		Bars: "0.6 of zstd of the same bytes",
	}
}

// assembleLook is how often the job is looked at for its turn to finalizing.
const assembleLook = 5 * time.Millisecond

// runAssemble runs a job with a test key and measures how long it is finalizing.
func runAssemble(ctx context.Context, t *Trial) error {
	return t.withTestService(ctx, func(s *service, list string) error {
		t.say("upload and run")
		job, err := s.upload(ctx, s.keys[0], list, nil)
		if err != nil {
			return err
		}
		var from, to time.Time
		var cpu, used time.Duration
		err = s.follow(ctx, s.keys[0], job.ID, assembleLook, func(j jobRecord) {
			switch {
			case j.Status == "finalizing" && from.IsZero():
				from, cpu = time.Now(), s.cpu()
			case j.over():
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
		return t.reportAssemble(result, to.Sub(from), used, s)
	})
}

func (t *Trial) reportAssemble(result string, took, used time.Duration, s *service) error {
	floor, err := zstdFloor(result)
	if err != nil {
		return err
	}
	t.metric("rows", float64(t.rows), "")
	t.metric("seconds", took.Seconds(), "s")
	t.metric("rows_per_second", ratio(float64(t.rows), took.Seconds()), "rows/s")
	t.metric("cpu_per_row", perItem(used, t.rows), "us")
	t.metric("size", float64(floor.Bytes)/1e6, "MB")
	t.metric("floor_rows_per_second", ratio(float64(t.rows), floor.Elapsed.Seconds()), "rows/s")
	t.metric("ratio_to_floor", ratio(floor.Elapsed.Seconds(), took.Seconds()), "ratio")
	t.reportPeak("peak_memory", s.peak())
	t.atLeast("ratio_to_floor", 0.6)
	t.Plots.Memory = []Series{memorySeries("serve", s.history())}
	return nil
}

// withTestService gives do a list and a service whose keys probe nothing.
func (t *Trial) withTestService(ctx context.Context, do func(*service, string) error) (err error) {
	in, err := t.startInternet(ctx, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.end()) }()
	providers, err := t.writeProviders(0)
	if err != nil {
		return err
	}
	s, err := t.startService(ctx, in, serviceConfig{name: "data", providers: providers, test: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	list, err := t.writeList("list.csv", in.world, t.rows)
	if err != nil {
		return err
	}
	return do(s, list)
}

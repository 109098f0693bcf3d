package bench

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"probity/bench/process"
	"probity/bench/report"
)

// fullJobRows is the list size for which the bars of the bulk scenario are meant.
const fullJobRows = 5_000_000

// runBulk measures a job of a tenth of the rows, one of all rows, and ten jobs of a tenth each at once, each run on a
// fresh service.
func runBulk(ctx context.Context, t *Trial) error {
	return t.withInternet(ctx, 0, func(in *internet) error {
		run := func(ctx context.Context, in *internet, name, list string) (runStats, error) {
			return bulkOnFreshService(ctx, t, in, name, list)
		}
		g, err := t.measureGrowth(ctx, in, run)
		if err != nil {
			return err
		}
		t.reportRun(g.large, t.rows, g.bare)
		reportJob(t, g.large)
		if t.Latency == "none" {
			t.AtLeast("rows_per_second", fullJobRows/90)
		}
		if t.rows >= fullJobRows {
			t.AtMost("seconds", 90)
		}
		t.AtMost("peak_memory", 512)
		t.reportGrowth(g)
		if err := t.scoreRun(in.world, g.list, g.large); err != nil {
			return err
		}
		return measureConcurrentJobs(ctx, t, in, g)
	})
}

// reportJob reports the metrics that only jobs have.
func reportJob(t *Trial, r runStats) {
	for _, state := range slices.Sorted(maps.Keys(r.stateTimes)) {
		t.Metric("seconds_"+state, r.stateTimes[state].Seconds(), "s")
	}
	t.Metric("result_size", float64(r.bytes)/1e6, "MB")
}

// bulkOnFreshService runs one job on a fresh service.
func bulkOnFreshService(ctx context.Context, t *Trial, in *internet, name, list string) (r runStats, err error) {
	err = t.withService(ctx, in, serviceConfig{name: name}, func(s *service) error {
		r, err = bulk(ctx, t, in, s, list, name+".csv.zst")
		return err
	})
	return r, err
}

// pollEvery is how often a job is polled.
const pollEvery = 100 * time.Millisecond

// bulk uploads a list, follows the job and downloads its result.
func bulk(ctx context.Context, t *Trial, in *internet, s *service, list, result string) (r runStats, err error) {
	before, err := in.report(ctx)
	if err != nil {
		return r, err
	}
	t.logProgress("upload %s", filepath.Base(list))
	r.result = filepath.Join(t.Dir, result)
	r.stateTimes = map[string]time.Duration{}
	r.throughput = report.Series{Name: "rows finished", Unit: "rows/s"}
	clock := stageClock{processes: []*process.Process{s.Process, in.Process}, names: []string{"serve", "sim"}}
	clock.begin("upload")
	start, cpu, simCPU := time.Now(), s.CPU(), in.CPU()
	job, err := s.upload(ctx, s.keys[0], list)
	if err != nil {
		return r, err
	}
	watch := jobWatch{run: &r, clock: &clock, start: start, seenAt: time.Now(), plottedAt: time.Now()}
	if err := s.follow(ctx, s.keys[0], job.ID, pollEvery, watch.observe); err != nil {
		return r, err
	}
	clock.begin("download")
	if r.bytes, err = s.results(ctx, s.keys[0], job.ID, r.result); err != nil {
		return r, err
	}
	r.elapsed, r.cpu, r.simCPU = time.Since(start), s.CPU()-cpu, in.CPU()-simCPU
	r.stages, r.peak, r.samples = clock.end(), s.Peak(), s.Samples()
	after, err := in.report(ctx)
	r.traffic = trafficBetween(before, after)
	return r, err
}

// jobWatch turns the polled states of a job into throughput, stages and times.
type jobWatch struct {
	run    *runStats
	clock  *stageClock
	start  time.Time
	seenAt time.Time // of the last poll
	job    jobRecord

	plottedAt time.Time // of the last point of the throughput
	processed int       // at that time
}

// observe records the next poll.
func (w *jobWatch) observe(job jobRecord) {
	now := time.Now()
	if job.Status != w.job.Status && !job.finished() {
		w.clock.begin(job.Status)
	}
	w.run.stateTimes[job.Status] += now.Sub(w.seenAt)
	w.job, w.seenAt = job, now
	if passed := now.Sub(w.plottedAt); passed >= throughputEvery && job.Processed >= w.processed {
		w.run.throughput.Add(now.Sub(w.start), float64(job.Processed-w.processed)/passed.Seconds())
		w.plottedAt, w.processed = now, job.Processed
	}
}

// stageClock splits the CPU time of processes by stages.
type stageClock struct {
	processes []*process.Process
	names     []string
	stages    []report.Stage
	last      []time.Duration
}

// begin ends the stage before.
func (c *stageClock) begin(name string) {
	c.closeStage()
	c.stages = append(c.stages, report.Stage{Name: name})
}

func (c *stageClock) closeStage() {
	now := make([]time.Duration, len(c.processes))
	for i, p := range c.processes {
		now[i] = p.CPU()
	}
	if n := len(c.stages); n > 0 {
		for i := range now {
			c.stages[n-1].Parts = append(c.stages[n-1].Parts,
				report.Part{Process: c.names[i], CPU: max(0, now[i]-c.last[i])})
		}
	}
	c.last = now
}

// end ends the last stage.
func (c *stageClock) end() []report.Stage {
	c.closeStage()
	return c.stages
}

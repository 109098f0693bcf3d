package bench

import (
	"context"
	"errors"
	"path/filepath"
	"time"
)

func bulkScenario() Scenario {
	return Scenario{
		Name: "bulk", Rows: 5_000_000, Run: runBulk,
		What: "a list through the HTTP API, from upload to downloaded result: realistic mix, no limits",
		Bars: "5,000,000 rows in 90 s, server under 512 MB and within 1.15 of a tenth of the rows, no wrong verdict",
	}
}

// runBulk measures the bare client, a tenth of the rows, and all of them, each job on a service of its own.
func runBulk(ctx context.Context, t *Trial) (err error) {
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
	small, err := t.bulkAlone(ctx, in, "small", sample)
	if err != nil {
		return err
	}
	large, err := t.bulkAlone(ctx, in, "large", list)
	if err != nil {
		return err
	}
	t.reportBulk(large, t.rows, floor)
	t.reportGrowth(small.verifyRun, fewer, large.verifyRun, t.rows)
	scores, err := t.score(in.world, list, large.result)
	if err != nil {
		return err
	}
	t.judge(scores)
	return nil
}

// bulkRun is what one job took, from the first byte sent to the last byte received.
type bulkRun struct {
	verifyRun
	stages []Stage
	times  map[string]time.Duration // how long the job was seen in each state
	bytes  int64                    // of the result, compressed
}

// bulkAlone runs one job on a service that has done nothing before.
func (t *Trial) bulkAlone(ctx context.Context, in *internet, name, list string) (run bulkRun, err error) {
	providers, err := t.writeProviders(0)
	if err != nil {
		return run, err
	}
	s, err := t.startService(ctx, in, serviceConfig{name: name, providers: providers})
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, s.end()) }()
	return t.bulk(ctx, in, s, list, name+".csv.zst")
}

// lookEvery is how often a job is looked at.
const lookEvery = 100 * time.Millisecond

// bulk uploads a list, follows the job and downloads its result.
func (t *Trial) bulk(ctx context.Context, in *internet, s *service, list, result string) (run bulkRun, err error) {
	before, err := in.report(ctx)
	if err != nil {
		return run, err
	}
	t.say("upload %s", filepath.Base(list))
	run.result = filepath.Join(t.Dir, result)
	run.times = map[string]time.Duration{}
	run.pulse = Series{Name: "rows finished", Unit: "rows/s"}
	clock := stageClock{processes: []*process{s.process, in.process}, names: []string{"serve", "sim"}}
	clock.begin("upload")
	began, cpu, simCPU := time.Now(), s.cpu(), in.cpu()
	job, err := s.upload(ctx, s.keys[0], list, nil)
	if err != nil {
		return run, err
	}
	watch := jobWatch{run: &run, clock: &clock, began: began, at: time.Now()}
	if err := s.follow(ctx, s.keys[0], job.ID, lookEvery, watch.see); err != nil {
		return run, err
	}
	clock.begin("download")
	if run.bytes, err = s.results(ctx, s.keys[0], job.ID, run.result); err != nil {
		return run, err
	}
	run.elapsed, run.cpu, run.simCPU = time.Since(began), s.cpu()-cpu, in.cpu()-simCPU
	run.stages, run.peak, run.samples = clock.end(), s.peak(), s.history()
	after, err := in.report(ctx)
	run.traffic = between(before, after)
	return run, err
}

// jobWatch turns what is seen of a job into a pulse, stages and times.
type jobWatch struct {
	run   *bulkRun
	clock *stageClock
	began time.Time
	at    time.Time
	job   jobRecord
}

// see takes the next look.
func (w *jobWatch) see(job jobRecord) {
	now := time.Now()
	if job.Status != w.job.Status && !job.over() {
		w.clock.begin(job.Status)
	}
	passed := now.Sub(w.at)
	w.run.times[job.Status] += passed
	if passed > 0 && job.Processed >= w.job.Processed {
		w.run.pulse.add(now.Sub(w.began), float64(job.Processed-w.job.Processed)/passed.Seconds())
	}
	w.job, w.at = job, now
}

// stageClock splits the CPU time of processes by stages.
type stageClock struct {
	processes []*process
	names     []string
	stages    []Stage
	last      []time.Duration
}

// begin ends the stage before.
func (c *stageClock) begin(name string) {
	c.settle()
	c.stages = append(c.stages, Stage{Name: name})
}

func (c *stageClock) settle() {
	now := make([]time.Duration, len(c.processes))
	for i, p := range c.processes {
		now[i] = p.cpu()
	}
	if n := len(c.stages); n > 0 {
		for i := range now {
			c.stages[n-1].Parts = append(c.stages[n-1].Parts, Part{c.names[i], max(0, now[i]-c.last[i])})
		}
	}
	c.last = now
}

// end ends the last stage.
func (c *stageClock) end() []Stage {
	c.settle()
	return c.stages
}

// fullJob is the size of a list for which the bars of the bulk scenario are meant.
const fullJob = 5_000_000

func (t *Trial) reportBulk(run bulkRun, rows int, floor floorCount) {
	t.reportVerify(run.verifyRun, rows, floor)
	for state, took := range run.times {
		t.metric("seconds_"+state, took.Seconds(), "s")
	}
	t.metric("result_size", float64(run.bytes)/1e6, "MB")
	t.Bars = nil // those of the command line are others
	if t.Latency == "none" {
		t.atLeast("rows_per_second", fullJob/90)
	}
	if rows >= fullJob {
		t.atMost("seconds", 90)
	}
	t.atMost("peak_memory", 512)
	t.Plots.Memory = []Series{memorySeries("serve", run.samples)}
	t.Plots.Stages = run.stages
}

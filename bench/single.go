package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"time"

	"probity/bench/process"
	"probity/bench/report"
)

// The loads of the single scenario.
const (
	cachedAddresses    = 2000
	freshAddresses     = 2000
	freshConnections   = 32
	cachedConnections  = 64
	defaultLoadTime    = 5 * time.Second
	withJobConnections = 256
	loadAccounts       = 8 // each may ask 1,000,000 times a minute
)

// runSingle measures the service and a bare handler with the same client.
func runSingle(ctx context.Context, t *Trial) error {
	return t.withInternet(ctx, 0, func(in *internet) error {
		list, err := t.writeList("list.csv", in.world, t.rows)
		if err != nil {
			return err
		}
		bodies, err := singleBodies(ctx, t, in, list)
		if err != nil {
			return err
		}
		return t.withService(ctx, in, serviceConfig{name: "data", accounts: loadAccounts}, func(s *service) error {
			single := load{url: s.baseURL + "/v1/verify/single", keys: s.keys}
			if err := measureFresh(ctx, t, single, bodies); err != nil {
				return err
			}
			if err := measureCached(ctx, t, s, single, bodies[:cachedAddresses]); err != nil {
				return err
			}
			return measureWithJob(ctx, t, s, single, bodies[:cachedAddresses], list)
		})
	})
}

// singleBodies makes the request bodies for distinct addresses of the list, first those that will be cached.
func singleBodies(ctx context.Context, t *Trial, in *internet, list string) (bodies [][]byte, err error) {
	addresses, err := distinctAddresses(ctx, t, in, list, cachedAddresses+freshAddresses)
	for _, address := range addresses {
		body, err := json.Marshal(map[string]string{"email": address})
		if err != nil {
			return nil, err
		}
		bodies = append(bodies, body)
	}
	return bodies, err
}

// distinctAddresses returns so many addresses of the list, a few of each domain.
func distinctAddresses(ctx context.Context, t *Trial, in *internet, list string, n int) (addresses []string,
	err error) {
	tasks, err := plan(ctx, t, in, list)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, e := range tasks {
		for _, transaction := range e.Transactions {
			for _, address := range transaction[:min(len(transaction), 5)] {
				if seen[address] {
					continue
				}
				seen[address] = true
				addresses = append(addresses, address)
				if len(addresses) == n {
					return addresses, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("%d distinct addresses in the list, %d are needed: give more --rows", len(addresses), n)
}

// measureFresh requests addresses that were not requested before.
func measureFresh(ctx context.Context, t *Trial, l load, bodies [][]byte) error {
	t.logProgress("fresh addresses")
	l.name = "fresh"
	l.connections = freshConnections
	l.bodies = bodies
	l.requests = len(bodies)
	fresh, err := l.run(ctx)
	if err != nil {
		return err
	}
	reportLoad(t, "fresh", fresh)
	t.AtMost("fresh_errors", 0)
	return nil
}

// cachedRounds is how often the service and the bare handler alternate, so that both see the same load of the machine.
const cachedRounds = 5

// measureCached sends requests for cached addresses to the service and to the baseline alternately.
func measureCached(ctx context.Context, t *Trial, s *service, l load, bodies [][]byte) (err error) {
	p, at, err := startBareHandler(ctx, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.End()) }()
	t.logProgress("cached addresses, and a bare handler in turns")
	l.name = "cached"
	l.connections = cachedConnections
	l.bodies = bodies
	l.duration = loadTime(t) / cachedRounds
	bare := l
	bare.name, bare.url, bare.keys = "bare handler", at+"/v1/verify/single", []string{"none"}
	cached, handler := loadSide{load: l, server: s.Process}, loadSide{load: bare, server: p}
	for range cachedRounds {
		if err := errors.Join(cached.run(ctx), handler.run(ctx)); err != nil {
			return err
		}
	}
	reportSide(t, "cached", &cached)
	reportSide(t, "floor", &handler)
	t.Metric("ratio_to_floor", ratio(cached.count.perSecond(), handler.count.perSecond()), "ratio")
	t.AtMost("cached_errors", 0)
	t.AtLeast("cached_per_second", 10_000)
	return nil
}

var bareReadyLine = regexp.MustCompile(`bare handler at (http://\S+)$`)

// startBareHandler starts the bare handler and returns its URL.
func startBareHandler(ctx context.Context, t *Trial) (*process.Process, string, error) {
	ready := make(chan string, 1)
	p, err := process.Start(ctx, process.Command{Name: "bare handler", Binary: t.Binary,
		Args: []string{"bench", "--floor-http"}, Line: func(l string) {
			if m := bareReadyLine.FindStringSubmatch(l); m != nil {
				select {
				case ready <- m[1]:
				default:
				}
			}
		}})
	if err != nil {
		return nil, "", err
	}
	select {
	case at := <-ready:
		return p, at, nil
	case <-p.Done():
		return nil, "", errors.Join(p.Wait(), errors.New("the bare handler ended: "+p.LastLine()))
	case <-time.After(readyTimeout):
	case <-ctx.Done():
	}
	return nil, "", errors.Join(fmt.Errorf("bare handler: %w", errNotReady), p.End(), ctx.Err())
}

// loadSide is one side of an alternating comparison: a load, the process that answers it, and the result so far.
type loadSide struct {
	load   load
	server *process.Process
	count  loadCount
	cpu    time.Duration // of the process
}

func (s *loadSide) run(ctx context.Context) error {
	before := s.server.CPU()
	count, err := s.load.run(ctx)
	s.cpu += s.server.CPU() - before
	s.count.Name = count.Name
	s.count.Merge(&count.Histogram)
	s.count.Errors += count.Errors
	s.count.Elapsed += count.Elapsed
	s.count.CPU += count.CPU
	return err
}

// reportSide reports one side, and the CPU time of a request in the process that answers and in the client.
func reportSide(t *Trial, name string, s *loadSide) {
	reportLoad(t, name, s.count)
	t.Metric(name+"_cpu", perItem(s.cpu, int(s.count.Total)), "us")
	t.Metric(name+"_client_cpu", perItem(s.count.CPU, int(s.count.Total)), "us")
}

// withJobRates are the loads that are sent while a job runs.
var withJobRates = []struct {
	perSecond int     // requests
	name      string  // of its metrics
	p99       float64 // at most, in ms; 0: not promised
}{{50, "with_job_50", 100}, {500, "with_job_500", 100}, {5000, "with_job_5000", 0}}

// measureWithJob sends cached addresses at fixed rates, one after another, while a job runs.
func measureWithJob(ctx context.Context, t *Trial, s *service, l load, bodies [][]byte, list string) error {
	job, err := s.upload(ctx, s.keys[0], list)
	if err != nil {
		return err
	}
	done := 0
	for _, rate := range withJobRates {
		t.logProgress(fmt.Sprintf("cached addresses at %d requests/s while a job runs", rate.perSecond))
		l.name, l.rate, l.bodies = rate.name, rate.perSecond, bodies
		done, err = runWithJob(ctx, t, s, l, job.ID, done)
		if err != nil {
			return err
		}
		t.AtMost(rate.name+"_p50", 150)
		if rate.p99 > 0 {
			t.AtMost(rate.name+"_p99", rate.p99)
		}
	}
	return endWithJob(ctx, t, s, job.ID)
}

// runWithJob sends a load while a job runs, of which so many rows are done, and reports both. It returns how many rows
// are done then.
func runWithJob(ctx context.Context, t *Trial, s *service, l load, jobID string, done int) (processed int, err error) {
	l.connections, l.duration = withJobConnections, loadTime(t)
	before := process.ReadUsage()
	count, err := l.run(ctx)
	if err != nil {
		return 0, err
	}
	process.ReportStolen(t.Report, l.name+"_stolen", before, process.ReadUsage())
	now, err := s.job(ctx, s.keys[0], jobID)
	if err != nil {
		return 0, err
	}
	if now.finished() {
		t.Note("the job was finished before the load of %d requests/s was: give more --rows", l.rate)
	}
	reportLoad(t, l.name, count)
	t.Metric(l.name+"_rows_per_second", ratio(float64(now.Processed-done), count.Elapsed.Seconds()), "rows/s")
	t.AtMost(l.name+"_errors", 0)
	return now.Processed, nil
}

// endWithJob reports what the service used, and ends the job that ran meanwhile.
func endWithJob(ctx context.Context, t *Trial, s *service, jobID string) error {
	t.Metric("rows", float64(t.rows), "")
	t.reportPeak("peak_memory", s.Peak())
	t.Plots.Memory = []report.Series{process.MemorySeries("serve", s.Samples())}
	if err := s.cancel(ctx, s.keys[0], jobID); err != nil {
		return err
	}
	return s.follow(ctx, s.keys[0], jobID, pollEvery, func(jobRecord) {})
}

// reportLoad reports one load under a name.
func reportLoad(t *Trial, name string, c loadCount) {
	t.Metric(name+"_per_second", c.perSecond(), "requests/s")
	t.Metric(name+"_p50", milliseconds(c.Quantile(0.5)), "ms")
	t.Metric(name+"_p99", milliseconds(c.Quantile(0.99)), "ms")
	t.Metric(name+"_errors", float64(c.Errors), "")
	t.Plots.Latency = append(t.Plots.Latency, c.Histogram)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// loadTime is the duration of a load without another bound.
func loadTime(t *Trial) time.Duration {
	if t.Load > 0 {
		return t.Load
	}
	return defaultLoadTime
}

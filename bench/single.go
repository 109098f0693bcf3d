package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

func singleScenario() Scenario {
	return Scenario{
		Name: "single", Rows: 500_000, Run: runSingle,
		What: "one address a request: fresh, cached, and cached at 5,000 requests/s with a list running beside",
		Bars: "cached 0.6 of a bare handler, p99 under 10 ms beside the list, no failed request",
	}
}

// The loads of the single scenario.
const (
	cachedAddresses = 2000
	freshAddresses  = 2000
	freshAtOnce     = 32
	cachedAtOnce    = 64
	defaultLoad     = 5 * time.Second
	besideRate      = 5000
	besideAtOnce    = 256
	accountsAtOnce  = 8 // each may ask 1,000,000 times a minute
)

// runSingle measures the service and a bare handler with the same client.
func runSingle(ctx context.Context, t *Trial) error {
	return t.withInternet(ctx, 0, func(in *internet) error {
		list, err := t.writeList("list.csv", in.world, t.rows)
		if err != nil {
			return err
		}
		bodies, err := t.singleBodies(ctx, in, list)
		if err != nil {
			return err
		}
		return t.withService(ctx, in, serviceConfig{name: "data", accounts: accountsAtOnce}, func(s *service) error {
			return t.measureLoads(ctx, s, bodies, list)
		})
	})
}

// measureLoads sends every load, the floor's among them.
func (t *Trial) measureLoads(ctx context.Context, s *service, bodies [][]byte, list string) error {
	single := load{url: s.base + "/v1/verify/single", keys: s.keys}
	if err := t.measureSingle(ctx, single, bodies); err != nil {
		return err
	}
	if err := t.measureBareHandler(ctx, bodies[:cachedAddresses]); err != nil {
		return err
	}
	t.metric("ratio_to_floor", ratio(t.Metrics["cached_per_second"].Value, t.Metrics["floor_per_second"].Value), "ratio")
	t.atLeast("ratio_to_floor", 0.6)
	return t.measureBeside(ctx, s, single, bodies[:cachedAddresses], list)
}

// singleBodies are the request bodies for distinct addresses of the list: first those that will be cached.
func (t *Trial) singleBodies(ctx context.Context, in *internet, list string) (bodies [][]byte, err error) {
	book := hostBook{dial: t.Dial, server: in.dns}
	p := planner{world: in.world, ask: book.find}
	errands, err := p.plan(ctx, list)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, e := range errands {
		for _, transaction := range e.transactions {
			for _, address := range transaction[:min(len(transaction), 5)] { // a few of each domain
				if seen[address] {
					continue
				}
				seen[address] = true
				body, err := json.Marshal(map[string]string{"email": address})
				if err != nil {
					return nil, err
				}
				if bodies = append(bodies, body); len(bodies) == cachedAddresses+freshAddresses {
					return bodies, nil
				}
			}
		}
	}
	return nil, fmt.Errorf("%d distinct addresses in the list, %d are needed: give more --rows", len(bodies), cachedAddresses+freshAddresses)
}

// measureSingle asks for addresses that nobody has asked for, and then for some of them again and again.
func (t *Trial) measureSingle(ctx context.Context, l load, bodies [][]byte) error {
	t.say("fresh addresses")
	l.name, l.connections, l.bodies, l.requests = "fresh", freshAtOnce, bodies, len(bodies)
	fresh, err := l.run(ctx)
	if err != nil {
		return err
	}
	t.reportLoad("fresh", fresh)
	t.say("cached addresses")
	l.name, l.connections, l.bodies, l.requests, l.duration = "cached", cachedAtOnce, bodies[:cachedAddresses], 0, t.loadTime()
	cached, err := l.run(ctx)
	if err != nil {
		return err
	}
	t.reportLoad("cached", cached)
	t.atMost("fresh_errors", 0)
	t.atMost("cached_errors", 0)
	return nil
}

// measureBareHandler sends the same requests to the floor.
func (t *Trial) measureBareHandler(ctx context.Context, bodies [][]byte) (err error) {
	p, at, err := t.startFloorServer(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.end()) }()
	t.say("floor: a bare handler")
	l := load{name: "bare handler", url: at + "/v1/verify/single", keys: []string{"none"}, bodies: bodies, connections: cachedAtOnce, duration: t.loadTime()}
	count, err := l.run(ctx)
	if err != nil {
		return err
	}
	t.reportLoad("floor", count)
	return nil
}

// measureBeside sends cached addresses at a fixed rate while a list runs.
func (t *Trial) measureBeside(ctx context.Context, s *service, l load, bodies [][]byte, list string) error {
	job, err := s.upload(ctx, s.keys[0], list, nil)
	if err != nil {
		return err
	}
	t.say("cached addresses at a fixed rate beside a list")
	l.name, l.connections, l.bodies, l.rate, l.duration = "beside a list", besideAtOnce, bodies, besideRate, t.loadTime()
	count, err := l.run(ctx)
	if err != nil {
		return err
	}
	after, err := s.job(ctx, s.keys[0], job.ID)
	if err != nil {
		return err
	}
	if after.over() {
		t.remark("the list was finished before the load was: give more --rows")
	}
	t.reportLoad("beside", count)
	t.metric("beside_rows_per_second", ratio(float64(after.Processed), count.Elapsed.Seconds()), "rows/s")
	t.metric("rows", float64(t.rows), "")
	t.reportPeak("peak_memory", s.peak())
	t.atMost("beside_p99", 10)
	t.atMost("beside_errors", 0)
	t.Plots.Memory = []Series{memorySeries("serve", s.history())}
	if err := s.cancel(ctx, s.keys[0], job.ID); err != nil {
		return err
	}
	return s.follow(ctx, s.keys[0], job.ID, lookEvery, func(jobRecord) {})
}

// reportLoad notes one load under a name.
func (t *Trial) reportLoad(name string, c loadCount) {
	t.metric(name+"_per_second", c.perSecond(), "requests/s")
	t.metric(name+"_p50", milliseconds(c.quantile(0.5)), "ms")
	t.metric(name+"_p99", milliseconds(c.quantile(0.99)), "ms")
	t.metric(name+"_errors", float64(c.Errors), "")
	t.Plots.Latency = append(t.Plots.Latency, c.Histogram)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// loadTime is how long a load goes on that is not bounded otherwise.
func (t *Trial) loadTime() time.Duration {
	if t.Load > 0 {
		return t.Load
	}
	return defaultLoad
}

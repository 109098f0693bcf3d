package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"probity/bench/sim/world"
)

// growthLimit is the highest ratio of the cost of a row at one size to that at the size before.
const growthLimit = 1.4

// growthSize is one run of an axis. The zero value of a field is its smallest.
type growthSize struct {
	name    string
	rows    int
	jobs    int    // concurrent jobs over which the rows are distributed, of ten accounts
	domains int    // number of domains with one row each, in place of the usual mix
	sources int    // egress sources
	latency string // of each batch of replies
}

// growthAxis is one quantity that grows, from the smallest size.
type growthAxis struct {
	name  string
	sizes []growthSize
}

// growthAxes are the axes of the scenario. On the axis of jobs the total of rows is constant, so that only the number
// of jobs grows.
func growthAxes(rows int) []growthAxis {
	shared := 20 * rows
	return []growthAxis{
		{"rows", []growthSize{{name: "1", rows: rows}, {name: "10", rows: 10 * rows}, {name: "100", rows: 100 * rows}}},
		{"jobs", []growthSize{{name: "1", rows: shared}, {name: "10", rows: shared, jobs: 10},
			{name: "100", rows: shared, jobs: 100}}},
		{"domains", []growthSize{sizeOfDomains(rows / 5), sizeOfDomains(rows), sizeOfDomains(10 * rows)}},
		{"sources", []growthSize{{name: "1", rows: rows}, {name: "8", rows: rows, sources: 8},
			{name: "64", rows: rows, sources: 64}}},
		{"latency", []growthSize{{name: "0", rows: rows}, {name: "50ms", rows: rows, latency: "50ms"},
			{name: "200ms", rows: rows, latency: "200ms"}}},
	}
}

func sizeOfDomains(n int) growthSize { return growthSize{name: strconv.Itoa(n), rows: n, domains: n} }

// runGrowth measures each size on a fresh service and a fresh simulated internet.
func runGrowth(ctx context.Context, t *Trial) error {
	for _, a := range growthAxes(t.rows) {
		var before runStats
		for i, s := range a.sizes {
			t.logProgress("%s: %s", a.name, s.name)
			r, err := runSize(ctx, t, fmt.Sprintf("%s-%d", a.name, i), s)
			if err != nil {
				return fmt.Errorf("%s %s: %w", a.name, s.name, err)
			}
			name := a.name + "_" + s.name
			t.Metric(name+"_cpu_per_row", perItem(r.cpu, r.rows), "us")
			t.Metric(name+"_seconds", r.elapsed.Seconds(), "s")
			t.reportPeak(name+"_peak_memory", r.peak)
			switch { // compared with the size before
			case i == 0:
			case a.name == "latency":
				t.Metric(name+"_growth_of_time", ratio(r.elapsed.Seconds(), before.elapsed.Seconds()), "ratio")
			default:
				t.Metric(name+"_growth", ratio(perItem(r.cpu, r.rows), perItem(before.cpu, before.rows)), "ratio")
				t.AtMost(name+"_growth", growthLimit)
			}
			before = r
		}
	}
	return nil
}

// runSize uploads the lists of a size at once, waits for their jobs and downloads the results.
func runSize(ctx context.Context, t *Trial, name string, s growthSize) (r runStats, err error) {
	at := *t
	at.homes, at.Latency = s.domains, "none"
	if s.latency != "" {
		at.Latency = s.latency
	}
	err = at.withInternet(ctx, 0, func(in *internet) error {
		lists, err := writeLists(&at, in, name, s)
		if err != nil {
			return err
		}
		config := serviceConfig{name: name, accounts: min(len(lists), concurrentJobs), sources: s.sources}
		return at.withService(ctx, in, config, func(service *service) error {
			start, cpu := time.Now(), service.CPU()
			if err := service.runJobs(ctx, lists); err != nil {
				return err
			}
			r.rows = s.rows
			r.elapsed = time.Since(start)
			r.cpu = service.CPU() - cpu
			r.peak = service.Peak()
			return nil
		})
	})
	return r, err
}

// writeLists writes the lists of a size.
func writeLists(t *Trial, in *internet, name string, s growthSize) ([]string, error) {
	var list string
	var err error
	if s.domains > 0 {
		list, err = t.writeFile(name+".csv", func(out io.Writer) error {
			return world.WriteHomes(out, in.world,
				s.rows)
		})
	} else {
		list, err = t.writeList(name+".csv", in.world, s.rows)
	}
	if err != nil || s.jobs < 2 {
		return []string{list}, err
	}
	return splitList(list, filepath.Join(t.Dir, name+"-part"), s.jobs)
}

// runJobs runs a job for each list at once; the accounts take turns.
func (s *service) runJobs(ctx context.Context, lists []string) error {
	var jobs sync.WaitGroup
	errs := make([]error, len(lists))
	for i, list := range lists {
		jobs.Go(func() { errs[i] = s.runJob(ctx, s.keys[i%len(s.keys)], list, list+".result.zst") })
	}
	jobs.Wait()
	return errors.Join(errs...)
}

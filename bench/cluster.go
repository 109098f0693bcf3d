package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"probity/bench/process"
	"probity/bench/report"
)

// defaultNodes is how many probers a cluster has when the options give no number.
const defaultNodes = 3

// maxNodes is the limit of a fleet's addresses.
const maxNodes = 64

// runCluster measures the cost of probing over separate processes. All share one machine, so more nodes do not bring
// more cores. Their real benefit, more source addresses, does not show here: the receivers have no limits.
func runCluster(ctx context.Context, t *Trial) error {
	nodes := t.Nodes
	if nodes == 0 {
		nodes = defaultNodes
	}
	return t.withInternet(ctx, 0, func(in *internet) error {
		list, err := t.writeList("list.csv", in.world, t.rows)
		if err != nil {
			return err
		}
		bare, err := measureBaseline(ctx, t, in, list)
		if err != nil {
			return err
		}
		alone, err := bulkOnFreshService(ctx, t, in, "alone", list)
		if err != nil {
			return err
		}
		r, f, err := bulkFleet(ctx, t, in, nodes, list)
		if err != nil {
			return err
		}
		t.reportRun(r, t.rows, bare)
		reportJob(t, r)
		reportFleet(t, f, alone, r)
		return t.scoreRun(in.world, list, r)
	})
}

// fleetCount is what the processes of a fleet used.
type fleetCount struct {
	nodes          []nodeRecord
	cpu            []time.Duration // of each prober
	peak           []int64
	samples        [][]process.Sample
	coordinatorCPU time.Duration // CPU time of the coordinator
}

// bulkFleet runs one job on a fresh fleet.
func bulkFleet(ctx context.Context, t *Trial, in *internet, nodes int,
	list string) (r runStats, c fleetCount, err error) {
	f, err := startFleet(ctx, t, in, nodes)
	if err != nil {
		return r, c, err
	}
	defer func() { err = errors.Join(err, f.end()) }()
	before := f.cpus()
	if r, err = bulk(ctx, t, in, f.service, list, "fleet.csv.zst"); err != nil {
		return r, c, err
	}
	c.coordinatorCPU = r.cpu
	for i, p := range f.probers {
		used := p.CPU() - before[i]
		r.cpu += used
		c.cpu, c.peak, c.samples = append(c.cpu, used), append(c.peak, p.Peak()), append(c.samples, p.Samples())
	}
	c.nodes, err = f.nodes(ctx)
	return r, c, err
}

// reportFleet reports what a fleet used, compared with one process.
func reportFleet(t *Trial, c fleetCount, alone, r runStats) {
	t.Metric("nodes", float64(len(c.nodes)), "")
	t.Metric("alone_rows_per_second", ratio(float64(t.rows), alone.elapsed.Seconds()), "rows/s")
	t.Metric("alone_cpu_per_row", perItem(alone.cpu, t.rows), "us")
	t.Metric("coordinator_cpu_per_row", perItem(c.coordinatorCPU, t.rows), "us")
	t.Metric("ratio_to_alone", ratio(alone.elapsed.Seconds(), r.elapsed.Seconds()), "ratio")
	var most int64
	var parts []report.Part
	t.Plots.Memory = []report.Series{process.MemorySeries("coordinator", r.samples)}
	for i, p := range c.peak {
		most = max(most, p)
		parts = append(parts, report.Part{Process: fmt.Sprintf("prober %d", i+1), CPU: c.cpu[i]})
		t.Plots.Memory = append(t.Plots.Memory, process.MemorySeries(fmt.Sprintf("prober %d", i+1), c.samples[i]))
	}
	t.reportPeak("prober_peak_memory", most)
	least := -1.0
	total := 0.0
	for _, n := range c.nodes {
		total += float64(n.Recipients)
		if least < 0 || float64(n.Recipients) < least {
			least = float64(n.Recipients)
		}
	}
	t.Metric("least_share_of_a_node", ratio(max(0, least)*float64(len(c.nodes)), total), "ratio")
	t.Plots.Stages = append(t.Plots.Stages, report.Stage{Name: "probers, the whole list", Parts: parts},
		report.Stage{Name: "serve alone, the whole list",
			Parts: []report.Part{{Process: "serve", CPU: alone.cpu}, {Process: "sim", CPU: alone.simCPU}}})
	if t.rows >= growthMinRows { // short lists mostly wait for the slowest host
		t.AtLeast("ratio_to_alone", 0.7)
	}
	t.AtLeast("least_share_of_a_node", 0.1)
}

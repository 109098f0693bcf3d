package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
)

// bar is a ratio of the rival to Probity, or of Probity to the rival, and its limit.
type bar struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Want  string  `json:"want"`
	OK    bool    `json:"ok"`
}

func atLeast(name string, value, limit float64) bar {
	return bar{name, value, fmt.Sprintf(">= %g", limit), value >= limit}
}

func atMost(name string, value, limit float64) bar {
	return bar{name, value, fmt.Sprintf("<= %g", limit), value <= limit}
}

// Limits of the bars without latency and with latency.
const (
	leastRatio      = 12
	leastRatioLate  = 20
	mostShareOfCost = 0.1
)

// bars compares Probity with the rival.
func bars(latency string, ours, rival Count) []bar {
	ratio := ours.perSecond() / rival.perSecond()
	if latency != noLatency {
		return []bar{atLeast("addresses_per_second_ratio", ratio, leastRatioLate)}
	}
	return []bar{
		atLeast("addresses_per_second_ratio", ratio, leastRatio),
		atMost("cpu_per_address_ratio", ours.cpuEach()/rival.cpuEach(), mostShareOfCost),
		atMost("connections_ratio", ours.connsEach()/rival.connsEach(), mostShareOfCost),
	}
}

// result is one contest, with Probity first.
type result struct {
	latency string
	seed    uint64
	counts  []Count
	bars    []bar
}

func (r result) ok() bool {
	for _, b := range r.bars {
		if !b.OK {
			return false
		}
	}
	return true
}

// print writes a table for a person.
func (r result) print(w io.Writer) error {
	ours := r.counts[0]
	fmt.Fprintf(w, "latency %s, %d distinct addresses, %d for peers\n", r.latency, ours.Addresses,
		r.counts[len(r.counts)-1].Addresses)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\tworkers\tseconds\taddresses/s\tCPU us each\tconnections\trecipients\tpeak MB\tgood\tbad\tunknown\tprobity is faster\tuses of its CPU\tof its connections\t")
	for _, c := range r.counts {
		workers := "-"
		if c.Workers > 0 {
			workers = fmt.Sprint(c.Workers)
		}
		fmt.Fprintf(t, "%s %s\t%s\t%.2f\t%.0f\t%.1f\t%d\t%d\t%.0f\t%d\t%d\t%d\t", c.Name, c.Version, workers,
			c.Elapsed.Seconds(), c.perSecond(), c.cpuEach(),
			c.Traffic.Connections, c.Traffic.Recipients, float64(c.Peak)/1e6, c.Good, c.Bad, c.Unknown)
		if c.Name == ours.Name {
			fmt.Fprintln(t, "\t\t\t")
			continue
		}
		fmt.Fprintf(t, "%.1f times\t1/%.0f\t1/%.0f\t\n", ours.perSecond()/c.perSecond(), c.cpuEach()/ours.cpuEach(),
			c.connsEach()/ours.connsEach())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, b := range r.bars {
		verdict := "FAIL"
		if b.OK {
			verdict = "  ok"
		}
		fmt.Fprintf(w, "  %s %s against %s %s, is %.3g\n", verdict, b.Name, Rival, b.Want, b.Value)
	}
	_, err := fmt.Fprintln(w)
	return err
}

type metric struct {
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// writeJSON writes what `probity bench --json` would, one object a contest.
func writeJSON(w io.Writer, results []result) error {
	all := []map[string]any{}
	for _, r := range results {
		metrics := map[string]metric{}
		for _, c := range r.counts {
			name := c.Name + "_"
			metrics[name+"addresses_per_second"] = metric{c.perSecond(), "addresses/s"}
			metrics[name+"cpu_per_address"] = metric{c.cpuEach(), "us"}
			metrics[name+"connections"] = metric{float64(c.Traffic.Connections), ""}
			metrics[name+"recipients"] = metric{float64(c.Traffic.Recipients), ""}
			metrics[name+"peak_memory"] = metric{float64(c.Peak) / 1e6, "MB"}
		}
		metrics["addresses"] = metric{float64(r.counts[0].Addresses), ""}
		all = append(all, map[string]any{"scenario": "peers-" + r.latency, "seed": r.seed, "machine": machine(),
			"metrics": metrics, "bars": r.bars})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(all)
}

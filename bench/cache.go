package bench

import (
	"context"

	"probity/bench/baseline"
	"probity/bench/process"
	"probity/bench/report"
)

// runCache measures the second job against parsing and compressing the list and its result.
func runCache(ctx context.Context, t *Trial) error {
	return t.withInternet(ctx, 0, func(in *internet) error {
		list, err := t.writeList("list.csv", in.world, t.rows)
		if err != nil {
			return err
		}
		return t.withService(ctx, in, serviceConfig{name: "data"}, func(s *service) error {
			first, err := bulk(ctx, t, in, s, list, "first.csv.zst")
			if err != nil {
				return err
			}
			second, err := bulk(ctx, t, in, s, list, "second.csv.zst")
			if err != nil {
				return err
			}
			reading, err := baseline.ParseList(list)
			if err != nil {
				return err
			}
			writing, err := baseline.CompressAgain(second.result)
			if err != nil {
				return err
			}
			bare := reading.Elapsed + writing.Elapsed
			t.Metric("rows", float64(t.rows), "")
			t.Metric("first_rows_per_second", ratio(float64(t.rows), first.elapsed.Seconds()), "rows/s")
			t.Metric("seconds", second.elapsed.Seconds(), "s")
			t.Metric("rows_per_second", ratio(float64(t.rows), second.elapsed.Seconds()), "rows/s")
			t.Metric("cpu_per_row", perItem(second.cpu, t.rows), "us")
			t.Metric("floor_rows_per_second", ratio(float64(t.rows), bare.Seconds()), "rows/s")
			t.Metric("ratio_to_floor", ratio(bare.Seconds(), second.elapsed.Seconds()), "ratio")
			t.Metric("asked_again_share", ratio(float64(second.traffic.recipients), float64(first.traffic.recipients)),
				"ratio")
			t.reportPeak("peak_memory", second.peak)
			t.AtMost("asked_again_share", 0.1)
			t.Plots.Throughput = []report.Series{second.throughput}
			t.Plots.Memory = []report.Series{process.MemorySeries("serve", second.samples)}
			t.Plots.Stages = second.stages
			return t.scoreRun(in.world, list, second)
		})
	})
}

package bench

import (
	"context"

	"probity/bench/process"
	"probity/bench/report"
	"probity/bench/sim/referee"
)

// politeSpeedup makes ten hours of the simulated internet pass in one second.
const politeSpeedup = 36_000

// runPoliteness compares verify's traffic with the receivers' limits. The baseline is the bare client under the same
// limits.
func runPoliteness(ctx context.Context, t *Trial) error {
	return t.withInternet(ctx, politeSpeedup, func(in *internet) error {
		list, err := t.writeList("list.csv", in.world, t.rows)
		if err != nil {
			return err
		}
		r, err := verify(ctx, t, in, verifyJob{list: list, result: "result.csv.zst", speedup: politeSpeedup})
		if err != nil {
			return err
		}
		ours, err := in.report(ctx)
		if err != nil {
			return err
		}
		bare, err := measureBaseline(ctx, t, in, list)
		if err != nil {
			return err
		}
		after, err := in.report(ctx)
		if err != nil {
			return err
		}
		t.reportRun(r, t.rows, bare)
		t.Metric("excesses", float64(ours.Excesses), "")
		t.Metric("floor_excesses", float64(after.Excesses-ours.Excesses), "")
		t.AtMost("excesses", 0)
		t.Plots.Memory = []report.Series{process.MemorySeries("verify", r.samples)}
		t.Plots.Budgets = budgets(ours)
		for _, e := range ours.By {
			t.Note("excess: %s %s, %d times over %d, up to %d", e.Persona, e.Kind, e.Count, e.Limit, e.Seen)
		}
		return t.scoreRun(in.world, list, r)
	})
}

// budgets is the highest use of each receiver's limits.
func budgets(rep referee.Report) (all []report.Budget) {
	at := map[string]int{} // by persona and kind
	for _, e := range rep.Peaks {
		key := e.Persona + " " + e.Kind
		i, known := at[key]
		if !known {
			at[key] = len(all)
			all = append(all, report.Budget{Persona: e.Persona, Kind: e.Kind, Seen: e.Seen, Limit: e.Limit})
			continue
		}
		all[i].Seen = max(all[i].Seen, e.Seen)
	}
	return all
}

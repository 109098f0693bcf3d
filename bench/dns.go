package bench

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"probity/bench/baseline"
	"probity/bench/process"
	"probity/bench/report"
	"probity/bench/sim/score"
)

// runDNS measures two things next to the bare client, on the same names: our resolver alone, which does the same work
// as the bare client; and a list that needs only DNS, through verify. A name server of this package replaces the
// simulated internet, which has only a few thousand domains.
//
// The query rate of verify is measured at the name server, between the first query and the last. The work before and
// after is part of rows_per_second only. Within that time verify also reads the list, judges each row and stores its
// verdict.
func runDNS(ctx context.Context, t *Trial) (err error) {
	server, err := startNameServer(t.rows)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.close()) }()
	bare, err := measureResolver(ctx, t, server)
	if err != nil {
		return err
	}
	t.Note("the name server answers within this process: its CPU is in that of the floor, in that of the resolver alone, and in either side of " +
		"each CPU ratio, and its work in each rate; the floor sends and receives one datagram with a system call, our resolver several")
	list, err := t.writeFile("names.csv", func(w io.Writer) error { return writeNameRows(w, t.rows, withoutTruth) })
	if err != nil {
		return err
	}
	truth, err := t.writeFile("truth.csv", func(w io.Writer) error { return writeNameRows(w, t.rows, withTruth) })
	if err != nil {
		return err
	}
	return verifyNames(ctx, t, server, bare, list, truth)
}

// verifyNames runs verify on the names and reports.
func verifyNames(ctx context.Context, t *Trial, server *nameServer, bare baseline.Count, list, truth string) error {
	providers, err := t.writeProviders(0)
	if err != nil {
		return err
	}
	result := filepath.Join(t.Dir, "result.csv.zst")
	args := append([]string{"verify", list, "-o", result}, probingFlags(server.addr(), 25, providers)...)
	t.logProgress("verify")
	server.reset()
	lost, served := process.DatagramsLost(), process.OwnCPU()
	p, err := process.Start(ctx, process.Command{Name: "verify", Binary: t.Binary, Args: args, Stdout: io.Discard})
	if err != nil {
		return err
	}
	if err := errors.Join(p.Wait(), ctx.Err()); err != nil {
		return err
	}
	served = process.OwnCPU() - served
	asked, repeated, others := server.counts()
	t.Metric("rows", float64(t.rows), "")
	t.Metric("seconds", p.Elapsed().Seconds(), "s")
	t.Metric("rows_per_second", ratio(float64(t.rows), p.Elapsed().Seconds()), "rows/s")
	t.Metric("cpu_per_row", perItem(p.CPU(), t.rows), "us")
	t.reportPeak("peak_memory", p.Peak())
	t.Metric("domains_asked", float64(asked), "")
	t.Metric("questions_per_second", ratio(float64(asked), server.span().Seconds()), "questions/s")
	lost = process.DatagramsLost() - lost
	t.Metric("asked_again", float64(repeated), "")
	t.Metric("datagrams_lost", float64(lost), "")
	t.Metric("asked_again_needlessly", float64(max(0, repeated-lost)), "")
	t.Metric("other_questions", float64(others), "")
	t.Metric("ratio_to_floor", ratio(t.Metrics["questions_per_second"].Value, bare.Rate()), "ratio")
	t.Metric("cpu_ratio_to_floor", ratio(perItem(p.CPU()+served, t.rows), perItem(bare.CPU, bare.Recipients)), "ratio")
	t.Note("ratio_to_floor and cpu_ratio_to_floor hold the whole path of a row against the same floor, and against no bar: reading, judging, " +
		"caching and writing, of which the floor does nothing")
	t.AtLeast("domains_asked", float64(t.rows))
	t.AtMost("asked_again_needlessly", 0)
	t.Plots.Memory = append(t.Plots.Memory, process.MemorySeries("verify", p.Samples()))
	t.Plots.Stages = append(t.Plots.Stages, report.Stage{Name: "verify and name server, all names",
		Parts: []report.Part{{Process: "verify", CPU: p.CPU()}, {Process: "bench", CPU: served}}})
	expected, err := os.Open(truth)
	if err != nil {
		return err
	}
	defer expected.Close()
	given, err := os.Open(result)
	if err != nil {
		return err
	}
	defer given.Close()
	scores, err := score.Compare(expected, given)
	if err != nil {
		return err
	}
	t.reportScores(scores)
	return nil
}

const (
	withTruth    = true
	withoutTruth = false
)

// writeNameRows writes a list of names, with the verdicts that they have where those are wanted.
func writeNameRows(w io.Writer, rows int, truth bool) error {
	b := []byte("email,id")
	if truth {
		b = append(b, ","+score.StatusColumn+","+score.ReasonColumn...)
	}
	for i := range rows {
		b = append(append(append(b, "\nann@"...), nameOf(i)...), ',')
		b = strconv.AppendInt(b, int64(i), 10)
		if truth {
			b = append(b, [2]string{",INVALID,domain_not_found", ",INVALID,null_mx"}[i%2]...)
		}
		if len(b) > 64<<10 {
			if _, err := w.Write(b); err != nil {
				return err
			}
			b = b[:0]
		}
	}
	_, err := w.Write(append(b, '\n'))
	return err
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"probity/bench/baseline"
	"probity/bench/process"
	"probity/bench/report"
)

// Options are the options of the command line.
type Options struct {
	Binary string // our own executable
	Dir    string // for the files of a run; each scenario has its own folder below it, removed at its end
	Rows   int    // 0: each scenario's own
	Nodes  int    // probers of the cluster scenario; 0 is defaultNodes
	// none, realistic, or how long a mail host of the simulated internet takes over each batch of replies
	Latency      string
	Seed         uint64        // of the simulated internet and the list
	Timeout      time.Duration // of one scenario; 0 is none
	Load         time.Duration // of each load of the single scenario; 0 is defaultLoadTime
	Dial         baseline.Dial // how baselines connect
	Conversation Conversation  // our own conversation; nil leaves it out
	Resolve      Resolve       // our own resolver; nil leaves it out
	Log          io.Writer
}

// Scenario is one thing worth measuring.
type Scenario struct {
	Name string
	What string // one line
	Bars string // the bars, in words
	Rows int    // by default
	Run  func(context.Context, *Trial) error
}

// Trial is one run of a scenario. It belongs to one goroutine.
type Trial struct {
	Options
	*report.Report
	rows  int
	homes int // additional domains of the simulated internet, each with its own host names
}

// errUnknownScenario means that no scenario has that name.
var errUnknownScenario = errors.New("no such scenario; bench --list names them")

// Scenarios lists every scenario, in the order in which all of them run.
func Scenarios() []Scenario {
	return []Scenario{{
		Name: "verify", Rows: 1_000_000, Run: runVerify,
		What: "a list through the command line: verify LIST.csv -o RESULT.csv.zst, realistic mix, no limits",
		Bars: "40,000 rows/s, peak under 400 MB, 0.9 of the pace of a tenth of the rows, from 5,000,000 rows on 1.15 of its memory, no wrong verdict",
	}, {
		Name: "probe", Rows: 500_000, Run: runProbe,
		What: "large routes only: the rows of a list at Google, Microsoft, Yahoo and Apple, as a conversation alone and through verify",
		Bars: "the conversation 0.25 of the bare pipelined client, every recipient judged; verify 20 recipients or more a connection, no wrong verdict",
	}, {
		Name: "dns", Rows: 200_000, Run: runDNS,
		What: "as many domains as rows, each settled by one question (null MX or no such name), by the resolver alone and through verify",
		Bars: "the resolver 0.6 of a bare client on one shared socket, every domain settled; each domain asked once, no wrong verdict",
	}, {
		Name: "politeness", Rows: 20_000, Run: runPoliteness,
		What: "a list under the receivers' real limits, with the clock sped up 36,000 times: ten hours in a second",
		Bars: "no excess of any limit, no wrong verdict",
	}, {
		Name: "bulk", Rows: 5_000_000, Run: runBulk,
		What: "a list through the HTTP API, from upload to downloaded result: realistic mix, no limits; and the same rows as ten jobs at once",
		Bars: "5,000,000 rows in 90 s, server under 512 MB and within 1.15 of a tenth of the rows, 0.9 of its pace, ten jobs in 1.1 of the time of one, no wrong verdict",
	}, {
		Name: "cache", Rows: 200_000, Run: runCache,
		What: "the same list as a second job on the same service: what was answered is not asked again",
		Bars: "at most a tenth of the recipients asked again, no wrong verdict",
	}, {
		Name: "ingest", Rows: 5_000_000, Run: runIngest,
		What: "an upload, from its first byte to 202: received, spooled, counted, deduplicated, synced",
		Bars: "0.5 of parsing and zstd of the same bytes",
	}, {
		Name: "assemble", Rows: 2_000_000, Run: runAssemble,
		What: "the making of the result file: from the last verdict to completed",
		Bars: "0.6 of zstd of the same bytes",
	}, {
		Name: "single", Rows: 2_500_000, Run: runSingle,
		What: "one address a request: fresh, cached, and cached at 50, 500 and 5,000 requests/s while a job runs",
		Bars: "10,000 cached a second; while a job runs p50 under 150 ms, and p99 under 100 ms up to 500 requests/s; no failed request",
	}, {
		Name: "batch", Rows: 1_000_000, Run: runBatch,
		What: "batches of cached addresses: of 1,000 alone, and of 50 at 200 a second while a job runs",
		Bars: "10 us of the server's CPU for a cached address; no failed request",
	}, {
		Name: "cluster", Rows: 500_000, Run: runCluster,
		What: "a list through a coordinator and --nodes probers, each a process with an address of its own, and through serve alone",
		Bars: "0.7 of the pace of serve alone on the same machine, every node at work, no wrong verdict",
	}, {
		Name: "restart", Rows: 5_000_000, Run: runRestart,
		What: "a job that is killed with its server when half of it is done: how long until the next server asks receivers again, and what the end is like",
		Bars: "at work again within 20 s, no wrong verdict",
	}, {
		Name: "growth", Rows: 50_000, Run: runGrowth,
		What: "serve as rows, jobs, domains, egress sources and latency grow, one of them at a time and the others at their smallest",
		Bars: "no step costs more than 1.4 times the CPU a row of the one before; of latency the time is told",
	}}
}

// Select finds scenarios by name; without names it returns all.
func Select(names []string) ([]Scenario, error) {
	all := Scenarios()
	if len(names) == 0 {
		return all, nil
	}
	var selected []Scenario
	for _, name := range names {
		found := false
		for _, s := range all {
			if s.Name == name {
				selected, found = append(selected, s), true
			}
		}
		if !found {
			return nil, fmt.Errorf("%q: %w", name, errUnknownScenario)
		}
	}
	return selected, nil
}

// Run runs one scenario. The report is never nil; its Error says why the scenario ended early.
func Run(ctx context.Context, s Scenario, o Options) *report.Report {
	t := &Trial{Options: o, Report: report.New(s.Name, s.What, o.Seed, report.ReadMachine()), rows: s.Rows}
	if o.Rows > 0 {
		t.rows = o.Rows
	}
	if o.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.Timeout, fmt.Errorf("it took longer than %s", o.Timeout))
		defer cancel()
	}
	before := process.ReadUsage()
	err := t.run(ctx, s)
	process.ReportOthers(t.Report, before, process.ReadUsage())
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if err != nil {
		t.Error = err.Error()
	}
	return t.Report
}

// run runs the scenario in a folder of its own.
func (t *Trial) run(ctx context.Context, s Scenario) (err error) {
	dir, err := os.MkdirTemp(t.Dir, "bench-"+s.Name+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t.Dir = dir
	return s.Run(ctx, t)
}

// logProgress writes the progress for the user.
func (t *Trial) logProgress(format string, args ...any) {
	if t.Log != nil {
		fmt.Fprintf(t.Log, t.Scenario+": "+format+"\n", args...)
	}
}

// PrintScenarios lists scenarios with their bars.
func PrintScenarios(w io.Writer, all []Scenario) error {
	for _, s := range all {
		if _, err := fmt.Fprintf(w, "%s\n    %s\n    bars: %s\n    rows: %s\n", s.Name, s.What, s.Bars,
			report.FormatNumber(float64(s.Rows))); err != nil {
			return err
		}
	}
	return nil
}

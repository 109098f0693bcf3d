package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"probity/bench/report"
)

// Dial connects as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Options are the options of the command line.
type Options struct {
	Binary       string        // our own executable
	Dir          string        // for the files of a run; each scenario has its own folder below it, removed at its end
	Rows         int           // 0: each scenario's own
	Nodes        int           // probers of the cluster scenario; 0 is defaultNodes
	Latency      string        // none, realistic, or how long a mail host of the simulated internet takes over each batch of replies
	Seed         uint64        // of the simulated internet and the list
	Timeout      time.Duration // of one scenario; 0 is none
	Load         time.Duration // of each load of the single scenario; 0 is defaultLoadTime
	Dial         Dial          // how baselines connect
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
	return []Scenario{
		verifyScenario(), probeScenario(), dnsScenario(), politenessScenario(),
		bulkScenario(), cacheScenario(), ingestScenario(), assembleScenario(), singleScenario(), clusterScenario(), restartScenario(), growthScenario(),
	}
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
	before := readCPUUsage()
	err := t.run(ctx, s)
	reportOthers(t.Report, before, readCPUUsage())
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
		if _, err := fmt.Fprintf(w, "%s\n    %s\n    bars: %s\n    rows: %s\n", s.Name, s.What, s.Bars, report.FormatNumber(float64(s.Rows))); err != nil {
			return err
		}
	}
	return nil
}

package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// Dial connects as net.Dialer.DialContext does.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Options are what the command line says.
type Options struct {
	Binary       string        // our own executable
	Dir          string        // where files of a run go; below it each scenario has its own folder, removed at its end
	Rows         int           // 0: each scenario's own
	Nodes        int           // probers of the cluster scenario; 0 is defaultNodes
	Latency      string        // none, realistic, or how long a mail host of the simulated internet takes over each batch of replies
	Seed         uint64        // which internet, which list
	Timeout      time.Duration // of one scenario; 0 is none
	Load         time.Duration // of each load of the single scenario; 0 is defaultLoadTime
	Dial         Dial          // how baselines connect
	Conversation Conversation  // how our own conversation is held, without what stands around it; nil leaves it out
	Resolve      Resolve       // how our own resolver asks, likewise
	Log          io.Writer
}

// Scenario is one thing worth measuring.
type Scenario struct {
	Name string
	What string // one line
	Bars string // what is wanted, in words
	Rows int    // by default
	Run  func(context.Context, *Trial) error
}

// Trial is one scenario at work. It belongs to one goroutine.
type Trial struct {
	Options
	*Report
	rows  int
	homes int // domains that the simulated internet has in addition to the usual ones, each with host names of its own
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

// Select finds scenarios by name; all of them without a name.
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

// Run runs one scenario. The report is never nil; its Error says what kept the scenario from its end.
func Run(ctx context.Context, s Scenario, o Options) *Report {
	t := &Trial{Options: o, Report: newReport(s.Name, s.What, o.Seed, thisMachine()), rows: s.Rows}
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
	t.reportOthers(before, readCPUUsage())
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = fmt.Errorf("%w: %w", cause, err)
	}
	if err != nil {
		t.Error = err.Error()
	}
	return t.Report
}

// run gives the scenario a folder of its own.
func (t *Trial) run(ctx context.Context, s Scenario) (err error) {
	dir, err := os.MkdirTemp(t.Dir, "bench-"+s.Name+"-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	t.Dir = dir
	return s.Run(ctx, t)
}

// logProgress tells a person who waits what is going on.
func (t *Trial) logProgress(format string, args ...any) {
	if t.Log != nil {
		fmt.Fprintf(t.Log, t.Scenario+": "+format+"\n", args...)
	}
}

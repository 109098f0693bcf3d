package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"probity/bench"
	"probity/bench/baseline"
	"probity/bench/report"
	"probity/internal/console"
	"probity/internal/measured"
	"probity/internal/wholefile"
)

type benchCmd struct {
	Scenarios []string      `arg:"" optional:"" name:"scenario" help:"Which scenarios; default: all. --list names them."`
	List      bool          `help:"List the scenarios with their bars and end."`
	Rows      *int          `help:"Rows of each scenario's list; default: the scenario's own." placeholder:"N"`
	Latency   string        `help:"How long a mail host of the simulated internet takes over each batch of replies: none, realistic, or a duration such as 50ms." default:"none"`
	Nodes     int           `help:"How many probers the cluster scenario starts." default:"3"`
	Seed      uint64        `help:"Which internet and which list." default:"1"`
	Timeout   time.Duration `help:"How long one scenario may take." default:"30m"`
	JSON      bool          `name:"json" help:"Print the report as JSON."`
	HTML      string        `name:"html" help:"Write the report as one page with plots." placeholder:"FILE"`
	Compare   string        `help:"Compare with this report of bench --json." type:"existingfile" placeholder:"OLD.json"`
	FloorHTTP bool          `name:"floor-http" hidden:"" help:"Serve the bare handler that the single scenario is compared with."`
	Dir       string        `help:"Where lists, stores and results go while it runs; default: the system's place for temporary files." type:"existingdir" placeholder:"DIR"`
}

// errBarsNotMet means that every scenario ran and at least one bar was not met.
var errBarsNotMet = errors.New("not every bar is met")

// Run runs scenarios one after another and reports.
func (c *benchCmd) Run(ctx context.Context, con *console.IO) error {
	if c.List {
		return bench.PrintScenarios(con.Out, bench.Scenarios())
	}
	if c.FloorHTTP {
		return baseline.ServeHTTP(ctx, con.Err)
	}
	chosen, err := bench.Select(c.Scenarios)
	if err != nil {
		return fmt.Errorf("%w: %v", console.ErrUsage, err)
	}
	if c.Rows != nil && *c.Rows < 1 {
		return fmt.Errorf("%w: --rows %d; give a positive number, or leave it out for each scenario's own",
			console.ErrUsage, *c.Rows)
	}
	if c.Nodes < 1 {
		return fmt.Errorf("%w: --nodes %d; give a positive number", console.ErrUsage, c.Nodes)
	}
	if d, err := time.ParseDuration(c.Latency); c.Latency != "none" && c.Latency != "realistic" &&
		(err != nil || d <= 0) {
		return fmt.Errorf("%w: --latency %q; give none, realistic, or a duration such as 50ms", console.ErrUsage,
			c.Latency)
	}
	old, err := c.oldReports()
	if err != nil {
		return err
	}
	options, err := c.options(con)
	if err != nil {
		return err
	}
	var reports []*report.Report
	for _, s := range chosen {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r := bench.Run(ctx, s, options)
		reports = append(reports, r)
		if c.JSON {
			continue
		}
		if err := r.Print(con.Out); err != nil {
			return err
		}
	}
	return errors.Join(c.report(con, reports, old), checkBars(reports))
}

func (c *benchCmd) options(con *console.IO) (bench.Options, error) {
	self, err := os.Executable()
	if err != nil {
		return bench.Options{}, fmt.Errorf("this program's own file: %w", err)
	}
	rows := 0 // each scenario's own
	if c.Rows != nil {
		rows = *c.Rows
	}
	return bench.Options{Binary: self, Dir: c.Dir, Rows: rows, Nodes: c.Nodes, Latency: c.Latency, Seed: c.Seed,
			Timeout: c.Timeout,
			Dial:    baseline.DialContext, Conversation: measured.Conversation, Resolve: measured.Resolve,
			Log: con.Err},
		nil
}

func (c *benchCmd) oldReports() ([]*report.Report, error) {
	if c.Compare == "" {
		return nil, nil
	}
	f, err := os.Open(c.Compare)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	old, err := report.ReadJSON(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Compare, err)
	}
	return old, nil
}

// report writes the outputs requested in addition to the tables. With --json the comparison goes to standard error.
func (c *benchCmd) report(con *console.IO, reports, old []*report.Report) error {
	var errs []error
	changes := con.Out
	if c.JSON {
		changes = con.Err
		errs = append(errs, report.WriteJSON(con.Out, reports))
	}
	if old != nil {
		errs = append(errs, report.PrintComparison(changes, old, reports))
	}
	if c.HTML != "" {
		errs = append(errs, wholefile.Replace(c.HTML,
			func(w io.Writer) error { return report.WriteHTML(w, reports, old, time.Now()) }))
	}
	return errors.Join(errs...)
}

// checkBars returns an error if a scenario did not finish or a bar is not met.
func checkBars(reports []*report.Report) error {
	for _, r := range reports {
		if r.Error != "" {
			return fmt.Errorf("%s: %s", r.Scenario, r.Error)
		}
	}
	for _, r := range reports {
		if !r.OK() {
			return errBarsNotMet
		}
	}
	return nil
}

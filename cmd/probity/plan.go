package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/coordinator"
	"probity/coordinator/csvfile"
	"probity/coordinator/ingest"
	"probity/coordinator/plan"
	"probity/engine/dns"
	"probity/internal/console"
	"probity/internal/nodeflags"
	"probity/internal/verify"
	"probity/store"
)

type planCmd struct {
	nodeflags.Probing
	List        string  `arg:"" help:"A CSV file, or - for standard input." placeholder:"FILE.csv"`
	Sources     *int    `help:"Egress sources that share the work; default: as many as --egress names, else 1." placeholder:"N"`
	Refused     percent `help:"The share of addresses that are taken to be refused." default:"20%" placeholder:"PERCENT"`
	JSON        bool    `name:"json" help:"One JSON object."`
	Column      string  `help:"The e-mail column: header name or 1-based index; default: email." placeholder:"NAME"`
	ForceColumn bool    `help:"Plan the list even if almost no cell of its e-mail column looks like an address."`
	NoHead      bool    `name:"no-header" help:"The list has no header. Its e-mail column is then the first with an address in the first row; where that row has none, give --column an index."`
}

// percent is a share, written as 20%.
type percent float64

// UnmarshalText is called by the parser.
func (p *percent) UnmarshalText(text []byte) error {
	number, isPercent := strings.CutSuffix(string(text), "%")
	n, err := strconv.ParseFloat(number, 64)
	if !isPercent || err != nil || !(n >= 0 && n <= 100) {
		return fmt.Errorf("%q is not a share; write one from 0%% to 100%%, e.g. 20%%", text)
	}
	*p = percent(n / 100)
	return nil
}

// Validate is called by the parser.
func (c *planCmd) Validate() error {
	if c.Sources != nil && *c.Sources < 1 {
		return fmt.Errorf("--sources %d: give the number of egress sources, 1 or more", *c.Sources)
	}
	return c.Probing.Validate()
}

// Run prints the shortest time in which the budgets allow a list to be verified. It queries the DNS and no mail server.
func (c *planCmd) Run(ctx context.Context, con *console.IO) error {
	sources, err := c.sources()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "probity-*")
	if err != nil {
		return err
	}
	planned, err := c.plan(ctx, con, dir, sources)
	if err = errors.Join(err, os.RemoveAll(dir)); err != nil {
		return err
	}
	report := planned.Report()
	if report.Uncounted > 0 && len(report.Receivers) == 0 {
		return fmt.Errorf("the least time of %s is not known: the domains of %d addresses could not be looked up, "+
			"and no mail server is asked about others; check --dns and its resolvers, then repeat",
			c.List, report.Uncounted)
	}
	if c.JSON {
		return json.NewEncoder(con.Out).Encode(report)
	}
	return printPlan(con.Out, &report)
}

// sources returns how many sources share the work. IPv6 sources count only if there are no others
// (prober.Config.Sources).
func (c *planCmd) sources() (int, error) {
	if c.Sources != nil {
		return *c.Sources, nil
	}
	four := 0
	for _, s := range c.Egress {
		id, err := s.Parse()
		if err != nil {
			return 0, err
		}
		if !id.Local.Is6() || id.Local.Is4In6() {
			four++
		}
	}
	if four == 0 {
		four = len(c.Egress)
	}
	return max(1, four), nil
}

// plan accepts the list as a server does, into a temporary folder, and plans the job.
func (c *planCmd) plan(ctx context.Context, con *console.IO, dir string, sources int) (p plan.JobPlan, err error) {
	table, err := c.Table()
	if err != nil {
		return p, err
	}
	resolver, err := c.Resolver(table)
	if err != nil {
		return p, err
	}
	in := con.In
	if c.List != "-" {
		f, err := os.Open(c.List)
		if err != nil {
			return p, fmt.Errorf("%w: %w", console.ErrUsage, err)
		}
		defer f.Close()
		in = f
	}
	state, err := store.OpenAtRest(vfs.Default, filepath.Join(dir, "state"))
	if err != nil {
		return p, err
	}
	cfg := coordinator.Config{Store: state, FS: vfs.Default, Dir: dir, Resolver: resolver, Table: table}
	received := coordinator.New(cfg)
	reading := csvfile.Options{Column: c.Column, NoHeader: c.NoHead, AnyColumn: c.ForceColumn}
	u := ingest.Upload{Body: in, Options: ingest.Options{Reading: reading}}
	p, err = planList(ctx, received, resolver, u, plan.Options{Sources: sources, Refused: float64(c.Refused)})
	return p, errors.Join(verify.ListError(c.List, err), state.Close())
}

// planList plans a list with a coordinator that is not running.
func planList(ctx context.Context, c *coordinator.Coordinator, r *dns.Resolver, u ingest.Upload,
	o plan.Options) (p plan.JobPlan, err error) {
	job, err := c.Accept(ctx, u)
	if err != nil {
		return p, err
	}
	resolverCtx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(resolverCtx) }()
	p, err = c.Plan(ctx, job.ID, o)
	stop()
	return p, errors.Join(err, <-ended)
}

func printPlan(out io.Writer, r *plan.Report) error {
	fmt.Fprintf(out, "distinct addresses: %d; mail servers are asked about %d\n", r.Addresses,
		r.Addresses-r.Unasked-r.Uncounted)
	if r.Uncounted > 0 {
		fmt.Fprintf(out, "not in the plan: %d, whose domains could not be looked up, or are beyond the first 262144\n",
			r.Uncounted)
	}
	fmt.Fprintf(out, "assumed: %g%% refused, by hosts that all tell; %s; budgets that nothing has used yet\n",
		100*r.RefusedShare, console.Counted(r.Sources, "egress source"))
	without := ""
	if r.Uncounted > 0 {
		without = ", without those that are not in the plan"
	}
	fmt.Fprintf(out, "least time%s: %s; %s\n", without, time.Duration(r.LeastSeconds)*time.Second, halvingAdvice(r))
	if len(r.Receivers) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "LEAST\tRECEIVER\tKIND\tSOURCES\tRECIPIENTS\tREFUSED\tLIMIT")
	for _, v := range r.Receivers {
		name, limit := v.Provider, "-"
		if v.Provider == "other" {
			name = v.Route
		}
		if v.Limit != nil {
			limit = fmt.Sprintf("%s = %d", *v.Limit, *v.Budget)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%s\n", time.Duration(v.LeastSeconds)*time.Second,
			console.Printable(name),
			v.Kind, v.Sources, v.Recipients, v.Refused, limit)
	}
	return w.Flush()
}

// halvingAdvice says how many more sources would halve the time.
func halvingAdvice(r *plan.Report) string {
	switch {
	case r.LeastSeconds == 0:
		return "no budget makes it wait"
	case r.Halve == nil:
		return "more sources do not halve it"
	}
	return console.Counted(*r.Halve, "more source") + " would halve it"
}

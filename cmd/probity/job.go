package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"probity/api/record"
	"probity/internal/admin"
	"probity/internal/apiclient"
	"probity/internal/console"
)

type jobCmd struct {
	Why     jobWhyCmd     `cmd:"" help:"What a job waits for, by receiver: when it opens, and when it is done."`
	Start   jobStartCmd   `cmd:"" help:"Start a job that was uploaded with start=false."`
	Recheck jobRecheckCmd `cmd:"" help:"Make a new job of some rows of a finished job."`
}

// jobFlags name a job of a running server.
type jobFlags struct {
	ID     string `arg:"" help:"The job_id." placeholder:"ID"`
	Server string `help:"The server's public URL; PROBITY_KEY holds a key of the account, or PROBITY_ADMIN_KEY an admin's." default:"http://127.0.0.1:8080" placeholder:"URL"`
	JSON   bool   `name:"json" help:"One JSON object."`
}

// call sends a request about the job; what is its JSON body, nil for none.
func (f *jobFlags) call(ctx context.Context, con *console.IO, method, action string, what any) ([]byte, error) {
	client, err := admin.NewCustomer(con, f.Server)
	if err != nil {
		return nil, err
	}
	client.Advice = "" // a 404 is about the job
	return client.CallJSON(ctx, method, record.BulkPath+"/"+url.PathEscape(f.ID)+"/"+action, what)
}

type jobWhyCmd struct{ jobFlags }

// Run prints a line for each receiver, and below it one for each thing that its rows wait for.
func (c *jobWhyCmd) Run(ctx context.Context, con *console.IO) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	b, err := c.call(ctx, con, http.MethodGet, "why", nil)
	if err != nil {
		return err
	}
	if c.JSON {
		_, err := con.Out.Write(append(b, '\n'))
		return err
	}
	var w record.Why
	if err := json.Unmarshal(b, &w); err != nil {
		return fmt.Errorf("the answer of %s: %w", c.Server, err)
	}
	return printWhy(con.Out, &w)
}

func printWhy(out io.Writer, w *record.Why) error {
	fmt.Fprintf(out, "job %s is %s; %s\n", w.ID, w.Status, console.Counted(w.Open, "open row"))
	for _, node := range w.Unreached {
		fmt.Fprintf(out, "! node %s does not answer: what it holds back is not told\n", console.Printable(node))
	}
	if len(w.Receivers) == 0 {
		return nil
	}
	at := time.Time(w.At)
	clock := func(t *record.Time) string {
		if t == nil {
			return "-"
		}
		if !time.Time(*t).After(at) {
			return "now"
		}
		return time.Time(*t).Local().Format(time.DateTime)
	}
	fmt.Fprintln(out)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "RECEIVER\tROWS\tASKING\tOPENS\tDONE BY\tWAITS FOR")
	for _, r := range w.Receivers {
		fmt.Fprintf(table, "%s\t%d\t%d\t%s\t%s\t\n", console.Printable(r.Receiver), r.Rows, r.Asking, clock(r.Opens),
			clock(r.DoneBy))
		for _, one := range r.Waits {
			fmt.Fprintf(table, "\t%d\t\t%s\t\t%s\n", one.Rows, clock(one.Opens), console.Printable(one.Words()))
		}
	}
	return table.Flush()
}

type jobStartCmd struct{ jobFlags }

// Run starts the job.
func (c *jobStartCmd) Run(ctx context.Context, con *console.IO) error {
	b, err := c.call(ctx, con, http.MethodPost, "start", nil)
	if err != nil {
		return err
	}
	return c.printJob(con, b)
}

type jobRecheckCmd struct {
	jobFlags
	Status []string `help:"Rows with this status: VALID, RISKY, INVALID or UNKNOWN; repeatable." placeholder:"STATUS"`
	Reason []string `help:"Rows with this reason; repeatable." placeholder:"REASON"`
}

// Run makes the new job and prints its id.
func (c *jobRecheckCmd) Run(ctx context.Context, con *console.IO) error {
	what := map[string][]string{}
	if len(c.Status) > 0 {
		what["status"] = c.Status
	}
	if len(c.Reason) > 0 {
		what["reason"] = c.Reason
	}
	if len(what) == 0 {
		return fmt.Errorf("%w: name the rows with --status or --reason, such as --status UNKNOWN", console.ErrUsage)
	}
	b, err := c.call(ctx, con, http.MethodPost, "recheck", what)
	if err != nil {
		return err
	}
	return c.printJob(con, b)
}

// printJob prints the id of the job in an answer; what is said of it goes to standard error.
func (f *jobFlags) printJob(con *console.IO, answer []byte) error {
	if f.JSON {
		_, err := con.Out.Write(append(answer, '\n'))
		return err
	}
	var j apiclient.Job
	if err := json.Unmarshal(answer, &j); err != nil {
		return fmt.Errorf("the answer of %s: %w", f.Server, err)
	}
	fmt.Fprintf(con.Err, "job %s is %s; distinct addresses: %d\n", j.ID, j.Status, j.Unique)
	_, err := fmt.Fprintln(con.Out, j.ID)
	return err
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"probity/internal/console"
	"probity/internal/nodeflags"
	"probity/prober/doctor"
)

type doctorCmd struct {
	nodeflags.Probing
	Data           string   `help:"The folder of the store." default:"./probity-data" placeholder:"DIR"`
	DNSBL          []string `name:"dnsbl" help:"Blocklists of addresses to ask, ZONE,...; 'none' asks none; default: some that many receivers use." placeholder:"ZONE"`
	Target         string   `help:"A mail server to try port 25 with, whose owner agrees; default: the MX of --mail-from's domain." placeholder:"HOST[:PORT]"`
	CallbackSource string   `help:"As of serve and coordinator: the address that callbacks leave from, and the one that receivers see." placeholder:"LOCAL[/PUBLIC]"`
	Strict         bool     `help:"Exit with 1 if anything fails."`
	JSON           bool     `name:"json" help:"One JSON object."`
}

// errFailing ends a strict audit that found a failure.
var errFailing = errors.New("the audit found failures")

// Run audits once and prints the findings.
func (c doctorCmd) Run(ctx context.Context, con *console.IO) error {
	table, err := c.Table()
	if err != nil {
		return err
	}
	d, err := c.Audit(table, nodeflags.AuditOptions{Folder: c.Data, DNSBLs: c.DNSBL, Target: c.Target,
		Callbacks: true, CallbackSource: c.CallbackSource})
	if err != nil {
		return err
	}
	report := d.Audit(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := printReport(con.Out, report, c.JSON); err != nil {
		return err
	}
	if report.Worst() != doctor.Fail {
		return nil
	}
	if c.Strict {
		return errFailing
	}
	if !c.JSON {
		fmt.Fprintln(con.Err, "the audit is done, so the exit status is 0; with --strict a failure makes it 1")
	}
	return nil
}

// printReport writes one line a finding, or one JSON object.
func printReport(w io.Writer, r *doctor.Report, asJSON bool) error {
	if asJSON {
		counts := map[string]int{}
		for _, l := range []doctor.Severity{doctor.OK, doctor.Warn, doctor.Fail, doctor.Unknown} {
			counts[l.String()] = r.Count(l)
		}
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return enc.Encode(struct {
			At       time.Time        `json:"at"`
			TookMS   int64            `json:"took_ms"`
			Counts   map[string]int   `json:"counts"`
			Findings []doctor.Finding `json:"findings"`
		}{r.At, r.Took.Milliseconds(), counts, r.Findings})
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range r.Findings {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s", f.Severity, f.Check, f.Subject, f.Message)
		if f.Advice != "" {
			fmt.Fprintf(t, "; %s", f.Advice)
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%d ok, %d to look at, %d failing, %d not known\n", r.Count(doctor.OK),
		r.Count(doctor.Warn), r.Count(doctor.Fail), r.Count(doctor.Unknown))
	return err
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"probity/engine"
	"probity/internal/console"
	"probity/prober/doctor"
)

type doctorCmd struct {
	probingFlags
	Data   string   `help:"The folder of the store." default:"./probity-data" placeholder:"DIR"`
	DNSBL  []string `name:"dnsbl" help:"Blocklists of addresses to ask, ZONE,...; 'none' asks none; default: some that many receivers use." placeholder:"ZONE"`
	Target string   `help:"A mail server to try port 25 with, whose owner agrees; default: the MX of --mail-from's domain." placeholder:"HOST[:PORT]"`
	Strict bool     `help:"Exit with 1 if anything fails."`
	JSON   bool     `name:"json" help:"One JSON object."`
}

// errFailing ends a strict audit that found a failure.
var errFailing = errors.New("the audit found failures")

// Run audits once and prints the findings.
func (c doctorCmd) Run(ctx context.Context, con *console.IO) error {
	table, err := c.table()
	if err != nil {
		return err
	}
	d, err := c.doctor(table, doctorParts{folder: c.Data, lists: c.DNSBL, target: c.Target})
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

// doctorParts are the inputs of an audit in addition to the probing flags.
type doctorParts struct {
	folder  string   // data folder
	lists   []string // blocklists; nil for the usual ones, "none" for none
	target  string
	log     *slog.Logger
	metrics prometheus.Registerer
}

// doctor makes the audit of the flags, on the sockets and files of this machine. It starts nothing.
func (f *probingFlags) doctor(table *engine.Table, parts doctorParts) (*doctor.Doctor, error) {
	servers, err := f.servers()
	if err != nil && !errors.Is(err, console.ErrUsage) {
		return nil, err
	}
	proxy, err := f.proxy()
	if err != nil {
		return nil, err
	}
	sessions := f.Concurrency
	if sessions == 0 {
		sessions = defaultMaxSessions
	}
	cfg := doctor.Config{MailFrom: f.MailFrom, Servers: servers, Table: table, Exchange: exchangeDNS, Dial: dialFrom, SOCKS5: proxy,
		AllowPrivate: f.AllowPrivateTargets, Port: f.SMTPPort, Target: parts.target, DNSBLs: parts.lists, OpenFiles: openFiles, Sessions: sessions,
		FS: vfs.Default, Folder: parts.folder, Synced: clockSynced, NotBefore: newest(engine.DefaultTable()), Log: parts.log, Metrics: parts.metrics}
	if len(parts.lists) == 1 && parts.lists[0] == "none" {
		cfg.DNSBLs = []string{}
	}
	for _, e := range f.Egress {
		spec, err := e.parse()
		if err != nil {
			return nil, err
		}
		cfg.Identities = append(cfg.Identities, doctor.Identity{Local: spec.local, Public: spec.public, EHLO: spec.ehlo, SOCKS5: spec.proxy})
	}
	return doctor.New(cfg)
}

// exchangeDNS sends a query to one server; the context bounds it.
func exchangeDNS(ctx context.Context, network string, m *dns.Msg, server netip.AddrPort) (*dns.Msg, error) {
	client := dns.Client{Net: network, Timeout: time.Minute}
	reply, _, err := client.ExchangeContext(ctx, m, server.String())
	return reply, err
}

// openFiles reads RLIMIT_NOFILE.
func openFiles() (soft, hard uint64, err error) {
	var limit syscall.Rlimit
	err = syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return limit.Cur, limit.Max, err
}

// newest is the latest date in a provider table. This program was made later than the shipped table.
func newest(table *engine.Table) time.Time {
	var last time.Time
	for _, p := range table.Providers {
		if t, err := time.Parse(time.DateOnly, p.Date); err == nil && t.After(last) {
			last = t
		}
	}
	return last
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
	_, err := fmt.Fprintf(w, "%d ok, %d to look at, %d failing, %d not known\n", r.Count(doctor.OK), r.Count(doctor.Warn), r.Count(doctor.Fail), r.Count(doctor.Unknown))
	return err
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"
	"time"

	"probity/coordinator/fleet"
	"probity/internal/admin"
	"probity/internal/apiclient"
	"probity/internal/console"
)

type clusterCmd struct {
	Admin  string `help:"The coordinator's admin listener." default:"127.0.0.1:9090" placeholder:"HOST:PORT"`
	Server string `help:"Instead: the coordinator's public URL; an admin's key is read from PROBITY_ADMIN_KEY." placeholder:"URL"`
	JSON   bool   `name:"json" help:"One JSON object."`

	Quarantines bool `help:"The quarantines in force: source, receiver, its reply, and until when."`
}

// adminTimeout bounds a request to a running server.
const adminTimeout = 15 * time.Second

// Run shows the nodes of a cluster.
func (c clusterCmd) Run(ctx context.Context, con *console.IO) error {
	ctx, cancel := context.WithTimeout(ctx, adminTimeout)
	defer cancel()
	client, path := apiclient.ForAdminListener(c.Admin, "a coordinator"), "/debug/cluster"
	if c.Server != "" {
		var err error
		if client, err = admin.NewRemote(con, c.Server); err != nil {
			return err
		}
		path = "/v1/admin/cluster"
	}
	body, err := client.Call(ctx, http.MethodGet, path, "", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	if c.JSON {
		_, err := io.Copy(con.Out, body)
		return err
	}
	var r fleet.ClusterReport
	if err := json.NewDecoder(body).Decode(&r); err != nil {
		return fmt.Errorf("the answer of %s: %w", client.Base, err)
	}
	if c.Quarantines {
		return printQuarantines(con.Out, r.Quarantines)
	}
	return printCluster(con.Out, &r, time.Now())
}

// printQuarantines prints a line for each quarantine.
func printQuarantines(out io.Writer, quarantines []fleet.Quarantine) error {
	if len(quarantines) == 0 {
		_, err := fmt.Fprintln(out, "no quarantines")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SOURCE\tNODE\tRECEIVER\tUNTIL\tRULE\tREPLY")
	for _, q := range quarantines {
		receiver := q.Receiver
		if q.Route == "" {
			receiver = "(all)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", console.Printable(q.Source), console.Printable(q.Node),
			console.Printable(receiver),
			q.Until.Local().Format(time.DateTime), console.OrDash(q.Rule), console.OrDash(console.Printable(q.Reply)))
	}
	return w.Flush()
}

// printCluster prints a line for each node, and below it one for each of its egress sources.
func printCluster(out io.Writer, r *fleet.ClusterReport, now time.Time) error {
	fmt.Fprintf(out, "coordinator %s\n", r.Coordinator)
	for _, words := range append(append([]string{}, r.Problem), r.Rivals...) {
		if words != "" {
			fmt.Fprintf(out, "! %s\n", words)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NODE / IDENTITY\tSTATE\tFOR\tADDRESS / EHLO\tQUEUES\tSESSIONS\tROWS\tROWS/S\tQUARANTINED\tEXHAUSTED\tNOTE")
	for i := range r.Nodes {
		n := &r.Nodes[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t%d\t%.0f\t\t\t%s\n", n.Name, n.State,
			now.Sub(n.Since).Round(time.Second), console.OrDash(n.Address), n.ReadyQueues, n.Sessions,
			n.Rows, n.RowsPerSecond, nodeNote(n))
		for _, id := range n.Identities {
			fmt.Fprintf(w, "  %s\t%s\t\t%s\t%d\t\t\t\t%d\t%d\t\n", id.Name, id.State, id.EHLO, id.ReadyQueues,
				id.Quarantined, id.Exhausted)
		}
	}
	return w.Flush()
}

// nodeNote says what is wrong with a node.
func nodeNote(n *fleet.NodeReport) string {
	if n.Problem == "" && n.AuditFailures > 0 {
		return "its audit has " + console.Counted(n.AuditFailures, "failure") + ": probity doctor there tells more"
	}
	return n.Problem
}

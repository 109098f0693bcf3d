package api

import (
	"errors"

	"probity/api/httpd"
	"probity/coordinator/fleet"
	"probity/store"
)

// errNoViews is the answer of a server without views of its nodes.
var errNoViews = httpd.Refuse(httpd.NotFound, "This server cannot look into its nodes.")

// listQueues serves the most important ready queues of all nodes, with how much of their budgets is used.
func listQueues(c *call) error {
	views := c.srv.deps.Operator.Views
	if views == nil {
		return errNoViews
	}
	queues, unresponsive := views.ReadyQueues(c.srv.http.StopContext())
	return c.SendJSON(httpd.StatusOK, map[string]any{"ready_queues": queues, "unresponsive": orEmpty(unresponsive)})
}

// listTraces serves recent probes. The query is in the body: an address must not be in a URL.
func listTraces(c *call) error {
	views := c.srv.deps.Operator.Views
	if views == nil {
		return errNoViews
	}
	d := c.Document()
	q, err := readTraceQuery(d)
	if err != nil {
		return err
	}
	traces, unresponsive, err := views.Traces(c.srv.http.StopContext(), q)
	if err != nil {
		return httpd.Refuse(httpd.Unacceptable, "The probes cannot be looked for: %s; change it and ask again.", err)
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"traces": traces, "unresponsive": orEmpty(unresponsive)})
}

func readTraceQuery(d *httpd.Document) (q fleet.TraceQuery, err error) {
	if q.Email, _, err = d.Text("email"); err != nil {
		return q, err
	}
	if q.Status, _, err = d.Text("status"); err != nil {
		return q, err
	}
	if q.Provider, _, err = d.Text("provider"); err != nil {
		return q, err
	}
	limit, err := d.Number("limit", maxPage, 1, fleet.MaxTraces)
	q.Limit = int(limit)
	return q, err
}

// endQuarantine ends a quarantine and records it in the audit log.
func endQuarantine(c *call) error {
	views := c.srv.deps.Operator.Views
	if views == nil {
		return errNoViews
	}
	d := c.Document()
	node, err := d.RequiredText("node")
	if err != nil {
		return err
	}
	egress, err := d.RequiredText("egress")
	if err != nil {
		return err
	}
	route, _, err := d.Text("route")
	if err != nil {
		return err
	}
	was, err := views.EndQuarantine(c.srv.http.StopContext(), node, egress, route)
	switch {
	case errors.Is(err, fleet.ErrNoSuchNode), err == nil && !was:
		return httpd.Refuse(httpd.NotFound, "There is no such quarantine: it may be over already.")
	case err != nil:
		r := httpd.Busy("The node cannot be reached")
		r.Cause = err
		return r
	}
	if err := c.srv.deps.Store.Audit(store.AuditEvent{At: c.srv.now(), By: actor(c), Action: "release", Target: egress,
		Note: node + " " + route}); err != nil {
		return err
	}
	c.Ctx.Response.SetStatusCode(httpd.StatusNoContent)
	return nil
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

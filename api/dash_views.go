package api

import (
	"errors"

	"probity/coordinator/fleet"
	"probity/store"
)

// errNoViews is the answer of a server without views of its nodes.
var errNoViews = refuse(notFound, "This server cannot look into its nodes.")

// listQueues serves the most important ready queues of all nodes, with how much of their budgets is used.
func listQueues(c *call) error {
	views := c.srv.deps.Operator.Views
	if views == nil {
		return errNoViews
	}
	queues, unresponsive := views.ReadyQueues(c.srv.http.StopContext())
	return c.sendJSON(statusOK, map[string]any{"lanes": queues, "mute": orEmpty(unresponsive)})
}

// listTraces serves recent probes. The query is in the body: an address must not be in a URL.
func listTraces(c *call) error {
	views := c.srv.deps.Operator.Views
	if views == nil {
		return errNoViews
	}
	d, err := c.document()
	if err != nil {
		return err
	}
	q, err := readTraceQuery(d)
	if err != nil {
		return err
	}
	traces, unresponsive, err := views.Traces(c.srv.http.StopContext(), q)
	if err != nil {
		return refuse(unacceptable, "The probes cannot be looked for: %s; change it and ask again.", err)
	}
	return c.sendJSON(statusOK, map[string]any{"traces": traces, "mute": orEmpty(unresponsive)})
}

func readTraceQuery(d *document) (q fleet.TraceQuery, err error) {
	if q.Email, _, err = d.text("email"); err != nil {
		return q, err
	}
	if q.Status, _, err = d.text("status"); err != nil {
		return q, err
	}
	if q.Provider, _, err = d.text("provider"); err != nil {
		return q, err
	}
	limit, err := d.number("limit", maxPage, 1, fleet.MaxTraces)
	q.Limit = int(limit)
	return q, err
}

// endQuarantine ends a quarantine and records it in the audit log.
func endQuarantine(c *call) error {
	views := c.srv.deps.Operator.Views
	if views == nil {
		return errNoViews
	}
	d, err := c.document()
	if err != nil {
		return err
	}
	node, err := d.requiredText("node")
	if err != nil {
		return err
	}
	egress, err := d.requiredText("egress")
	if err != nil {
		return err
	}
	route, _, err := d.text("route")
	if err != nil {
		return err
	}
	was, err := views.EndQuarantine(c.srv.http.StopContext(), node, egress, route)
	switch {
	case errors.Is(err, fleet.ErrNoSuchNode), err == nil && !was:
		return refuse(notFound, "There is no such quarantine: it may be over already.")
	case err != nil:
		r := busy("The node cannot be reached")
		r.cause = err
		return r
	}
	if err := c.srv.deps.Store.Audit(store.AuditEvent{At: c.srv.now(), By: actor(c), Action: "release", Target: egress, Note: node + " " + route}); err != nil {
		return err
	}
	c.Ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

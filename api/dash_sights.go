package api

import (
	"errors"

	"probity/coordinator/fleet"
	"probity/store"
)

// errNoSights is the answer of a server that was not told what its nodes see.
var errNoSights = refuse(notFound, "This server cannot look into its nodes.")

// listLanes serves the lanes that matter most of all nodes, with what is used of their budgets.
func (x *exchange) listLanes() error {
	sights := x.srv.rooms.Operator.Sights
	if sights == nil {
		return errNoSights
	}
	lanes, mute := sights.Lanes(x.srv.ending)
	return x.sendAs(statusOK, map[string]any{"lanes": lanes, "mute": orEmpty(mute)})
}

// listTraces serves probes that were made lately. What is asked for comes in the body: an address has no place in a path.
func (x *exchange) listTraces() error {
	sights := x.srv.rooms.Operator.Sights
	if sights == nil {
		return errNoSights
	}
	d, err := x.document()
	if err != nil {
		return err
	}
	q, err := readTraceQuery(d)
	if err != nil {
		return err
	}
	traces, mute, err := sights.Traces(x.srv.ending, q)
	if err != nil {
		return refuse(unacceptable, "The probes cannot be looked for: %s; change it and ask again.", err)
	}
	return x.sendAs(statusOK, map[string]any{"traces": traces, "mute": orEmpty(mute)})
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

// releaseLane ends a quarantine, and the audit log remembers who did.
func (x *exchange) releaseLane() error {
	sights := x.srv.rooms.Operator.Sights
	if sights == nil {
		return errNoSights
	}
	d, err := x.document()
	if err != nil {
		return err
	}
	node, err := d.needText("node")
	if err != nil {
		return err
	}
	egress, err := d.needText("egress")
	if err != nil {
		return err
	}
	route, _, err := d.text("route")
	if err != nil {
		return err
	}
	was, err := sights.Release(x.srv.ending, node, egress, route)
	switch {
	case errors.Is(err, fleet.ErrNoSuchNode), err == nil && !was:
		return refuse(notFound, "There is no such quarantine: it may be over already.")
	case err != nil:
		r := busy("The node cannot be reached")
		r.cause = err
		return r
	}
	if err := x.srv.rooms.Store.Audit(store.Act{At: x.srv.now(), By: x.by(), Act: "release", Target: egress, Note: node + " " + route}); err != nil {
		return err
	}
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

func orEmpty(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

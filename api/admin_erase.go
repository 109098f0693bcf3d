package api

import (
	"errors"

	"probity/api/httpd"
	"probity/api/record"
	"probity/engine"
	"probity/store"
)

// erasureReceipt shows an erasure. When the files of a job are deleted depends on the flags of the server, which a
// Local does not know.
func erasureReceipt(c *call, e store.Erasure) record.Receipt {
	if c.localActor != "" {
		return record.NewReceipt(e, nil)
	}
	return record.NewReceipt(e, c.srv.deps.Coordinator.ExpiresAt)
}

// eraseAddress erases an address. Nodes that cannot be reached now are tried again, and the receipt says so.
func eraseAddress(c *call) error {
	d := c.Document()
	text, err := d.RequiredText("address")
	if err != nil {
		return err
	}
	a, err := engine.ParseTrimmed(text)
	if err != nil {
		return httpd.Refuse(httpd.Unacceptable, "address must be an e-mail address.")
	}
	ctx, stop := c.ClientContext() // the erasure goes on after it
	e, err := c.srv.deps.Eraser.Erase(ctx, a, actor(c), c.srv.now())
	stop()
	if errors.Is(err, store.ErrErasuresFull) {
		return httpd.Refuse(httpd.Unavailable, "Too many erasures wait for nodes that are away: bring the nodes back, and ask again.")
	}
	if err != nil {
		return err
	}
	status := httpd.StatusOK
	if e.Open() {
		status = httpd.StatusAccepted
	}
	return c.SendJSON(status, erasureReceipt(c, e))
}

func getErasure(c *call) error {
	e, err := c.srv.deps.Store.Erasure(c.Param)
	if errors.Is(err, store.ErrNotFound) {
		return httpd.Refuse(httpd.NotFound, "There is no erasure of this id: look at the list, GET /v1/admin/erasures.")
	}
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, erasureReceipt(c, e))
}

// listErasures serves receipts, newest first.
func listErasures(c *call) error {
	limit, err := c.QueryNumber("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	list, err := c.srv.deps.Store.Erasures(c.QueryText("cursor"), int(limit))
	if err != nil {
		return err
	}
	receipts := make([]record.Receipt, len(list))
	for i, e := range list {
		receipts[i] = erasureReceipt(c, e)
	}
	next := ""
	if len(list) == int(limit) {
		next = list[limit-1].ID
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"erasures": receipts, "next_cursor": record.TextOrNil(next)})
}

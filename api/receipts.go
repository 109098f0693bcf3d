package api

import (
	"errors"

	"probity/api/httpd"
	"probity/api/receipts"
	"probity/coordinator/csvfile"
)

// createReceipt serves POST /v1/receipts: a receipt of one row of a finished job.
func createReceipt(c *call) error {
	d := c.Document()
	id, err := d.RequiredText("job_id")
	if err != nil {
		return err
	}
	if !d.Has("row") {
		return httpd.Refuse(httpd.Unacceptable, "row is missing: send the number of the row in the results; the first is 1.")
	}
	row, err := d.Number("row", 0, 1, csvfile.MaxRows)
	if err != nil {
		return err
	}
	j, err := jobNamed(c, id)
	if err != nil {
		return err
	}
	if !j.Details || j.Test {
		return httpd.Refuse(httpd.Unacceptable, "This job has no details, so there is nothing to sign: upload the list with details=true and a live key.")
	}
	signed, err := receipts.OfRow(c.srv.http.StopContext(), c.srv.deps.Store, c.srv.deps.Coordinator, id, row, c.srv.now())
	if errors.Is(err, receipts.ErrNoVerdict) {
		return httpd.Refuse(httpd.Unacceptable, "row: %s.", err)
	}
	if err != nil {
		return err
	}
	return c.SendBytes(httpd.StatusOK, signed)
}

// getReceiptKeys serves GET /v1/receipt-keys.
func getReceiptKeys(c *call) error {
	keys, err := c.srv.deps.Store.ReceiptKeys(c.srv.now())
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, receipts.Show(keys))
}

// newReceiptKey serves POST /v1/admin/receipt-keys: a new key signs from now on.
func newReceiptKey(c *call) error {
	keys, err := c.srv.deps.Store.NewReceiptKey(actor(c), c.srv.now())
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusCreated, receipts.Show(keys))
}

package api

import (
	"probity/api/httpd"
	"probity/api/receipts"
)

// createReceipt serves POST /v1/receipts: a receipt of one row of a finished job.
func createReceipt(c *call) error {
	row, err := receipts.Read(c.Call)
	if err != nil {
		return err
	}
	j, err := job(c)
	if err != nil {
		return err
	}
	signed, err := receipts.OfRow(c.srv.http.StopContext(), c.srv.deps.Store, c.srv.deps.Coordinator, j, row, c.srv.now())
	if err != nil {
		return err
	}
	return c.SendBytes(httpd.StatusOK, signed)
}

func getReceiptKeys(c *call) error {
	return receipts.SendKeys(c.Call, c.srv.deps.Store, c.srv.now())
}

func newReceiptKey(c *call) error {
	return receipts.SendNewKey(c.Call, c.srv.deps.Store, actor(c), c.srv.now())
}

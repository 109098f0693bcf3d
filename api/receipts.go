package api

import (
	"probity/api/httpd"
	"probity/api/receipts"
	"probity/coordinator"
	"probity/store"
)

// createReceipt serves POST /v1/receipts: a receipt of an earlier single call, or of one row of a finished job.
func createReceipt(c *call) error {
	q, err := receipts.Read(c.Call)
	if err != nil {
		return err
	}
	d, scope := &c.srv.deps, store.ScopeJobs
	if q.Single != "" {
		scope = store.ScopeVerify
	}
	if c.session == nil && !c.identity.MayUse(scope) {
		return httpd.Refuse(httpd.Forbidden, "This key may not do this: use one with the scope %s.", scope.Names()[0])
	}
	var signed []byte
	if q.Single != "" {
		signed, err = receipts.OfSingle(d.Store, d.History, c.identity.User.ID, q.Single,
			coordinator.TableOf(d.Coordinator), c.srv.now())
	} else {
		signed, err = receiptOfRow(c, q.Row)
	}
	if err != nil {
		return err
	}
	return c.SendBytes(httpd.StatusOK, signed)
}

func receiptOfRow(c *call, row int64) ([]byte, error) {
	j, err := job(c)
	if err != nil {
		return nil, err
	}
	return receipts.OfRow(c.srv.http.StopContext(), c.srv.deps.Store, c.srv.deps.Coordinator, j, row, c.srv.now())
}

func getReceiptKeys(c *call) error {
	return receipts.SendKeys(c.Call, c.srv.deps.Store, c.srv.now())
}

func newReceiptKey(c *call) error {
	return receipts.SendNewKey(c.Call, c.srv.deps.Store, actor(c), c.srv.now())
}

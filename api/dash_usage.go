package api

import "probity/api/usage"

// usageOf is whose usage a request is about.
func usageOf(c *call) usage.Account {
	d := &c.srv.deps
	return usage.Account{ID: c.identity.User.ID, Store: d.Store, Coordinator: d.Coordinator, History: d.History,
		Now: c.srv.now()}
}

func getUsage(c *call) error     { return usage.Send(c.Call, usageOf(c)) }
func getUsageFile(c *call) error { return usage.SendFile(c.Call, usageOf(c)) }
func getOwnLedger(c *call) error { return sendLedger(c, c.identity.User.ID) }

func getLedgerFile(c *call) error { return usage.SendLedger(c.Call, c.srv.http, usageOf(c)) }

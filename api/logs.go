package api

import (
	"probity/api/httpd"
	"probity/api/logs"
)

// recordCall adds a finished request to the history of its account, if it had a key or verified something.
func (s *Server) recordCall(request *httpd.Call, o httpd.Outcome) {
	c := request.App.(*call)
	verdicts := c.verdicts
	if o.Status >= httpd.FirstError {
		verdicts = nil
	}
	if c.identity.Key != "" || len(verdicts) > 0 {
		logs.Record(s.deps.History, request, o, c.clockTime.Add(o.Took), c.identity, verdicts)
	}
}

// logsOf is whose history a request is about.
func logsOf(c *call) logs.Account {
	return logs.Account{ID: c.identity.User.ID, History: c.srv.deps.History, Keys: c.srv.deps.Store.Keys}
}

func listVerifications(c *call) error { return logs.SendVerifications(c.Call, logsOf(c)) }
func listRequests(c *call) error      { return logs.SendRequests(c.Call, logsOf(c)) }

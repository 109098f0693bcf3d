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

// callbacksOf is whose callbacks a request is about.
func callbacksOf(c *call) logs.Callbacks {
	d := &c.srv.deps
	return logs.Callbacks{Account: c.identity.User.ID, Store: d.Store, Sender: d.Callbacks}
}

func listCallbacks(c *call) error  { return logs.SendCallbacks(c.Call, callbacksOf(c)) }
func replayCallback(c *call) error { return logs.Replay(c.Call, callbacksOf(c)) }

// getCallback serves the log of a job's callback.
func getCallback(c *call) error {
	j, err := job(c)
	if err != nil {
		return err
	}
	return logs.SendCallback(c.Call, callbacksOf(c), j)
}

// resendCallback makes a job's callback due again.
func resendCallback(c *call) error {
	j, err := job(c)
	if err != nil {
		return err
	}
	return logs.Resend(c.Call, callbacksOf(c), j)
}

func listVerifications(c *call) error { return logs.SendVerifications(c.Call, logsOf(c)) }
func listRequests(c *call) error      { return logs.SendRequests(c.Call, logsOf(c)) }

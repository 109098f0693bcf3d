package api

import (
	"time"

	"probity/api/httpd"
	"probity/coordinator/results"
	"probity/coordinator/singles"
)

// checkLater refuses a single call whose later answer could not be sent, or for which there is no room.
func checkLater(c *call, callbackURL string) error {
	if c.srv.deps.Callbacks == nil || c.srv.deps.Late == nil {
		return httpd.Refuse(httpd.Unacceptable, "callback_url: this server sends no callbacks; leave it out.")
	}
	if err := c.srv.deps.Callbacks.CheckURL(c.srv.http.StopContext(), callbackURL); err != nil {
		return err
	}
	if !c.srv.deps.Late.HasRoom(c.identity.User.ID) {
		r := httpd.Refuse(httpd.Conflict, "%d single calls of this account wait for their verdicts: wait for some, or leave callback_url out.",
			singles.MaxWaiting)
		r.Retry = time.Minute
		return r
	}
	return nil
}

// laterCall is the call that is answered later.
func laterCall(c *call, q *singleRequest, a *results.Single) *singles.Call {
	return &singles.Call{ID: c.ID, Account: c.identity.User.ID, Key: c.identity.Key,
		Charge: c.srv.deps.Store.NewRequest(), Email: q.email,
		Details: q.details, Test: c.identity.Test, URL: q.callbackURL, Made: c.Started.UTC(),
		Reason: a.Verdict.Reason, Traceparent: httpd.Traceparent(c.Call)}
}

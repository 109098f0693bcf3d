package logs

import (
	"time"

	"probity/api/httpd"
	"probity/coordinator/results"
	"probity/engine"
	"probity/engine/redact"
	"probity/store"
	"probity/store/history"
)

// Record adds a request that was answered at a time, and the verdicts that it was answered with, to the history of its
// account. Of a single call the proof of its verdict is kept.
func Record(h *history.History, c *httpd.Call, o httpd.Outcome, at time.Time, by store.Identity,
	verdicts []results.Single) {
	request := history.Request{At: at, ID: c.ID, Status: o.Status, Took: o.Took, Key: by.Key}
	if o.Detail != "" {
		request.Detail = redact.Text(o.Detail, "")
	}
	request.Method, request.Route = c.Operation()
	if len(verdicts) == 1 { // most requests: without a slice on the heap
		one := verificationOf(&request, by, &verdicts[0])
		one.Proof = true
		if table := verdicts[0].Table; table != nil {
			one.Table = table.Hash()
		}
		h.Add(by.User.ID, &request, one)
		return
	}
	verified := make([]history.Verification, len(verdicts))
	for i := range verdicts {
		verified[i] = verificationOf(&request, by, &verdicts[i])
	}
	h.Add(by.User.ID, &request, verified...)
}

func verificationOf(r *history.Request, by store.Identity, a *results.Single) history.Verification {
	v := history.Verification{At: r.At, Request: r.ID, Email: a.Email, Key: by.Key, Credits: a.Credits, Test: by.Test,
		Verdict: a.Verdict, Node: a.Node}
	v.Verdict.Score = engine.Score(&a.Verdict, r.At)
	return v
}

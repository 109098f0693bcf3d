package api

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"

	"probity/api/httpd"
	"probity/api/reasons"
	"probity/api/record"
	"probity/coordinator"
	"probity/coordinator/ingest"
	"probity/store"
)

// recheckJob serves POST /v1/verify/bulk/{job_id}/recheck: a new job of the rows with some statuses and reasons.
func recheckJob(c *call) error {
	d := c.Document()
	statuses, err := d.TextList("status")
	if err != nil {
		return err
	}
	names, err := d.TextList("reason")
	if err != nil {
		return err
	}
	if len(statuses)+len(names) == 0 {
		return httpd.Refuse(httpd.Unacceptable,
			"status and reason are missing: name the rows, such as {\"status\":[\"UNKNOWN\"]}.")
	}
	selected, err := reasons.Select(statuses, names)
	if err != nil {
		return httpd.Refuse(httpd.Unacceptable, "%s.", err)
	}
	j, err := job(c)
	if err != nil {
		return err
	}
	digest := func() store.KeyHash { return sha256.Sum256(fmt.Appendf(nil, "%s %v", j.ID, selected)) }
	keep, kept, err := claimKey(c, digest)
	if err != nil {
		return err
	}
	if kept != nil {
		return c.sendAccepted(*kept)
	}
	if keep != nil {
		defer c.srv.deps.Store.EndRequest(*keep)
	}
	switch {
	case j.State == store.JobExpired:
		return coordinator.ErrExpired
	case !j.State.Finished() || j.State == store.JobFailed:
		return httpd.Refuse(httpd.Conflict,
			"The job is %s: only rows of a completed or cancelled job can be rechecked; look at its status first.",
			j.State)
	case reasons.Rows(j, selected) == 0:
		return httpd.Refuse(httpd.Unacceptable,
			"No row of the job has this status and reason: look at its counts and reasons.")
	}
	var answer store.Answer
	parts := func(made *store.Job) []store.Part {
		made.CallbackHeaders, made.Traceparent = j.CallbackHeaders, httpd.Traceparent(c.Call)
		kept := c.srv.deps.Coordinator.ResultRetention()
		r, err := record.NewJob(c.srv.cfg.PublicURL, kept, coordinator.Snapshot{Job: *made}, nil)
		if err != nil {
			return fail(err)
		}
		answer = store.Answer{Status: httpd.StatusAccepted, Location: c.srv.jobURLPath(made.ID)}
		if answer.Body, err = json.Marshal(r); err != nil {
			return fail(err)
		}
		if keep == nil {
			return c.acceptanceParts(made)
		}
		return append(c.acceptanceParts(made), store.KeepAnswer(*keep, answer, made.CreatedAt))
	}
	_, err = c.srv.deps.Coordinator.Recheck(c.srv.http.StopContext(), j, selected, ingest.Options{
		Account: j.Account, Key: c.identity.Key, Name: j.Name, Filename: j.Filename, MaxAge: j.MaxAge,
		NoSMTP: j.NoSMTP, Test: c.identity.Test || j.Test, Details: j.Details,
		CallbackURL: j.CallbackURL, CallbackContent: j.CallbackContent, CallbackInput: j.CallbackInput, Parts: parts,
	})
	c.setUploadDecision(err)
	if err != nil {
		return err
	}
	return c.sendAccepted(answer)
}

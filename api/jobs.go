package api

import (
	"context"
	"encoding/base64"
	"errors"
	"time"

	"probity/api/httpd"
	"probity/api/record"
	"probity/store"
	"probity/store/joborder"
)

const (
	defaultPage = 20
	maxPage     = 100
	maxWait     = 60 // seconds that GET of a job may wait for a change
)

// job is the job of the path, if it belongs to the account.
func job(c *call) (*store.Job, error) {
	j, err := c.srv.deps.Coordinator.Job(c.Param)
	if errors.Is(err, store.ErrNotFound) || (err == nil && j.Account != c.identity.User.ID) {
		return nil, httpd.Refuse(httpd.NotFound, "There is no such job in this account: check the job_id.")
	}
	return j, err
}

// visibleJob is a job whose progress the caller may see: one of the account, or any one for an admin.
func visibleJob(c *call) (*store.Job, error) {
	asAdmin := c.identity.User.Role == store.Admin && !c.identity.Test
	if asAdmin && (c.session != nil || c.identity.MayUse(store.ScopeAdmin)) {
		return c.srv.deps.Coordinator.Job(c.Param)
	}
	return job(c)
}

// getJob serves the record of a job. With wait it answers when the job's state changes, at the latest after wait
// seconds.
func getJob(c *call) error {
	seconds, err := c.QueryNumber("wait", 0, 0, maxWait)
	if err != nil {
		return err
	}
	j, err := job(c)
	if err != nil {
		return err
	}
	if seconds > 0 && !j.State.Finished() {
		ctx, cancel := context.WithTimeout(c.srv.http.DrainContext(), time.Duration(seconds)*time.Second)
		defer cancel()
		if _, err := c.srv.deps.Coordinator.WaitChange(ctx, j.ID, j.State); err != nil {
			return err
		}
	}
	return sendJob(c, httpd.StatusOK, j.ID)
}

func sendJob(c *call, status int, id string) error {
	r, err := c.srv.loadJob(id)
	if err != nil {
		return err
	}
	if r.Status == store.JobReady {
		if err := c.srv.addPreview(r); err != nil {
			return err
		}
	}
	return c.SendJSON(status, r)
}

// listJobs serves a page of the account's jobs.
func listJobs(c *call) error {
	q, err := jobQuery(c, defaultPage)
	if err != nil {
		return err
	}
	q.Account = c.identity.User.ID
	page, err := c.srv.deps.Store.ListJobs(q)
	if err != nil {
		return err
	}
	records, err := c.srv.loadJobs(page.Jobs)
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"jobs": records, "next_cursor": nextCursor(page.Next)})
}

var jobOrders = map[string]joborder.Order{"-created_at": joborder.Newest, "created_at": joborder.Oldest,
	"name": joborder.ByName, "-name": joborder.ByNameReversed}

// jobQuery is the part of a list of jobs that the query names.
func jobQuery(c *call, fallbackLimit int64) (q store.JobQuery, err error) {
	limit, err := c.QueryNumber("limit", fallbackLimit, 1, maxPage)
	if err != nil {
		return q, err
	}
	sort, err := httpd.QuerySort(c.Call, "-created_at", "created_at", "name")
	if err != nil {
		return q, err
	}
	cursor, err := base64.RawURLEncoding.DecodeString(c.QueryText("cursor"))
	if err != nil {
		return q, store.ErrBadCursor
	}
	state := store.JobState(c.QueryText("status"))
	if c.Ctx.QueryArgs().Has("status") && !knownState(state) {
		return q, httpd.Refuse(httpd.Unacceptable, "status must be one of ready, queued, running, paused, finalizing, completed, cancelling, cancelled, failed, expired.")
	}
	return store.JobQuery{State: state, Order: jobOrders[sort], Limit: int(limit), Cursor: string(cursor)}, nil
}

func knownState(s store.JobState) bool {
	switch s {
	case store.JobReady, store.JobQueued, store.JobRunning, store.JobPaused, store.JobCancelling, store.JobFinalizing:
		return true
	}
	return s.Finished()
}

// startJob starts a job in state ready: its price is reserved now.
func startJob(c *call) error {
	j, err := job(c)
	if err != nil {
		return err
	}
	if c.identity.Test && !j.Test {
		return httpd.Refuse(httpd.Forbidden, "A test key may not start a job of a live key: use a live key.")
	}
	start := func(id string) (*store.Job, error) {
		return c.srv.deps.Coordinator.Start(id, store.ReserveJob(j.Account, id, record.MaxCost(j), c.srv.now()))
	}
	return changeState(c, start, "started")
}

func pauseJob(c *call) error  { return changeState(c, c.srv.deps.Coordinator.Pause, "paused") }
func resumeJob(c *call) error { return changeState(c, c.srv.deps.Coordinator.Resume, "resumed") }
func cancelJob(c *call) error { return changeState(c, c.srv.deps.Coordinator.Cancel, "cancelled") }

// changeState changes the state of the job and serves its record.
func changeState(c *call, do func(string) (*store.Job, error), what string) error {
	j, err := job(c)
	if err != nil {
		return err
	}
	if _, err := do(j.ID); err != nil {
		if r := refusalOf(err); r.Kind == httpd.Conflict {
			return httpd.Refuse(httpd.Conflict, "The job is %s and cannot be %s: look at its status before you ask.",
				j.State, what)
		}
		return err
	}
	return sendJob(c, httpd.StatusOK, j.ID)
}

// deleteJob deletes a job that is finished or was not started.
func deleteJob(c *call) error {
	j, err := job(c)
	if err != nil {
		return err
	}
	if !j.State.Finished() && j.State != store.JobReady {
		advice := "cancel it first, and delete it once it is cancelled"
		switch j.State {
		case store.JobCancelling:
			advice = "wait until it is cancelled"
		case store.JobFinalizing: // too late to cancel it
			advice = "wait until it has finished"
		}
		return httpd.Refuse(httpd.Conflict, "The job is %s: %s.", j.State, advice)
	}
	if err := c.srv.deps.Coordinator.Delete(j.ID); err != nil {
		return err
	}
	c.Ctx.Response.SetStatusCode(httpd.StatusNoContent)
	return nil
}

// nextCursor is the cursor of the next page, encoded; nil if there is none.
func nextCursor(next string) *string {
	return record.TextOrNil(base64.RawURLEncoding.EncodeToString([]byte(next)))
}

func (s *Server) jobURLPath(id string) string { return record.BulkPath + "/" + id }

// loadJob is the record of a job in the store.
func (s *Server) loadJob(id string) (*record.Job, error) {
	snap, err := s.deps.Coordinator.Snapshot(id)
	if err != nil {
		return nil, err
	}
	var callback *store.Callback
	c, err := s.deps.Store.Callback(id)
	if err == nil {
		callback = &c
	} else if !errors.Is(err, store.ErrNoCallback) {
		return nil, err
	}
	r, err := record.NewJob(s.cfg.PublicURL, s.deps.Coordinator.ResultRetention(), snap, callback)
	if err != nil {
		return nil, err
	}
	return r, r.SetDelivery(s.deps.Store.DB)
}

package api

import (
	"context"
	"encoding/base64"
	"errors"
	"time"

	"probity/store"
)

const (
	defaultPage = 20
	maxPage     = 100
	maxWait     = 60 // seconds that a look at a job may be held
)

// job is the job of the path, if it is the caller's.
func (x *exchange) job() (*store.Job, error) {
	j, err := x.srv.rooms.Coordinator.Job(x.param)
	if errors.Is(err, store.ErrNotFound) || (err == nil && j.Account != x.who.User.ID) {
		return nil, refuse(notFound, "There is no such job in this account: check the job_id.")
	}
	return j, err
}

// queryNumber is a parameter of the query that must be a whole number.
func (x *exchange) queryNumber(name string, otherwise, least, most int64) (int64, error) {
	if !x.ctx.QueryArgs().Has(name) {
		return otherwise, nil
	}
	return readNumber(name, string(x.ctx.QueryArgs().Peek(name)), least, most)
}

func (x *exchange) query(name string) string { return string(x.ctx.QueryArgs().Peek(name)) }

// getJob serves a look at a job, held until its state changes if the caller wants to wait.
func (x *exchange) getJob() error {
	if err := x.onlyQuery("wait"); err != nil {
		return err
	}
	seconds, err := x.queryNumber("wait", 0, 0, maxWait)
	if err != nil {
		return err
	}
	j, err := x.job()
	if err != nil {
		return err
	}
	if seconds > 0 && !j.State.Finished() {
		ctx, cancel := context.WithTimeout(x.srv.leaving, time.Duration(seconds)*time.Second)
		defer cancel()
		if _, err := x.srv.rooms.Coordinator.WaitChange(ctx, j.ID, j.State); err != nil {
			return err
		}
	}
	return x.sendJob(j.ID)
}

func (x *exchange) sendJob(id string) error {
	r, err := x.srv.lookUp(id)
	if err != nil {
		return err
	}
	return x.sendAs(statusOK, r)
}

// listJobs serves a page of the account's jobs, newest first.
func (x *exchange) listJobs() error {
	if err := x.onlyQuery("status", "limit", "cursor"); err != nil {
		return err
	}
	limit, err := x.queryNumber("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	cursor, err := x.cursor()
	if err != nil {
		return err
	}
	state := store.JobState(x.query("status"))
	if state != "" && !knownState(state) {
		return refuse(unacceptable, "status must be one of queued, running, paused, finalizing, completed, cancelling, cancelled, failed, expired.")
	}
	jobs, next, err := x.srv.rooms.Coordinator.Jobs(x.who.User.ID, state, int(limit), cursor)
	if err != nil {
		return err
	}
	records, err := x.srv.recordsOf(jobs)
	if err != nil {
		return err
	}
	return x.sendAs(statusOK, map[string]any{"jobs": records, "next_cursor": nextCursor(next)})
}

func knownState(s store.JobState) bool {
	switch s {
	case store.JobQueued, store.JobRunning, store.JobPaused, store.JobCancelling, store.JobFinalizing:
		return true
	}
	return s.Finished()
}

func (x *exchange) pauseJob() error  { return x.move(x.srv.rooms.Coordinator.Pause, "paused") }
func (x *exchange) resumeJob() error { return x.move(x.srv.rooms.Coordinator.Resume, "resumed") }
func (x *exchange) cancelJob() error { return x.move(x.srv.rooms.Coordinator.Cancel, "cancelled") }

// move takes a job to another state and shows it.
func (x *exchange) move(do func(string) (*store.Job, error), what string) error {
	j, err := x.job()
	if err != nil {
		return err
	}
	if _, err := do(j.ID); err != nil {
		if r := refusalOf(err); r.kind == conflict {
			return refuse(conflict, "The job is %s and cannot be %s: look at its status before you ask.", j.State, what)
		}
		return err
	}
	return x.sendJob(j.ID)
}

// deleteJob forgets a finished job.
func (x *exchange) deleteJob() error {
	j, err := x.job()
	if err != nil {
		return err
	}
	if !j.State.Finished() {
		return refuse(conflict, "The job is %s: cancel it first, and delete it once it is cancelled.", j.State)
	}
	if err := x.srv.rooms.Coordinator.Delete(j.ID); err != nil {
		return err
	}
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

// attempt is one line of a callback's log.
type attempt struct {
	Number   int     `json:"number"`
	At       stamp   `json:"at"`
	Duration int64   `json:"duration_ms"`
	Status   *int    `json:"status"`
	Error    *string `json:"error"`
	Bytes    int64   `json:"bytes"`
	Link     bool    `json:"link"`
	Cut      bool    `json:"cut"`
}

// getCallback serves the log of a job's callback.
func (x *exchange) getCallback() error {
	j, err := x.job()
	if err != nil {
		return err
	}
	c, err := x.srv.rooms.Store.Callback(j.ID)
	if errors.Is(err, store.ErrNoCallback) && j.CallbackURL != "" {
		c, err = store.Callback{State: store.CallbackPending}, nil // not due before the job has finished
	}
	if err != nil {
		return err
	}
	return x.sendCallback(statusOK, j.ID, c)
}

func (x *exchange) sendCallback(status int, job string, c store.Callback) error {
	log, err := x.srv.rooms.Store.CallbackLog(job)
	if err != nil && !errors.Is(err, store.ErrNoCallback) {
		return err
	}
	attempts := make([]attempt, 0, len(log))
	for _, a := range log {
		line := attempt{Number: a.Number, At: stamp(a.At), Duration: a.Duration.Milliseconds(), Error: textOrNil(a.Error), Bytes: a.Bytes, Link: a.Link, Cut: a.Cut}
		if a.Status != 0 {
			line.Status = &a.Status
		}
		attempts = append(attempts, line)
	}
	return x.sendAs(status, map[string]any{"status": c.State, "next_attempt_at": stampOf(c.Next), "attempts": attempts})
}

// resendCallback makes a job's callback due again.
func (x *exchange) resendCallback() error {
	j, err := x.job()
	if err != nil {
		return err
	}
	if j.CallbackURL == "" || x.srv.rooms.Callbacks == nil {
		return store.ErrNoCallback
	}
	if !j.State.Finished() || j.State == store.JobExpired {
		return refuse(conflict, "The job is %s: only a finished job whose results are there has a callback to send.", j.State)
	}
	c, err := x.srv.rooms.Callbacks.Resend(j.ID)
	if err != nil {
		return err
	}
	return x.sendCallback(statusAccepted, j.ID, c)
}

// queryFlag is a parameter of the query that must be true or false.
func (x *exchange) queryFlag(name string) (bool, error) {
	if !x.ctx.QueryArgs().Has(name) {
		return false, nil
	}
	return readFlag(name, x.query(name))
}

// cursorSize is the length of a cursor: the time of a job in eight bytes, and its id.
const cursorSize = 8 + 32

// cursor is where a page of jobs begins, "" for the first.
func (x *exchange) cursor() (string, error) {
	cursor, err := base64.RawURLEncoding.DecodeString(x.query("cursor"))
	if err != nil || len(cursor) != 0 && len(cursor) != cursorSize {
		return "", refuse(unacceptable, "cursor must be the next_cursor of the page before.")
	}
	return string(cursor), nil
}

// nextCursor shows where the next page begins; nil where there is none.
func nextCursor(next string) *string {
	return textOrNil(base64.RawURLEncoding.EncodeToString([]byte(next)))
}

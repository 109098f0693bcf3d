package logs

import (
	"encoding/base64"
	"errors"

	"probity/api/httpd"
	"probity/api/record"
	"probity/coordinator/callback"
	"probity/coordinator/singles"
	"probity/store"
)

// Callbacks is the account whose callbacks are served, and what sends them.
type Callbacks struct {
	Account string
	Store   *store.Store
	Sender  *callback.Sender // nil if none are sent
}

// attempt is one entry of a callback's log.
type attempt struct {
	Number   int         `json:"number"`
	At       record.Time `json:"at"`
	Duration int64       `json:"duration_ms"`
	Status   *int        `json:"status"`
	Error    *string     `json:"error"`
	Answer   *string     `json:"answer"`
	Bytes    int64       `json:"bytes"`
	Link     bool        `json:"link"`
	Cut      bool        `json:"cut"`
}

// listed is a callback in the list of an account.
type listed struct {
	ID       string              `json:"callback_id"`
	Event    string              `json:"event"`
	Job      *string             `json:"job_id"`
	Request  *string             `json:"request_id"`
	Name     *string             `json:"job_name"`
	URL      string              `json:"callback_url"`
	Made     record.Time         `json:"created_at"`
	State    store.CallbackState `json:"status"`
	Attempts int                 `json:"attempts"`
	Next     *record.Time        `json:"next_attempt_at"`
	Last     *attempt            `json:"last_attempt"`
}

// SendCallbacks serves a page of the callbacks of all jobs of the account, the newest first.
func SendCallbacks(c *httpd.Call, of Callbacks) error {
	limit, err := c.QueryNumber("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	onlyFailing, err := c.QueryFlag("failing")
	if err != nil {
		return err
	}
	state := store.CallbackState(c.QueryText("status"))
	switch state {
	case "", store.CallbackPending, store.CallbackDelivered, store.CallbackStopped, store.CallbackFailed:
	default:
		return httpd.Refuse(httpd.Unacceptable, "status must be one of pending, delivered, stopped, failed.")
	}
	after, err := base64.RawURLEncoding.DecodeString(c.QueryText("cursor"))
	if err != nil {
		return httpd.Refuse(httpd.Unacceptable, "cursor must be the next_cursor of the page before.")
	}
	found, next, err := callback.List(of.Store, of.Account, string(after), int(limit), func(cb store.Callback) bool {
		return (state == "" || cb.State == state) && (!onlyFailing || isFailing(&cb))
	})
	if err != nil {
		return err
	}
	rows := make([]listed, 0, len(found))
	for i := range found {
		row, err := of.row(&found[i])
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, singles.ErrNotFound) {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"callbacks": rows,
		"next_cursor": record.TextOrNil(base64.RawURLEncoding.EncodeToString([]byte(next)))})
}

// isFailing reports whether the newest attempt has failed.
func isFailing(cb *store.Callback) bool {
	return cb.State == store.CallbackFailed || cb.State == store.CallbackPending && cb.Tries > 0
}

func (cs *Callbacks) row(cb *store.Callback) (listed, error) {
	attempts, err := cs.attempts(cb.Job)
	if err != nil {
		return listed{}, err
	}
	row := listed{ID: cb.Job, Made: record.Time(cb.Made), State: cb.State, Attempts: cb.Attempts,
		Next: record.TimeOrNil(cb.Next)}
	if cb.Single {
		s, err := singles.Read(cs.Store, cb.Job)
		if err != nil {
			return listed{}, err
		}
		row.Event, row.Request, row.URL = singles.Finished, &cb.Job, s.URL
	} else {
		j, err := cs.Store.Job(cb.Job)
		if err != nil {
			return listed{}, err
		}
		row.Event, row.Job, row.Name = callback.BulkFinished, &cb.Job, record.TextOrNil(j.Name)
		row.URL = j.CallbackURL
	}
	if len(attempts) > 0 {
		row.Last = &attempts[len(attempts)-1]
	}
	return row, nil
}

// attempts are the logged attempts of a callback, oldest first.
func (cs *Callbacks) attempts(id string) ([]attempt, error) {
	log, err := cs.Store.CallbackLog(id)
	if err != nil && !errors.Is(err, store.ErrNoCallback) {
		return nil, err
	}
	attempts := make([]attempt, 0, len(log))
	for _, a := range log {
		line := attempt{Number: a.Number, At: record.Time(a.At), Duration: a.Duration.Milliseconds(),
			Error:  record.TextOrNil(a.Error),
			Answer: record.TextOrNil(a.Answer), Bytes: a.Bytes, Link: a.Link, Cut: a.Truncated}
		if a.Status != 0 {
			line.Status = &a.Status
		}
		attempts = append(attempts, line)
	}
	return attempts, nil
}

// SendCallback serves the callback of a job with its attempts.
func SendCallback(c *httpd.Call, of Callbacks, j *store.Job) error {
	cb, err := of.Store.Callback(j.ID)
	if errors.Is(err, store.ErrNoCallback) && j.CallbackURL != "" {
		cb, err = store.Callback{State: store.CallbackPending}, nil // not due before the job has finished
	}
	if err != nil {
		return err
	}
	return of.send(c, httpd.StatusOK, j.ID, cb)
}

func (cs *Callbacks) send(c *httpd.Call, status int, id string, cb store.Callback) error {
	attempts, err := cs.attempts(id)
	if err != nil {
		return err
	}
	return c.SendJSON(status, map[string]any{"status": cb.State, "next_attempt_at": record.TimeOrNil(cb.Next),
		"attempts": attempts})
}

// Resend makes the callback of a job due again.
func Resend(c *httpd.Call, of Callbacks, j *store.Job) error {
	if j.CallbackURL == "" || of.Sender == nil {
		return store.ErrNoCallback
	}
	if !j.State.Finished() || j.State == store.JobExpired {
		return httpd.Refuse(httpd.Conflict, "The job is %s: only a finished job whose results are there has a callback to send.", j.State)
	}
	return of.resend(c, j.ID)
}

func (cs *Callbacks) resend(c *httpd.Call, id string) error {
	cb, err := cs.Sender.Resend(id)
	if err != nil {
		return err
	}
	return cs.send(c, httpd.StatusAccepted, id, cb)
}

// Replay makes the callback that the path names due again.
func Replay(c *httpd.Call, of Callbacks) error {
	cb, err := of.Store.Callback(c.Param)
	if errors.Is(err, store.ErrNoCallback) || err == nil && cb.Account != of.Account {
		return httpd.Refuse(httpd.NotFound, "There is no such callback in this account: check the callback_id.")
	}
	if err != nil {
		return err
	}
	if cb.Single && of.Sender != nil {
		return of.resend(c, cb.Job)
	}
	j, err := of.Store.Job(cb.Job)
	if err != nil {
		return err
	}
	return Resend(c, of, j)
}

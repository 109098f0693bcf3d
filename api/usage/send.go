package usage

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"time"

	"probity/api/httpd"
	"probity/coordinator"
	"probity/engine"
	"probity/store"
	"probity/store/history"
)

// Account is an account, and what its usage is read from.
type Account struct {
	ID          string
	Store       *store.Store
	Coordinator *coordinator.Coordinator
	History     *history.History // nil: calls are not counted
	Now         time.Time
}

// readReport reads the usage of the account in the days that the query names.
func (a *Account) readReport(c *httpd.Call) (Report, error) {
	days, err := c.QueryNumber("days", 30, 1, MaxDays)
	if err != nil {
		return Report{}, err
	}
	progress := func(id string) (map[engine.Status]int64, error) {
		j, err := a.Coordinator.Snapshot(id)
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil // deleted meanwhile
		}
		return j.ByStatus, err
	}
	r, err := Read(a.Store, a.Coordinator, progress, a.ID, int(days), a.Now)
	if err != nil {
		return r, err
	}
	calls, err := a.History.Days(a.ID, a.Now.AddDate(0, 0, -int(days)))
	for i := range r.Days {
		r.Days[i].countCalls(calls)
	}
	return r, err
}

// Send serves the report.
func Send(c *httpd.Call, a Account) error {
	r, err := a.readReport(c)
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, r)
}

// SendFile serves the days of each key as CSV.
func SendFile(c *httpd.Call, a Account) error {
	r, err := a.readReport(c)
	if err != nil {
		return err
	}
	h := &c.Ctx.Response.Header
	h.SetContentType("text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="usage.csv"`)
	return r.WriteKeys(c.Ctx.Response.BodyWriter())
}

// SendLedger streams the whole ledger, newest first.
func SendLedger(c *httpd.Call, s *httpd.Server, a Account) error {
	h := &c.Ctx.Response.Header
	h.SetContentType("text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="ledger.csv"`)
	if c.Ctx.IsHead() {
		c.Ctx.Response.SetBodyStream(strings.NewReader(""), -1)
		return nil
	}
	r, w := io.Pipe()
	s.Stream(func() {
		out := bufio.NewWriterSize(w, 32<<10)
		w.CloseWithError(errors.Join(WriteLedger(s.StopContext(), out, a.Store, a.ID), out.Flush()))
	})
	c.Ctx.Response.SetBodyStream(r, -1)
	return nil
}

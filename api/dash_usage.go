package api

import (
	"bufio"
	"errors"
	"io"
	"strings"

	"probity/api/httpd"
	"probity/api/usage"
	"probity/engine"
	"probity/store"
)

// readUsage reads the usage of the account in the days that the query names.
func readUsage(c *call) (usage.Report, error) {
	days, err := c.QueryNumber("days", 30, 1, usage.MaxDays)
	if err != nil {
		return usage.Report{}, err
	}
	progress := func(id string) (map[engine.Status]int64, error) {
		j, err := c.srv.deps.Coordinator.Snapshot(id)
		if errors.Is(err, store.ErrNotFound) {
			return nil, nil // deleted meanwhile
		}
		return j.ByStatus, err
	}
	return usage.Read(c.srv.deps.Store, c.srv.deps.Coordinator, progress, c.identity.User.ID, int(days), c.srv.now())
}

func getUsage(c *call) error {
	r, err := readUsage(c)
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, r)
}

// getUsageFile serves the days of each key as CSV.
func getUsageFile(c *call) error {
	r, err := readUsage(c)
	if err != nil {
		return err
	}
	h := &c.Ctx.Response.Header
	h.SetContentType("text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="usage.csv"`)
	return r.WriteKeys(c.Ctx.Response.BodyWriter())
}

func getOwnLedger(c *call) error { return sendLedger(c, c.identity.User.ID) }

// getLedgerFile streams the whole ledger, newest first.
func getLedgerFile(c *call) error {
	h := &c.Ctx.Response.Header
	h.SetContentType("text/csv; charset=utf-8")
	h.Set("Content-Disposition", `attachment; filename="ledger.csv"`)
	if c.Ctx.IsHead() {
		c.Ctx.Response.SetBodyStream(strings.NewReader(""), -1)
		return nil
	}
	s, account := c.srv, c.identity.User.ID
	r, w := io.Pipe()
	s.http.Stream(func() {
		out := bufio.NewWriterSize(w, 32<<10)
		w.CloseWithError(errors.Join(usage.WriteLedger(s.http.StopContext(), out, s.deps.Store, account), out.Flush()))
	})
	c.Ctx.Response.SetBodyStream(r, -1)
	return nil
}

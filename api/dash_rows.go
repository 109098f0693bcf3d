package api

import (
	"context"
	"io"
	"math"

	"probity/api/httpd"
	"probity/api/rowsearch"
	"probity/coordinator/results"
	"probity/store"
)

const (
	maxRowsFound = 100 // rows of an answer
	maxTallies   = 64  // counts of finished jobs, which never change
)

// findRows serves the rows of a job whose address contains the search term.
func findRows(c *call) error {
	j, err := job(c)
	if err != nil {
		return err
	}
	f := results.Filter{Form: results.Form{Format: results.JSONL, Compress: results.None}, Partial: true}
	if c.Ctx.QueryArgs().Has("status") {
		if f.Status, err = readStatuses(c.QueryText("status")); err != nil {
			return err
		}
	}
	limit, err := c.QueryNumber("limit", 50, 1, maxRowsFound)
	if err != nil {
		return err
	}
	after, err := c.QueryNumber("after", 0, 0, 1<<40)
	if err != nil {
		return err
	}
	f.From = uint32(min(after, math.MaxUint32-1)) + 1
	if err := checkResultsReady(j, f); err != nil {
		return err
	}
	search := rowsearch.FindRows(c.QueryText("q"), after, int(limit))
	whole, err := scanResults(c, j, f, search.Line)
	if err != nil {
		return err
	}
	var next *int64
	if !whole {
		next = &search.Last
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"rows": search.Found, "next_after": next})
}

// scanResults passes the lines of a job's results to visit; whole reports that all were visited.
func scanResults(c *call, j *store.Job, f results.Filter, visit func([]byte) error) (whole bool, err error) {
	write := func(ctx context.Context, w io.Writer) error { return c.srv.deps.Coordinator.Results(ctx, j.ID, f, w) }
	return c.srv.dashboard.searcher.Scan(c.srv.http.StopContext(), c.identity.User.ID, write, visit)
}

// countProviders serves the row counts of a finished job by provider and status, and by score. Of a very long job it
// counts as many rows as it can in the time of a search, and the answer says so.
func countProviders(c *call) error {
	j, err := job(c)
	if err != nil {
		return err
	}
	f := results.Filter{Form: results.Form{Format: results.JSONL, Compress: results.None}}
	if err := checkResultsReady(j, f); err != nil {
		return err
	}
	t, whole := c.srv.dashboard.tallies.Get(j.ID)
	if !whole {
		t = rowsearch.NewTally()
		if whole, err = scanResults(c, j, f, t.Line); err != nil {
			return err
		}
	}
	if whole {
		c.srv.dashboard.tallies.Add(j.ID, t)
	}
	return c.SendJSON(httpd.StatusOK, struct {
		*rowsearch.Tally
		Complete bool `json:"complete"`
	}{t, whole})
}

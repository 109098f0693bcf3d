package api

import (
	"encoding/json"
	"math"

	"probity/api/httpd"
	"probity/api/rowsearch"
	"probity/coordinator/results"
)

const maxRowsFound = 100 // rows of an answer

// findRows serves the rows of a job whose address contains the search term: those that it finds within a
// time, and where to go on.
func findRows(c *call) error {
	j, err := job(c)
	if err != nil {
		return err
	}
	f := results.Filter{Partial: true}
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
	var found results.Found
	err = c.srv.dashboard.searcher.Run(c.srv.http.StopContext(), c.identity.User.ID, func() (err error) {
		found, err = c.srv.deps.Coordinator.Find(c.srv.http.StopContext(), j.ID, f,
			results.Search{Text: c.QueryText("q"), Limit: int(limit), For: rowsearch.Time})
		return err
	})
	if err != nil {
		return err
	}
	answer := struct {
		Rows []json.RawMessage `json:"rows"`
		Next *int64            `json:"next_after"`
	}{Rows: make([]json.RawMessage, len(found.Rows))}
	for i, row := range found.Rows {
		answer.Rows[i] = row
	}
	if found.Last < j.Rows {
		answer.Next = &found.Last
	}
	return c.SendJSON(httpd.StatusOK, answer)
}

// countProviders serves the row counts of a finished job by provider and status, and by score.
func countProviders(c *call) error {
	j, err := job(c)
	if err != nil {
		return err
	}
	if err := checkResultsReady(j, results.Filter{}); err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, j.Tally)
}

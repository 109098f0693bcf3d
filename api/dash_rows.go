package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"probity/api/httpd"
	"probity/coordinator/results"
	"probity/store"
)

// The bounds of a search in results: rows of an answer, duration, and searches at one time.
const (
	maxRowsFound      = 100
	searchTimeout     = 8 * time.Second
	maxSearches       = 2
	maxLine           = 1 << 20
	maxProviderTables = 64 // provider tables of finished jobs, which never change
)

var errLimitReached = errors.New("enough was found")

// rowSearch is one search through the results of a job, line by line.
type rowSearch struct {
	term  []byte // in lower case; empty matches all
	after int64  // rows up to this one are skipped
	limit int
	found []json.RawMessage
	last  int64 // the last row that was searched
}

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
	if err := checkResultsReady(j, f); err != nil {
		return err
	}
	s := &rowSearch{term: []byte(strings.ToLower(c.QueryText("q"))), after: after, limit: int(limit), found: []json.RawMessage{}}
	whole, err := scanResults(c, j, f, s.matchLine)
	if err != nil {
		return err
	}
	var next *int64
	if !whole {
		next = &s.last
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"rows": s.found, "next_after": next})
}

// scanResults passes the lines of a job's results to visit, until it returns an error, or for searchTimeout. whole reports that
// all were visited.
func scanResults(c *call, j *store.Job, f results.Filter, visit func([]byte) error) (whole bool, err error) {
	ctx, cancel := context.WithTimeout(c.srv.http.StopContext(), searchTimeout)
	defer cancel()
	done, err := c.srv.dashboard.accountSearch.begin(ctx, c.identity.User.ID)
	if err != nil {
		return false, httpd.Busy("Other searches of your account are under way")
	}
	defer done()
	select {
	case c.srv.dashboard.searchSlots <- struct{}{}:
		defer func() { <-c.srv.dashboard.searchSlots }()
	case <-ctx.Done():
		return false, httpd.Busy("The server is busy with other searches")
	}
	r, w := io.Pipe()
	var writer sync.WaitGroup
	writer.Go(func() { w.CloseWithError(c.srv.deps.Coordinator.Results(ctx, j.ID, f, w)) })
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for err == nil && lines.Scan() {
		err = visit(lines.Bytes())
	}
	cancel()
	err = errors.Join(err, lines.Err(), r.CloseWithError(errLimitReached))
	writer.Wait()
	if errors.Is(err, errLimitReached) || errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil, err
}

// accountTurns lets one search of each account run, so that no account takes all slots.
type accountTurns struct {
	mu      sync.Mutex
	running map[string]chan struct{} // by account, closed when its search ends; guarded by mu
}

// begin waits until no search of the account runs, at most until ctx ends; the caller calls done afterwards.
func (a *accountTurns) begin(ctx context.Context, account string) (done func(), err error) {
	for {
		a.mu.Lock()
		other := a.running[account]
		if other == nil {
			if a.running == nil {
				a.running = make(map[string]chan struct{})
			}
			mine := make(chan struct{})
			a.running[account] = mine
			a.mu.Unlock()
			return func() {
				a.mu.Lock()
				defer a.mu.Unlock()
				delete(a.running, account)
				close(mine)
			}, nil
		}
		a.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// matchLine keeps a row that matches.
func (s *rowSearch) matchLine(b []byte) error {
	if s.last = rowNumber(b); s.last <= s.after || (len(s.term) > 0 && !bytes.Contains(bytes.ToLower(b), s.term)) {
		return nil
	}
	var row struct {
		Email string `json:"email"`
	}
	if err := json.Unmarshal(b, &row); err != nil {
		return err
	}
	if row.Email == "" || !strings.Contains(strings.ToLower(row.Email), string(s.term)) {
		return nil
	}
	s.found = append(s.found, append(json.RawMessage(nil), b...))
	if len(s.found) >= s.limit {
		return errLimitReached
	}
	return nil
}

// rowNumber is the number that each line begins with.
func rowNumber(b []byte) (n int64) {
	digits, _ := bytes.CutPrefix(b, []byte(`{"row":`))
	for _, c := range digits {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

// providerTable counts the rows of a job by provider and status.
type providerTable map[string]map[string]int64

// countProviders serves the row counts of a finished job by provider and status. Of a very long job it counts as many rows
// as it can in searchTimeout, and the answer says so.
func countProviders(c *call) error {
	j, err := job(c)
	if err != nil {
		return err
	}
	f := results.Filter{Form: results.Form{Format: results.JSONL, Compress: results.None}}
	if err := checkResultsReady(j, f); err != nil {
		return err
	}
	if t, ok := c.srv.dashboard.providerTables.Get(j.ID); ok {
		return c.SendJSON(httpd.StatusOK, map[string]any{"providers": t, "complete": true})
	}
	t := providerTable{}
	whole, err := scanResults(c, j, f, t.countLine)
	if err != nil {
		return err
	}
	if whole {
		c.srv.dashboard.providerTables.Add(j.ID, t)
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"providers": t, "complete": whole})
}

// countLine counts a row.
func (t providerTable) countLine(b []byte) error {
	status, provider := textAfter(b, `,"status":"`), textAfter(b, `,"smtp_provider":"`)
	if status == "" {
		return nil
	}
	if t[provider] == nil {
		t[provider] = make(map[string]int64, 4)
	}
	t[provider][status]++
	return nil
}

// textAfter is the raw string value after a key that we write: names of statuses and providers have no character that
// JSON escapes. An address before it cannot be mistaken for the key, because its quotes are escaped.
func textAfter(b []byte, key string) string {
	_, rest, ok := bytes.Cut(b, []byte(key))
	if !ok {
		return ""
	}
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}

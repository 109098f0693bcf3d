package logs

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"probity/api/httpd"
	"probity/api/reasons"
	"probity/api/record"
	"probity/engine"
	"probity/store"
	"probity/store/history"
)

const (
	defaultPage = 20
	maxPage     = 100
)

// Account is the account whose rows are served.
type Account struct {
	ID      string
	History *history.History
	Keys    func(account string) ([]store.APIKey, error)
}

// verification is a row as it is served.
type verification struct {
	At        record.Time `json:"at"`
	Request   string      `json:"request_id"`
	Email     string      `json:"email"`
	Status    string      `json:"status"`
	Score     uint8       `json:"score"`
	Reason    *string     `json:"reason"`
	FromCache bool        `json:"from_cache"`
	Credits   int64       `json:"credits_used"`
	Test      bool        `json:"test"`
	Receipt   bool        `json:"receipt"`
	keyOf
}

// keyOf is the key of a row; null for the dashboard. The name is null too once the key is revoked.
type keyOf struct {
	ID   *string `json:"key_id"`
	Name *string `json:"key_name"`
}

// request is a row as it is served.
type request struct {
	At     record.Time `json:"at"`
	ID     string      `json:"request_id"`
	Method string      `json:"method"`
	Route  string      `json:"route"`
	Status int         `json:"status_code"`
	Took   int64       `json:"duration_ms"`
	Detail *string     `json:"detail"`
	keyOf
}

// SendVerifications serves a page of verifications, the newest first.
func SendVerifications(c *httpd.Call, a Account) error {
	q, err := readQuery(c)
	if err != nil {
		return err
	}
	wanted, err := readFilter(c)
	if err != nil {
		return err
	}
	found, next, err := a.History.Verifications(a.ID, q, wanted)
	if err != nil {
		return err
	}
	name, err := a.keyNames()
	if err != nil {
		return err
	}
	rows := make([]verification, len(found))
	for i := range found {
		v := &found[i]
		rows[i] = verification{At: record.Time(v.At), Request: v.Request, Email: v.Email,
			Status: v.Verdict.Status.String(),
			Score:  v.Verdict.Score, Reason: record.TextOrNil(v.Verdict.Reason.String()),
			FromCache: v.Verdict.FromCache,
			Credits:   v.Credits, Test: v.Test, Receipt: v.Proof && !v.Test, keyOf: name(v.Key)}
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"verifications": rows, "next_cursor": cursorOf(next)})
}

// SendRequests serves a page of requests, the newest first.
func SendRequests(c *httpd.Call, a Account) error {
	q, err := readQuery(c)
	if err != nil {
		return err
	}
	onlyErrors, err := c.QueryFlag("errors")
	if err != nil {
		return err
	}
	id, route := c.QueryText("request_id"), c.QueryText("route")
	found, next, err := a.History.Requests(a.ID, q, func(r *history.Request) bool {
		failed := r.Status >= httpd.FirstError
		return (failed || !onlyErrors) && (id == "" || r.ID == id) && (route == "" || r.Route == route)
	})
	if err != nil {
		return err
	}
	name, err := a.keyNames()
	if err != nil {
		return err
	}
	rows := make([]request, len(found))
	for i := range found {
		r := &found[i]
		rows[i] = request{At: record.Time(r.At), ID: r.ID, Method: r.Method, Route: r.Route, Status: r.Status,
			Took: r.Took.Milliseconds(), Detail: record.TextOrNil(r.Detail), keyOf: name(r.Key)}
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"requests": rows, "next_cursor": cursorOf(next)})
}

// keyNames returns what rows say about the key with an id.
func (a *Account) keyNames() (func(id string) keyOf, error) {
	keys, err := a.Keys(a.ID)
	if err != nil {
		return nil, err
	}
	return func(id string) keyOf {
		of := keyOf{ID: record.TextOrNil(id)}
		i := slices.IndexFunc(keys, func(k store.APIKey) bool { return k.ID == id })
		if i >= 0 {
			of.Name = &keys[i].Name
		}
		return of
	}, nil
}

// cursorOf is the start of the next page; nil if there is none.
func cursorOf(next uint64) *string {
	if next == 0 {
		return nil
	}
	s := strconv.FormatUint(next, 10)
	return &s
}

// readQuery reads which page is asked for.
func readQuery(c *httpd.Call) (q history.Query, err error) {
	limit, err := c.QueryNumber("limit", defaultPage, 1, maxPage)
	if err != nil {
		return q, err
	}
	q.Limit = int(limit)
	if cursor := c.QueryText("cursor"); cursor != "" {
		q.Before, err = strconv.ParseUint(cursor, 10, 63)
		if err != nil || q.Before == 0 {
			return q, httpd.Refuse(httpd.Unacceptable, "cursor must be the next_cursor of the page before.")
		}
	}
	if q.From, err = readTime(c, "from"); err != nil {
		return q, err
	}
	q.To, err = readTime(c, "to")
	return q, err
}

func readTime(c *httpd.Call, name string) (time.Time, error) {
	s := c.QueryText(name)
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return t, httpd.Refuse(httpd.Unacceptable, "%s must be a time such as 2026-03-01T12:00:00Z.", name)
	}
	return t, nil
}

// readFilter reads which verifications are wanted.
func readFilter(c *httpd.Call) (func(*history.Verification) bool, error) {
	selected, err := reasons.Select(listOf(c.QueryText("status")), listOf(c.QueryText("reason")))
	if err != nil {
		return nil, httpd.Refuse(httpd.Unacceptable, "%s; separate several by commas.", err)
	}
	var wanted [engine.Reasons]bool
	for _, r := range selected {
		wanted[r] = true
	}
	text, id := strings.ToLower(c.QueryText("q")), c.QueryText("request_id")
	return func(v *history.Verification) bool {
		return wanted[v.Verdict.Reason] && (id == "" || v.Request == id) &&
			strings.Contains(strings.ToLower(v.Email), text)
	}, nil
}

func listOf(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

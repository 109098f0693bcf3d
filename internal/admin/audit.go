package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"probity/api/record"
	"probity/internal/console"
	"probity/store"
)

// auditCmd reads the audit log.
type auditCmd struct {
	listFlags
	Limit  int    `help:"How many, from the newest." default:"50"`
	By     string `help:"Only what was done by those whose name or address has these letters."`
	Action string `help:"Only this action, in the words of the log: 'key create'. Without it, all but downloads."`
}

// Validate is called by the parser. It refuses unknown actions: an empty table would say that the action was never
// done.
func (c *auditCmd) Validate() error {
	if c.Limit < 1 {
		return errors.New("--limit: give how many entries to show, 1 or more")
	}
	if c.Action != "" && !slices.Contains(store.AuditActions(), c.Action) {
		return fmt.Errorf("--action %q: the log has no such action; give one of %s", c.Action,
			strings.Join(store.AuditActions(), ", "))
	}
	return nil
}

// reportNoEvents says that no event was found, and with which filter.
func (c *auditCmd) reportNoEvents(con *console.IO) {
	words := ""
	if c.Action != "" {
		words += fmt.Sprintf(" --action %q", c.Action)
	}
	if c.By != "" {
		words += fmt.Sprintf(" --by %q", c.By)
	}
	if words == "" {
		fmt.Fprintln(con.Err, "the audit log has no entry yet; look for downloads with --action download")
		return
	}
	fmt.Fprintf(con.Err, "no entry of the audit log matches%s; leave that out to see all, and look for downloads with --action download\n", words)
}

// auditPageSize is how many events one request asks for.
const auditPageSize = 100

// Run prints the events, newest first.
func (c *auditCmd) Run(ctx context.Context, con *console.IO) error {
	return c.withClient(con, func(o client) error {
		var events []record.AuditEvent
		cursor := ""
		for len(events) < c.Limit {
			var page struct {
				Acts []record.AuditEvent
				Next string `json:"next_cursor"`
			}
			limit := strconv.Itoa(min(auditPageSize, c.Limit-len(events)))
			if err := o.call(ctx, http.MethodGet, withQuery("audit", "limit", limit, "cursor", cursor, "by", c.By,
				"action", c.Action), nil, &page); err != nil {
				return err
			}
			events = append(events, page.Acts...)
			cursor = page.Next
			if cursor == "" {
				break
			}
		}
		if len(events) == 0 {
			c.reportNoEvents(con)
		}
		return console.PrintRows(con, c.JSON, "WHEN\tWHO\tFROM\tACT\tTARGET\tABOUT\tNOTE", events,
			func(a record.AuditEvent) []string {
				return []string{console.FormatTime(time.Time(a.At)), a.By, a.From, a.Action, a.Target, a.About, a.Note}
			})
	})
}

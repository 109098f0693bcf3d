package api

import (
	"strings"

	"probity/api/httpd"
	"probity/api/record"
	"probity/store"
)

// maxAuditRead bounds how many events one request reads: if too few of them match, the page is short and its
// next_cursor says where to go on.
const maxAuditRead, auditReadSize = 20_000, 200

// listAuditEvents serves a page of the audit log, newest first.
func listAuditEvents(c *call) error {
	limit, err := c.QueryNumber("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	by, action := strings.ToLower(c.QueryText("by")), c.QueryText("action")
	events, next, err := c.srv.auditEvents(c.QueryText("cursor"), int(limit), func(a record.AuditEvent) bool {
		return actionMatches(a.Action, action) && strings.Contains(strings.ToLower(a.By), by)
	})
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"acts": events, "next_cursor": record.TextOrNil(next)})
}

// actionMatches reports whether a listing shows an action: the requested one, or by default any except downloads, which
// are too many.
func actionMatches(action, asked string) bool {
	return action == asked || asked == "" && action != store.ActionDownload
}

// auditEvents reads the log from the cursor until limit events match, and returns the next cursor; "" at its end.
func (s *Server) auditEvents(cursor string, limit int,
	wanted func(record.AuditEvent) bool) ([]record.AuditEvent, string, error) {
	events := []record.AuditEvent{}
	email := s.emailLookup()
	for read := 0; read < maxAuditRead; read += auditReadSize {
		found, err := s.deps.Store.AuditEvents(cursor, auditReadSize)
		if err != nil {
			return nil, "", err
		}
		for _, a := range found {
			cursor = a.Cursor
			by := a.By
			if name := email(by); name != "" {
				by = name
			}
			shown := record.AuditEvent{At: record.Time(a.At), By: by, From: a.From, Action: a.Action, Target: a.Target,
				About: email(auditSubject(a)), Note: a.Note}
			if !wanted(shown) {
				continue
			}
			events = append(events, shown)
			if len(events) == limit {
				return events, cursor, nil
			}
		}
		if len(found) < auditReadSize {
			return events, "", nil
		}
	}
	return events, cursor, nil
}

// auditSubject is the account that an audit event is about. For a key and for a download, the note begins with it.
func auditSubject(a store.AuditEvent) string {
	if strings.HasPrefix(a.Action, "key ") || a.Action == store.ActionDownload {
		owner, _, _ := strings.Cut(a.Note, " ")
		return owner
	}
	return a.Target
}

// emailLookup finds the e-mail addresses of accounts, each looked up once; "" if there is no such account.
func (s *Server) emailLookup() func(account string) string {
	known := map[string]string{}
	return func(account string) string {
		email, asked := known[account]
		if !asked {
			if u, err := s.deps.Store.User(account); err == nil {
				email = u.Email
			}
			known[account] = email
		}
		return email
	}
}

// auditSignIn records that an admin signed in. Sign-ins of customers are not recorded.
func auditSignIn(c *call, u store.User) error {
	if u.Role != store.Admin {
		return nil
	}
	c.identity.User = u
	return c.srv.deps.Store.Audit(store.AuditEvent{At: c.srv.now(), By: actor(c), Action: "sign in", Target: u.ID})
}

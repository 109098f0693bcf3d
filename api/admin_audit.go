package api

import (
	"errors"
	"strings"

	"probity/store"
)

// actJSON is a line of the audit log.
type actJSON struct {
	At     stamp  `json:"at"`
	By     string `json:"by"` // e-mail address of an account that there is, else as it was recorded
	From   string `json:"from"`
	Act    string `json:"act"`
	Target string `json:"target"`
	About  string `json:"about"` // e-mail address of the account that it was done to, or whose key it is
	Note   string `json:"note"`
}

// maxActsRead bounds what one request reads of the log: where so many acts hold too few of those that are asked for, its
// page is short and says where to go on.
const maxActsRead, actsAtOnce = 20_000, 200

// listActs serves a page of the audit log, newest first.
func (x *exchange) listActs() error {
	limit, err := x.queryNumber("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	by, act := strings.ToLower(x.query("by")), x.query("act")
	acts, next, err := x.srv.acts(x.query("cursor"), int(limit), func(a actJSON) bool {
		return WantedAct(a.Act, act) && strings.Contains(strings.ToLower(a.By), by)
	})
	if errors.Is(err, store.ErrBadCursor) {
		return refuse(unacceptable, "cursor is none of ours: send the next_cursor of the page before.")
	}
	if err != nil {
		return err
	}
	return x.sendAs(statusOK, map[string]any{"acts": acts, "next_cursor": textOrNil(next)})
}

// WantedAct tells whether a list of the log shows an act: the one that was asked for, or any but downloads, which would hide the rest.
func WantedAct(act, asked string) bool {
	return act == asked || asked == "" && act != store.ActDownload
}

// acts reads the log from below cursor until limit acts are wanted ones, and says where to go on; "" at its end.
func (s *Server) acts(cursor string, limit int, wanted func(actJSON) bool) ([]actJSON, string, error) {
	acts := []actJSON{}
	email := s.emails()
	for read := 0; read < maxActsRead; read += actsAtOnce {
		found, err := s.rooms.Store.Acts(cursor, actsAtOnce)
		if err != nil {
			return nil, "", err
		}
		for _, a := range found {
			cursor = a.Cursor
			by := a.By
			if name := email(by); name != "" {
				by = name
			}
			shown := actJSON{stamp(a.At), by, a.From, a.Act, a.Target, email(Subject(a)), a.Note}
			if !wanted(shown) {
				continue
			}
			if acts = append(acts, shown); len(acts) == limit {
				return acts, cursor, nil
			}
		}
		if len(found) < actsAtOnce {
			return acts, "", nil
		}
	}
	return acts, cursor, nil
}

// Subject is the account that an act was done to: that of a key, or of the job of a download, begins the note.
func Subject(a store.Act) string {
	if strings.HasPrefix(a.Act, "key ") || a.Act == store.ActDownload {
		owner, _, _ := strings.Cut(a.Note, " ")
		return owner
	}
	return a.Target
}

// emails names accounts by their e-mail addresses, each looked for once; "" where there is no such account.
func (s *Server) emails() func(account string) string {
	known := map[string]string{}
	return func(account string) string {
		email, asked := known[account]
		if !asked {
			if u, err := s.rooms.Store.User(account); err == nil {
				email = u.Email
			}
			known[account] = email
		}
		return email
	}
}

// auditSignIn records that an admin signed in. Customers come and go.
func (x *exchange) auditSignIn(u store.User) error {
	if u.Role != store.Admin {
		return nil
	}
	x.who.User = u
	return x.srv.rooms.Store.Audit(store.Act{At: x.srv.now(), By: x.by(), Act: "sign in", Target: u.ID})
}

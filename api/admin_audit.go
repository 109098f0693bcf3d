package api

import (
	"errors"

	"probity/store"
)

// actJSON is a line of the audit log.
type actJSON struct {
	At     stamp  `json:"at"`
	By     string `json:"by"` // e-mail address of an account that there is, else as it was recorded
	From   string `json:"from"`
	Act    string `json:"act"`
	Target string `json:"target"`
	Note   string `json:"note"`
}

// listActs serves a page of the audit log, newest first.
func (x *exchange) listActs() error {
	limit, err := x.queryNumber("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	found, err := x.srv.rooms.Store.Acts(x.query("cursor"), int(limit))
	if errors.Is(err, store.ErrBadCursor) {
		return refuse(unacceptable, "cursor is none of ours: send the next_cursor of the page before.")
	}
	if err != nil {
		return err
	}
	acts, next := []actJSON{}, ""
	for _, a := range found {
		acts = append(acts, actJSON{stamp(a.At), x.srv.actor(a.By), a.From, a.Act, a.Target, a.Note})
		next = a.Cursor
	}
	if len(found) < int(limit) {
		next = ""
	}
	return x.sendAs(statusOK, map[string]any{"acts": acts, "next_cursor": textOrNil(next)})
}

// actor names who acted: an account by its e-mail address.
func (s *Server) actor(by string) string {
	if u, err := s.rooms.Store.User(by); err == nil {
		return u.Email
	}
	return by
}

// auditSignIn records that an admin signed in. Customers come and go.
func (x *exchange) auditSignIn(u store.User) error {
	if u.Role != store.Admin {
		return nil
	}
	x.who.User = u
	return x.srv.rooms.Store.Audit(store.Act{At: x.srv.now(), By: x.by(), Act: "sign in", Target: u.ID})
}

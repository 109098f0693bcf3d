package api

import (
	"errors"
	"time"

	"probity/store"
)

// visitorJSON is who is signed in, and what the pages must know to work.
type visitorJSON struct {
	User    userJSON    `json:"user"`
	Limits  ownLimits   `json:"effective_limits"`
	Session string      `json:"session_id"`
	Expires stamp       `json:"expires_at"`
	CSRF    string      `json:"csrf_token"`
	Service serviceJSON `json:"service"`
}

// ownLimits are the limits that hold for the account, defaults included.
type ownLimits struct {
	Single int `json:"single_per_minute"`
	Bulk   int `json:"bulk_per_hour"`
}

// serviceJSON is what pages show of the service itself.
type serviceJSON struct {
	URL       string `json:"public_url"`
	Docs      bool   `json:"docs"`
	MaxUpload int64  `json:"max_upload_bytes"`
}

func (x *exchange) sendVisit(status int, u store.User, v visit) error {
	return x.sendAs(status, visitorJSON{User: showUser(u, ""), Limits: ownLimits{u.SinglePerMinute(), u.BulkPerHour()},
		Session: v.ID, Expires: stamp(v.Expires), CSRF: store.CSRFToken(v.token),
		Service: serviceJSON{x.srv.cfg.PublicURL, !x.srv.cfg.HideDocs, x.srv.cfg.MaxUpload}})
}

func (x *exchange) getVisit() error { return x.sendVisit(statusOK, x.who.User, *x.visit) }

// logIn takes e-mail address and password for a session. A page of another origin cannot send JSON here unasked; one of
// ours that was made to do so is refused all the same.
func (x *exchange) logIn() error {
	if err := x.refuseForeignPage(); err != nil {
		return err
	}
	d, err := x.document()
	if err != nil {
		return err
	}
	email, err := d.needText("email")
	if err != nil {
		return err
	}
	password, err := d.needText("password")
	if err != nil {
		return err
	}
	u, err := x.checkPassword(email, password)
	if err != nil {
		return err
	}
	token, session, err := x.srv.rooms.Store.CreateSession(u.ID, string(x.ctx.UserAgent()), sessionTime, x.srv.now())
	if err != nil {
		return refusalOfLogin(err, x.srv.now())
	}
	if err := x.auditSignIn(u); err != nil {
		return err
	}
	x.setCookie(token)
	return x.sendVisit(statusOK, u, visit{token, session})
}

func (x *exchange) checkPassword(email, password string) (store.User, error) {
	u, err := x.srv.rooms.Store.CheckPassword(x.srv.ending, email, password, x.srv.now())
	return u, refusalOfLogin(err, x.srv.now())
}

// refusalOfLogin is the answer to a login that failed.
func refusalOfLogin(err error, now time.Time) error {
	if e, ok := errors.AsType[*store.ErrLockedOut](err); ok {
		r := refuse(tooMany, "There were too many failed attempts for this account: wait, then try again.")
		r.retry, r.cause = max(time.Second, e.Until.Sub(now)), err
		return r
	}
	switch {
	case errors.Is(err, store.ErrBadCredentials):
		return refuse(unauthorized, "The e-mail address or the password is wrong: try again.")
	case errors.Is(err, store.ErrDisabled):
		return refuse(forbidden, "This account is disabled: ask whoever runs the service.")
	}
	return err
}

func (x *exchange) logOut() error {
	err := x.srv.rooms.Store.EndSession(x.who.User.ID, x.visit.ID)
	if err != nil && !errors.Is(err, store.ErrNoSession) {
		return err
	}
	x.setCookie("")
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

// sessionJSON is an open session of the account.
type sessionJSON struct {
	ID      string `json:"id"`
	Agent   string `json:"agent"`
	Created stamp  `json:"created_at"`
	Expires stamp  `json:"expires_at"`
	Current bool   `json:"current"`
}

func (x *exchange) listSessions() error {
	open, err := x.srv.rooms.Store.Sessions(x.who.User.ID, x.srv.now())
	if err != nil {
		return err
	}
	list := []sessionJSON{}
	for _, s := range open {
		list = append(list, sessionJSON{s.ID, s.Agent, stamp(s.Created), stamp(s.Expires), s.ID == x.visit.ID})
	}
	return x.sendAs(statusOK, map[string]any{"sessions": list})
}

func (x *exchange) endSession() error {
	err := x.srv.rooms.Store.EndSession(x.who.User.ID, x.param)
	if errors.Is(err, store.ErrNoSession) {
		return refuse(notFound, "There is no such session: it may have ended already.")
	}
	if err != nil {
		return err
	}
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

func (x *exchange) endOtherSessions() error {
	if err := x.srv.rooms.Store.EndSessions(x.who.User.ID, x.visit.ID); err != nil {
		return err
	}
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

// changePassword asks for the present password again, and ends all other sessions.
func (x *exchange) changePassword() error {
	d, err := x.document()
	if err != nil {
		return err
	}
	present, err := d.needText("current")
	if err != nil {
		return err
	}
	next, err := d.needText("password")
	if err != nil {
		return err
	}
	_, err = x.checkPassword(x.who.User.Email, present)
	if r, ok := errors.AsType[*refusal](err); ok && r.kind == unauthorized {
		return refuse(unacceptable, "current is not this account's password: try again.")
	}
	if err != nil {
		return err
	}
	if err := x.srv.rooms.Store.SetPassword(x.srv.ending, x.who.User.ID, store.NewPassword{Password: next, Keep: x.visit.ID, By: x.by()}, x.srv.now()); err != nil {
		return err
	}
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

package api

import (
	"context"
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
	Retained  int64  `json:"results_kept_seconds"`
}

func (x *exchange) sendVisit(status int, u store.User, v visit) error {
	return x.sendAs(status, visitorJSON{User: showUser(u, ""), Limits: ownLimits{u.SinglePerMinute(), u.BulkPerHour()},
		Session: v.ID, Expires: stamp(v.Expires), CSRF: store.CSRFToken(v.token),
		Service: serviceJSON{x.srv.cfg.PublicURL, !x.srv.cfg.HideDocs, x.srv.cfg.MaxUpload, int64(x.srv.rooms.Coordinator.Retained().Seconds())}})
}

func (x *exchange) getVisit() error { return x.sendVisit(statusOK, x.who.User, *x.visit) }

// logIn takes e-mail address and password, and a code where the account asks for one, for a session. A page of another origin cannot send JSON here unasked; one of
// ours that was made to do so is refused all the same.
func (x *exchange) logIn() error {
	if err := x.refuseForeignPage(); err != nil {
		return err
	}
	d, err := x.documentOf("email", "password", "code")
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
	code, _, err := d.text("code")
	if err != nil {
		return err
	}
	u, err := x.prove(x.srv.rooms.Store.LogIn, store.Login{Email: email, Password: password, Code: code})
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

// resetPassword gives an account a new password for the token of a reset link.
func (x *exchange) resetPassword() error {
	if err := x.refuseForeignPage(); err != nil {
		return err
	}
	d, err := x.documentOf("token", "password")
	if err != nil {
		return err
	}
	token, err := d.needText("token")
	if err != nil {
		return err
	}
	next, err := d.needText("password")
	if err != nil {
		return err
	}
	if d := x.srv.rooms.Store.AllowLogin(x.client(), x.srv.now()); !d.OK {
		return overLimit(d)
	}
	ctx, stop := x.whileConnected()
	defer stop()
	if err := x.srv.rooms.Store.ResetPassword(ctx, token, next, x.client().String(), x.srv.now()); err != nil {
		return err
	}
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

// prover shows the store that a request comes from the owner of an account.
type prover func(context.Context, store.Login, time.Time) (store.User, error)

// prove waits for its turn for as long as the client does. Every attempt counts in the window of the client's network.
func (x *exchange) prove(by prover, l store.Login) (store.User, error) {
	if d := x.srv.rooms.Store.AllowLogin(x.client(), x.srv.now()); !d.OK {
		return store.User{}, overLimit(d)
	}
	ctx, stop := x.whileConnected()
	defer stop()
	l.From = x.client()
	u, err := by(ctx, l, x.srv.now())
	return u, refusalOfLogin(err, x.srv.now())
}

// proveAgain is prove for the account of the session, which goes on if it fails.
func (x *exchange) proveAgain(by prover, l store.Login) error {
	l.Email = x.who.User.Email
	_, err := x.prove(by, l)
	switch {
	case errors.Is(err, store.ErrBadCredentials):
		return refuse(unacceptable, "This is not the account's password: try again.")
	case errors.Is(err, store.ErrBadCode), errors.Is(err, store.ErrCodeNeeded):
		return refuse(unacceptable, badCodeDetail)
	}
	return err
}

const badCodeDetail = "The code is wrong or was used before: wait for the next one of your app, or send a recovery code."

// refusalOfLogin is the answer to a login that failed.
func refusalOfLogin(err error, now time.Time) error {
	if e, ok := errors.AsType[*store.ErrLockedOut](err); ok {
		what := "address"
		if e.Codes {
			what = "account"
		}
		r := refuse(tooMany, "There were too many failed attempts for this %s: wait, then try again.", what)
		r.retry, r.cause = max(time.Second, e.Until.Sub(now)), err
		return r
	}
	switch {
	case errors.Is(err, store.ErrBadCredentials):
		return refusalFor(err, "", "The e-mail address or the password is wrong: try again.")
	case errors.Is(err, store.ErrCodeNeeded):
		return refusalFor(err, codeChallenge, "This account asks for a code: send code as well, from your authenticator app, or a recovery code.")
	case errors.Is(err, store.ErrBadCode):
		return refusalFor(err, codeChallenge, badCodeDetail)
	case errors.Is(err, store.ErrDisabled):
		return refuse(forbidden, "This account is disabled: ask the operator of the service.")
	}
	return err
}

// codeChallenge is what WWW-Authenticate says when the password was right and a code is missing or wrong.
const codeChallenge = "TOTP"

// refusalFor is a 401 that still knows its cause.
func refusalFor(cause error, challenge, detail string) error {
	r := refuse(unauthorized, "%s", detail)
	r.challenge, r.cause = challenge, cause
	return r
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
	d, err := x.documentOf("current", "password")
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
	if err := x.proveAgain(x.srv.rooms.Store.CheckPassword, store.Login{Password: present}); err != nil {
		return err
	}
	if err := x.srv.rooms.Store.SetPassword(x.srv.ending, x.who.User.ID, store.NewPassword{Password: next, Keep: x.visit.ID, By: x.by()}, x.srv.now()); err != nil {
		return err
	}
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

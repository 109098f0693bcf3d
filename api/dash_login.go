package api

import (
	"context"
	"errors"
	"time"

	"probity/api/httpd"
	"probity/api/record"
	"probity/internal/shownname"
	"probity/store"
)

// currentSessionJSON is the signed-in user and what the pages need.
type currentSessionJSON struct {
	User    record.User     `json:"user"`
	Limits  effectiveLimits `json:"effective_limits"`
	Session string          `json:"session_id"`
	Expires record.Time     `json:"expires_at"`
	CSRF    string          `json:"csrf_token"`
	Service serviceJSON     `json:"service"`
}

// effectiveLimits are the limits of the account, defaults included.
type effectiveLimits struct {
	Single int `json:"single_per_minute"`
	Batch  int `json:"batch_per_minute"`
	Bulk   int `json:"bulk_per_hour"`
}

// serviceJSON is what pages show about the service itself.
type serviceJSON struct {
	URL       string `json:"public_url"`
	Docs      bool   `json:"docs"`
	MaxUpload int64  `json:"max_upload_bytes"`
	Retained  int64  `json:"results_kept_seconds"`
}

func sendSession(c *call, status int, u store.User, v loginSession) error {
	return c.SendJSON(status, currentSessionJSON{User: showUser(u, ""),
		Limits:  effectiveLimits{u.SinglePerMinute(), u.BatchPerMinute(), u.BulkPerHour()},
		Session: v.ID, Expires: record.Time(v.Expires), CSRF: store.CSRFToken(v.token),
		Service: serviceJSON{c.srv.cfg.PublicURL, !c.srv.cfg.HideDocs, c.srv.cfg.MaxUpload,
			int64(c.srv.deps.Coordinator.ResultRetention().Seconds())}})
}

func getSession(c *call) error { return sendSession(c, httpd.StatusOK, c.identity.User, *c.session) }

// logIn starts a session for an e-mail address and a password, and a code if the account needs one. A page of another
// origin is refused, although it could not send JSON here without permission.
func logIn(c *call) error {
	if err := requireSameOrigin(c); err != nil {
		return err
	}
	d := c.Document()
	email, err := d.RequiredText("email")
	if err != nil {
		return err
	}
	password, err := d.RequiredText("password")
	if err != nil {
		return err
	}
	code, _, err := d.Text("code")
	if err != nil {
		return err
	}
	u, err := checkCredentials(c, c.srv.deps.Store.LogIn, store.Login{Email: email, Password: password, Code: code})
	if err != nil {
		return err
	}
	agent := shownname.Clean(string(c.Ctx.UserAgent()), store.MaxAgent) // the page of sessions shows it
	token, session, err := c.srv.deps.Store.CreateSession(u.ID, agent, sessionTime, c.srv.now())
	if err != nil {
		return refusalOfLogin(err, c.srv.now())
	}
	if err := auditSignIn(c, u); err != nil {
		return err
	}
	setCookie(c, token)
	return sendSession(c, httpd.StatusOK, u, loginSession{token, session})
}

// resetPassword sets a new password with the token of a reset link.
func resetPassword(c *call) error {
	if err := requireSameOrigin(c); err != nil {
		return err
	}
	d := c.Document()
	token, err := d.RequiredText("token")
	if err != nil {
		return err
	}
	next, err := d.RequiredText("password")
	if err != nil {
		return err
	}
	if d := c.srv.deps.Store.AllowLogin(c.ClientIP(), c.srv.now()); !d.OK {
		return overLimit(d, "sign-in")
	}
	ctx, stop := c.ClientContext()
	defer stop()
	if err := c.srv.deps.Store.ResetPassword(ctx, token, next, c.ClientIP().String(), c.srv.now()); err != nil {
		return err
	}
	c.Ctx.Response.SetStatusCode(httpd.StatusNoContent)
	return nil
}

// credentialCheck is a check of the store that a login is that of the account's owner.
type credentialCheck func(context.Context, store.Login, time.Time) (store.User, error)

// checkCredentials waits for its turn as long as the client does. Every attempt counts in the window of the client's
// network.
func checkCredentials(c *call, by credentialCheck, l store.Login) (store.User, error) {
	if d := c.srv.deps.Store.AllowLogin(c.ClientIP(), c.srv.now()); !d.OK {
		return store.User{}, overLimit(d, "sign-in")
	}
	ctx, stop := c.ClientContext()
	defer stop()
	l.From = c.ClientIP()
	u, err := by(ctx, l, c.srv.now())
	return u, refusalOfLogin(err, c.srv.now())
}

// recheckCredentials is checkCredentials for the account of the session. A failure does not end the session.
func recheckCredentials(c *call, by credentialCheck, l store.Login) error {
	l.Email = c.identity.User.Email
	_, err := checkCredentials(c, by, l)
	switch {
	case errors.Is(err, store.ErrBadCredentials):
		return httpd.Refuse(httpd.Unacceptable, "The current password is wrong: try again.")
	case errors.Is(err, store.ErrBadCode), errors.Is(err, store.ErrCodeNeeded):
		return httpd.Refuse(httpd.Unacceptable, badCodeDetail)
	}
	return err
}

const badCodeDetail = "The code is wrong or was used before: wait for the next one of your app, or send a recovery code."

// refusalOfLogin is the answer to a failed login.
func refusalOfLogin(err error, now time.Time) error {
	if e, ok := errors.AsType[*store.ErrLockedOut](err); ok {
		what := "address"
		if e.Codes {
			what = "account"
		}
		r := httpd.Refuse(httpd.TooMany, "Too many failed sign-ins for this %s: wait, then try again.", what)
		r.Retry, r.Cause = max(time.Second, e.Until.Sub(now)), err
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
		return httpd.Refuse(httpd.Forbidden, "This account is disabled: ask the operator of the service.")
	}
	return err
}

// codeChallenge is the WWW-Authenticate scheme if the password was right and a code is missing or wrong.
const codeChallenge = "TOTP"

// refusalFor is a 401 that keeps its cause.
func refusalFor(cause error, challenge, detail string) error {
	r := httpd.Refuse(httpd.Unauthorized, "%s", detail)
	r.Challenge, r.Cause = challenge, cause
	return r
}

func logOut(c *call) error {
	err := c.srv.deps.Store.EndSession(c.identity.User.ID, c.session.ID)
	if err != nil && !errors.Is(err, store.ErrNoSession) {
		return err
	}
	setCookie(c, "")
	c.Ctx.Response.SetStatusCode(httpd.StatusNoContent)
	return nil
}

// sessionJSON is an open session of the account.
type sessionJSON struct {
	ID      string      `json:"id"`
	Agent   string      `json:"agent"`
	Created record.Time `json:"created_at"`
	Expires record.Time `json:"expires_at"`
	Current bool        `json:"current"`
}

func listSessions(c *call) error {
	open, err := c.srv.deps.Store.Sessions(c.identity.User.ID, c.srv.now())
	if err != nil {
		return err
	}
	list := []sessionJSON{}
	for _, s := range open {
		list = append(list, sessionJSON{s.ID, s.Agent, record.Time(s.Created), record.Time(s.Expires),
			s.ID == c.session.ID})
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"sessions": list})
}

func endSession(c *call) error {
	err := c.srv.deps.Store.EndSession(c.identity.User.ID, c.Param)
	if errors.Is(err, store.ErrNoSession) {
		return httpd.Refuse(httpd.NotFound, "There is no such session: it may have ended already.")
	}
	if err != nil {
		return err
	}
	c.Ctx.Response.SetStatusCode(httpd.StatusNoContent)
	return nil
}

func endOtherSessions(c *call) error {
	if err := c.srv.deps.Store.EndSessions(c.identity.User.ID, c.session.ID); err != nil {
		return err
	}
	c.Ctx.Response.SetStatusCode(httpd.StatusNoContent)
	return nil
}

// changePassword checks the current password again, and ends all other sessions.
func changePassword(c *call) error {
	d := c.Document()
	current, err := d.RequiredText("current")
	if err != nil {
		return err
	}
	next, err := d.RequiredText("password")
	if err != nil {
		return err
	}
	if err := recheckCredentials(c, c.srv.deps.Store.CheckPassword, store.Login{Password: current}); err != nil {
		return err
	}
	if err := c.srv.deps.Store.SetPassword(c.srv.http.StopContext(), c.identity.User.ID,
		store.NewPassword{Password: next, Keep: c.session.ID, By: actor(c)}, c.srv.now()); err != nil {
		return err
	}
	c.Ctx.Response.SetStatusCode(httpd.StatusNoContent)
	return nil
}

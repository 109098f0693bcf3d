package api

import (
	"errors"
	"net/url"

	"probity/api/httpd"
	"probity/store"
)

// totpIssuer is the service's name in an authenticator app.
const totpIssuer = "Probity"

// getTOTP reports whether the account needs codes, and how many recovery codes it has left.
func getTOTP(c *call) error {
	left, err := c.srv.deps.Store.RecoveryLeft(c.identity.User.ID)
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"on": c.identity.User.TOTP, "recovery_codes_left": left})
}

// newTOTP makes a secret for the account's authenticator app. It requires the password: a session that was left open
// must not be enough to lock its owner out.
func newTOTP(c *call) error {
	d := c.Document()
	password, err := d.RequiredText("password")
	if err != nil {
		return err
	}
	if err := recheckCredentials(c, c.srv.deps.Store.CheckPassword, store.Login{Password: password}); err != nil {
		return err
	}
	secret, err := c.srv.deps.Store.NewTOTP(c.identity.User.ID)
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusCreated, map[string]any{"secret": secret,
		"url": totpURL(c.identity.User.Email, secret)})
}

// totpURL is the secret as a URL for authenticator apps, the key URI of Google Authenticator.
func totpURL(email, secret string) string {
	return (&url.URL{Scheme: "otpauth", Host: "totp", Path: "/" + totpIssuer + ":" + email,
		RawQuery: url.Values{"secret": {secret}, "issuer": {totpIssuer}}.Encode()}).String()
}

// switchTOTPOn checks the first code of the app, returns the recovery codes, and ends all other sessions.
func switchTOTPOn(c *call) error {
	d := c.Document()
	code, err := d.RequiredText("code")
	if err != nil {
		return err
	}
	recovery, err := c.srv.deps.Store.TOTPOn(c.identity.User.ID, code, c.session.ID, actor(c), c.srv.now())
	if errors.Is(err, store.ErrBadCode) {
		return httpd.Refuse(httpd.Unacceptable, "code is not one of this secret: look at the clocks of the app and of the server, and send the code that the app shows now.")
	}
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"recovery_codes": recovery})
}

// switchTOTPOff checks password and code again, and ends all other sessions.
func switchTOTPOff(c *call) error {
	d := c.Document()
	password, err := d.RequiredText("password")
	if err != nil {
		return err
	}
	code, err := d.RequiredText("code")
	if err != nil {
		return err
	}
	if err := recheckCredentials(c, c.srv.deps.Store.LogIn, store.Login{Password: password, Code: code}); err != nil {
		return err
	}
	if err := c.srv.deps.Store.TOTPOff(c.identity.User.ID, c.session.ID, actor(c), c.srv.now()); err != nil {
		return err
	}
	c.Ctx.Response.SetStatusCode(httpd.StatusNoContent)
	return nil
}

// switchTOTPOffFor switches TOTP off for an account that has lost its app and recovery codes. For admins.
func switchTOTPOffFor(c *call) error {
	return changeUser(c, func(id string) error { return c.srv.deps.Store.TOTPOff(id, "", actor(c), c.srv.now()) })
}

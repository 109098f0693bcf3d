package api

import (
	"errors"
	"net/url"

	"probity/store"
)

// totpIssuer is how an authenticator app names the service.
const totpIssuer = "Probity"

// getTOTP tells whether the account asks for codes, and how many recovery codes it has left.
func (x *exchange) getTOTP() error {
	left, err := x.srv.rooms.Store.RecoveryLeft(x.who.User.ID)
	if err != nil {
		return err
	}
	return x.sendAs(statusOK, map[string]any{"on": x.who.User.TOTP, "recovery_codes_left": left})
}

// newTOTP makes a secret for the account's authenticator app. It asks for the password: a session that was left open must not lock
// its owner out.
func (x *exchange) newTOTP() error {
	d, err := x.documentOf("password")
	if err != nil {
		return err
	}
	password, err := d.needText("password")
	if err != nil {
		return err
	}
	if err := x.proveAgain(x.srv.rooms.Store.CheckPassword, store.Login{Password: password}); err != nil {
		return err
	}
	secret, err := x.srv.rooms.Store.NewTOTP(x.who.User.ID)
	if err != nil {
		return err
	}
	return x.sendAs(statusCreated, map[string]any{"secret": secret, "url": totpURL(x.who.User.Email, secret)})
}

// totpURL is the secret in the form in which apps take it over, the key URI of Google Authenticator.
func totpURL(email, secret string) string {
	return (&url.URL{Scheme: "otpauth", Host: "totp", Path: "/" + totpIssuer + ":" + email,
		RawQuery: url.Values{"secret": {secret}, "issuer": {totpIssuer}}.Encode()}).String()
}

// switchTOTPOn takes the first code of the app, gives the recovery codes, and ends all other sessions.
func (x *exchange) switchTOTPOn() error {
	d, err := x.documentOf("code")
	if err != nil {
		return err
	}
	code, err := d.needText("code")
	if err != nil {
		return err
	}
	recovery, err := x.srv.rooms.Store.TOTPOn(x.who.User.ID, code, x.visit.ID, x.by(), x.srv.now())
	if errors.Is(err, store.ErrBadCode) {
		return refuse(unacceptable, "code is not one of this secret: look at the clocks of the app and of the server, and send the code that the app shows now.")
	}
	if err != nil {
		return err
	}
	return x.sendAs(statusOK, map[string]any{"recovery_codes": recovery})
}

// switchTOTPOff asks for password and code again, and ends all other sessions.
func (x *exchange) switchTOTPOff() error {
	d, err := x.documentOf("password", "code")
	if err != nil {
		return err
	}
	password, err := d.needText("password")
	if err != nil {
		return err
	}
	code, err := d.needText("code")
	if err != nil {
		return err
	}
	if err := x.proveAgain(x.srv.rooms.Store.LogIn, store.Login{Password: password, Code: code}); err != nil {
		return err
	}
	if err := x.srv.rooms.Store.TOTPOff(x.who.User.ID, x.visit.ID, x.by(), x.srv.now()); err != nil {
		return err
	}
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

// switchTOTPOffFor is an admin's way out for an account that has lost app and recovery codes.
func (x *exchange) switchTOTPOffFor() error {
	return x.changeUser(func(id string) error { return x.srv.rooms.Store.TOTPOff(id, "", x.by(), x.srv.now()) })
}

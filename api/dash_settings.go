package api

import (
	"strings"

	"probity/coordinator"
	"probity/store"
)

// getSigning tells whether the account's callbacks are signed. The secret itself is shown once, when it is made.
func (x *exchange) getSigning() error {
	secret, err := x.srv.rooms.Store.CallbackSecret(x.who.User.ID)
	if err != nil {
		return err
	}
	last4 := ""
	if secret != "" {
		last4 = secret[len(secret)-4:]
	}
	origins := x.srv.cfg.CallbackFrom
	if origins == nil {
		origins = []string{}
	}
	return x.sendAs(statusOK, map[string]any{"signed": secret != "", "last4": textOrNil(last4), "origins": origins})
}

func (x *exchange) newSigningSecret() error {
	secret, err := x.srv.rooms.Store.NewCallbackSecret(x.who.User.ID, x.by(), x.srv.now())
	if err != nil {
		return err
	}
	return x.sendAs(statusCreated, map[string]any{"secret": secret})
}

func (x *exchange) dropSigningSecret() error {
	if err := x.srv.rooms.Store.SetCallbackSecret(x.who.User.ID, "", x.by(), x.srv.now()); err != nil {
		return err
	}
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

// testList is what a test delivery verifies: one row of each outcome, none of which is asked anywhere.
const testList = "email\nvalid@example.com\ncatch_all@example.com\nmailbox_not_found@example.com\ngreylisted@example.com\n"

// testCallback sends a callback of a job that is like any other, but that probes nothing and costs nothing. It counts as an upload
// and needs room on the disk like one: each makes a job that is kept as long.
func (x *exchange) testCallback() error {
	if err := x.srv.roomOnDisk(); err != nil {
		return err
	}
	d, err := x.documentOf("url")
	if err != nil {
		return err
	}
	url, err := d.needText("url")
	if err != nil {
		return err
	}
	if x.srv.rooms.Callbacks == nil {
		return refuse(unacceptable, "url cannot be used here: this server sends no callbacks.")
	}
	if err := x.srv.rooms.Callbacks.CheckCallbackURL(x.srv.ending, url); err != nil {
		return err
	}
	j, err := x.srv.rooms.Coordinator.Accept(x.srv.ending, coordinator.Upload{Body: strings.NewReader(testList), Options: coordinator.Options{
		Account: x.who.User.ID, Name: "Callback test", Filename: "callback-test.csv", Test: true, CallbackURL: url,
		CallbackContent: coordinator.ContentFull, MaxHours: 1,
		Parts: func(j *store.Job) []store.Part {
			return []store.Part{store.ReserveJob(j.Account, j.ID, costOf(j), j.CreatedAt)}
		}}})
	if err != nil {
		return err
	}
	r, err := x.srv.lookUp(j.ID)
	if err != nil {
		return err
	}
	return x.sendAs(statusAccepted, r)
}

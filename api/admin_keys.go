package api

import "probity/store"

// keyJSON is an API key as admins see it; the secret is there once, when it is made.
type keyJSON struct {
	ID       string `json:"id"`
	User     string `json:"user"`
	Name     string `json:"name"`
	Test     bool   `json:"test"`
	Last4    string `json:"last4"`
	Created  stamp  `json:"created_at"`
	LastUsed *stamp `json:"last_used_at"`
	Secret   string `json:"key,omitempty"`
}

func (x *exchange) showKey(k store.APIKey, secret string) keyJSON {
	owner := k.Account
	if u, err := x.srv.rooms.Store.User(k.Account); err == nil {
		owner = u.Email
	}
	return keyJSON{k.ID, owner, k.Name, k.Test, k.Last4, stamp(k.Created), stampOf(k.LastUsed), secret}
}

func (x *exchange) listKeys() error {
	account := ""
	if name := x.query("user"); name != "" {
		u, err := x.user(name)
		if err != nil {
			return err
		}
		account = u.ID
	}
	found, err := x.srv.rooms.Store.Keys(account)
	if err != nil {
		return err
	}
	keys := []keyJSON{}
	for _, k := range found {
		keys = append(keys, x.showKey(k, ""))
	}
	return x.sendAs(statusOK, map[string]any{"keys": keys})
}

func (x *exchange) createKey() error {
	d, err := x.document()
	if err != nil {
		return err
	}
	name, err := d.needText("name")
	if err != nil {
		return err
	}
	test, err := d.flag("test", false)
	if err != nil {
		return err
	}
	u, err := x.userOf(d)
	if err != nil {
		return err
	}
	secret, k, err := x.srv.rooms.Store.CreateKey(u.ID, name, test, x.by(), x.srv.now())
	if err != nil {
		return err
	}
	return x.sendAs(statusCreated, x.showKey(k, secret))
}

// userOf is the account that the body's member user names.
func (x *exchange) userOf(d *document) (store.User, error) {
	name, err := d.needText("user")
	if err != nil {
		return store.User{}, err
	}
	return x.user(name)
}

func (x *exchange) revokeKey() error {
	if err := x.srv.rooms.Store.RevokeKey("", x.param, x.by(), x.srv.now()); err != nil {
		return err
	}
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

package api

import (
	"net/netip"
	"time"

	"probity/store"
)

// keyJSON is an API key as admins see it; the secret is there once, when it is made.
type keyJSON struct {
	ID       string `json:"id"`
	User     string `json:"user"`
	Name     string `json:"name"`
	Test     bool   `json:"test"`
	Last4    string `json:"last4"`
	Created  stamp  `json:"created_at"`
	LastUsed *stamp `json:"last_used_at"`

	Scopes   store.Scopes   `json:"scopes"`
	Expires  *stamp         `json:"expires_at"`
	Networks []netip.Prefix `json:"networks"`

	Secret string `json:"key,omitempty"`
}

func (x *exchange) showKey(k store.APIKey, secret string) keyJSON {
	owner := k.Account
	if u, err := x.srv.rooms.Store.User(k.Account); err == nil {
		owner = u.Email
	}
	if k.Networks == nil {
		k.Networks = []netip.Prefix{} // a list in JSON, not null
	}
	return keyJSON{k.ID, owner, k.Name, k.Test, k.Last4, stamp(k.Created), stampOf(k.LastUsed), k.Scopes, stampOf(k.Expires), k.Networks, secret}
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
	return x.sendKeys(account)
}

func (x *exchange) listOwnKeys() error { return x.sendKeys(x.who.User.ID) }

// sendKeys lists the keys of an account, or of all.
func (x *exchange) sendKeys(account string) error {
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
	d, err := x.documentOf("user", "name", "test", "scopes", "expires_at", "networks")
	if err != nil {
		return err
	}
	u, err := x.userOf(d)
	if err != nil {
		return err
	}
	return x.makeKey(d, u.ID)
}

func (x *exchange) createOwnKey() error {
	d, err := x.documentOf("name", "test", "scopes", "expires_at", "networks")
	if err != nil {
		return err
	}
	return x.makeKey(d, x.who.User.ID)
}

// makeKey makes an account the key that a body describes, and shows it this once.
func (x *exchange) makeKey(d *document, account string) error {
	n, err := readNewKey(d)
	if err != nil {
		return err
	}
	secret, k, err := x.srv.rooms.Store.CreateKey(account, n, x.by(), x.srv.now())
	if err != nil {
		return err
	}
	return x.sendAs(statusCreated, x.showKey(k, secret))
}

func readNewKey(d *document) (n store.NewKey, err error) {
	if n.Name, err = d.needText("name"); err != nil {
		return n, err
	}
	if n.Test, err = d.flag("test", false); err != nil {
		return n, err
	}
	scopes, err := d.texts("scopes")
	if err != nil {
		return n, err
	}
	if n.Scopes, err = store.ParseScopes(scopes); err != nil {
		return n, err
	}
	expires, given, err := d.text("expires_at")
	if err != nil {
		return n, err
	}
	if given {
		if n.Expires, err = time.Parse(time.RFC3339, expires); err != nil {
			return n, refuse(unacceptable, "expires_at must be a time such as 2027-01-31T12:00:00Z.")
		}
	}
	networks, err := d.texts("networks")
	if err != nil {
		return n, err
	}
	n.Networks, err = store.ParseNetworks(networks)
	return n, err
}

// userOf is the account that the body's member user names.
func (x *exchange) userOf(d *document) (store.User, error) {
	name, err := d.needText("user")
	if err != nil {
		return store.User{}, err
	}
	return x.user(name)
}

func (x *exchange) revokeKey() error    { return x.dropKey("") }
func (x *exchange) revokeOwnKey() error { return x.dropKey(x.who.User.ID) }

// dropKey revokes the key of the path, of one account or of any.
func (x *exchange) dropKey(account string) error {
	if err := x.srv.rooms.Store.RevokeKey(account, x.param, x.by(), x.srv.now()); err != nil {
		return err
	}
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

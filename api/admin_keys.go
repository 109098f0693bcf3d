package api

import (
	"net/netip"
	"time"

	"probity/api/httpd"
	"probity/api/record"
	"probity/store"
)

func showKey(c *call, k store.APIKey, secret string) record.Key {
	owner := k.Account
	if u, err := c.srv.deps.Store.User(k.Account); err == nil {
		owner = u.Email
	}
	if k.Networks == nil {
		k.Networks = []netip.Prefix{} // a list in JSON, not null
	}
	return record.Key{ID: k.ID, User: owner, Name: k.Name, Test: k.Test, Last4: k.Last4,
		Created: record.Time(k.Created), LastUsed: record.TimeOrNil(k.LastUsed),
		Scopes: k.Scopes, Expires: record.TimeOrNil(k.Expires), Networks: k.Networks, Secret: secret}
}

func listKeys(c *call) error {
	account, err := accountFilter(c)
	if err != nil {
		return err
	}
	return sendKeys(c, account)
}

func listOwnKeys(c *call) error { return sendKeys(c, c.identity.User.ID) }

// sendKeys lists the keys of an account, or of all.
func sendKeys(c *call, account string) error {
	found, err := c.srv.deps.Store.Keys(account)
	if err != nil {
		return err
	}
	keys := []record.Key{}
	for _, k := range found {
		keys = append(keys, showKey(c, k, ""))
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"keys": keys})
}

func createKey(c *call) error {
	d := c.Document()
	u, err := userOf(c, d)
	if err != nil {
		return err
	}
	return makeKey(c, d, u.ID)
}

func createOwnKey(c *call) error {
	d := c.Document()
	return makeKey(c, d, c.identity.User.ID)
}

// makeKey makes the key that a body describes for an account, and shows its secret this once.
func makeKey(c *call, d *httpd.Document, account string) error {
	n, err := readNewKey(d)
	if err != nil {
		return err
	}
	if n.Scopes&store.ScopeAdmin != 0 {
		if err := c.requireSession("make a key with the scope admin"); err != nil {
			return err
		}
	}
	if err := c.identity.Confine(&n); err != nil {
		return err
	}
	secret, k, err := c.srv.deps.Store.CreateKey(account, n, actor(c), c.srv.now())
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusCreated, showKey(c, k, secret))
}

func readNewKey(d *httpd.Document) (n store.NewKey, err error) {
	if n.Name, err = d.RequiredText("name"); err != nil {
		return n, err
	}
	if err := httpd.CheckShown("name", n.Name, store.MaxLabel); err != nil {
		return n, err
	}
	if n.Test, err = d.Boolean("test", false); err != nil {
		return n, err
	}
	scopes, err := d.TextList("scopes")
	if err != nil {
		return n, err
	}
	if n.Scopes, err = store.ParseScopes(scopes); err != nil {
		return n, err
	}
	expires, given, err := d.Text("expires_at")
	if err != nil {
		return n, err
	}
	if given {
		if n.Expires, err = time.Parse(time.RFC3339, expires); err != nil {
			return n, httpd.Refuse(httpd.Unacceptable, "expires_at must be a time such as 2027-01-31T12:00:00Z.")
		}
	}
	networks, err := d.TextList("networks")
	if err != nil {
		return n, err
	}
	n.Networks, err = store.ParseNetworks(networks)
	return n, err
}

// userOf finds the account that the body's member user names.
func userOf(c *call, d *httpd.Document) (store.User, error) {
	name, err := d.RequiredText("user")
	if err != nil {
		return store.User{}, err
	}
	return user(c, name)
}

func revokeKey(c *call) error    { return dropKey(c, "") }
func revokeOwnKey(c *call) error { return dropKey(c, c.identity.User.ID) }

// dropKey revokes the key of the path, which must belong to account unless that is empty.
func dropKey(c *call, account string) error {
	if err := c.srv.deps.Store.RevokeKey(account, c.Param, actor(c), c.srv.now()); err != nil {
		return err
	}
	c.Ctx.Response.SetStatusCode(httpd.StatusNoContent)
	return nil
}

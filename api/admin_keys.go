package api

import (
	"net/netip"
	"time"

	"probity/store"
)

// keyJSON is an API key as admins see it; the secret is shown once, when the key is made.
type keyJSON struct {
	ID       string     `json:"id"`
	User     string     `json:"user"`
	Name     string     `json:"name"`
	Test     bool       `json:"test"`
	Last4    string     `json:"last4"`
	Created  timestamp  `json:"created_at"`
	LastUsed *timestamp `json:"last_used_at"`

	Scopes   store.Scopes   `json:"scopes"`
	Expires  *timestamp     `json:"expires_at"`
	Networks []netip.Prefix `json:"networks"`

	Secret string `json:"key,omitempty"`
}

func (c *call) showKey(k store.APIKey, secret string) keyJSON {
	owner := k.Account
	if u, err := c.srv.deps.Store.User(k.Account); err == nil {
		owner = u.Email
	}
	if k.Networks == nil {
		k.Networks = []netip.Prefix{} // a list in JSON, not null
	}
	return keyJSON{k.ID, owner, k.Name, k.Test, k.Last4, timestamp(k.Created), timestampOrNil(k.LastUsed), k.Scopes, timestampOrNil(k.Expires), k.Networks, secret}
}

func (c *call) listKeys() error {
	account := ""
	if name := c.query("user"); name != "" {
		u, err := c.user(name)
		if err != nil {
			return err
		}
		account = u.ID
	}
	return c.sendKeys(account)
}

func (c *call) listOwnKeys() error { return c.sendKeys(c.identity.User.ID) }

// sendKeys lists the keys of an account, or of all.
func (c *call) sendKeys(account string) error {
	found, err := c.srv.deps.Store.Keys(account)
	if err != nil {
		return err
	}
	keys := []keyJSON{}
	for _, k := range found {
		keys = append(keys, c.showKey(k, ""))
	}
	return c.sendJSON(statusOK, map[string]any{"keys": keys})
}

func (c *call) createKey() error {
	d, err := c.strictDocument("user", "name", "test", "scopes", "expires_at", "networks")
	if err != nil {
		return err
	}
	u, err := c.userOf(d)
	if err != nil {
		return err
	}
	return c.makeKey(d, u.ID)
}

func (c *call) createOwnKey() error {
	d, err := c.strictDocument("name", "test", "scopes", "expires_at", "networks")
	if err != nil {
		return err
	}
	return c.makeKey(d, c.identity.User.ID)
}

// makeKey makes the key that a body describes for an account, and shows its secret this once.
func (c *call) makeKey(d *document, account string) error {
	n, err := readNewKey(d)
	if err != nil {
		return err
	}
	secret, k, err := c.srv.deps.Store.CreateKey(account, n, c.actor(), c.srv.now())
	if err != nil {
		return err
	}
	return c.sendJSON(statusCreated, c.showKey(k, secret))
}

func readNewKey(d *document) (n store.NewKey, err error) {
	if n.Name, err = d.requiredText("name"); err != nil {
		return n, err
	}
	if n.Test, err = d.boolean("test", false); err != nil {
		return n, err
	}
	scopes, err := d.textList("scopes")
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
	networks, err := d.textList("networks")
	if err != nil {
		return n, err
	}
	n.Networks, err = store.ParseNetworks(networks)
	return n, err
}

// userOf finds the account that the body's member user names.
func (c *call) userOf(d *document) (store.User, error) {
	name, err := d.requiredText("user")
	if err != nil {
		return store.User{}, err
	}
	return c.user(name)
}

func (c *call) revokeKey() error    { return c.dropKey("") }
func (c *call) revokeOwnKey() error { return c.dropKey(c.identity.User.ID) }

// dropKey revokes the key of the path, which must belong to account unless that is empty.
func (c *call) dropKey(account string) error {
	if err := c.srv.deps.Store.RevokeKey(account, c.param, c.actor(), c.srv.now()); err != nil {
		return err
	}
	c.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

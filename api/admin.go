package api

import (
	"errors"
	"strings"

	"probity/store"
)

// userJSON is an account as admins see it.
type userJSON struct {
	ID       string       `json:"id"`
	Email    string       `json:"email"`
	Role     store.Role   `json:"role"`
	Disabled bool         `json:"disabled"`
	Created  timestamp    `json:"created_at"`
	Limits   store.Limits `json:"limits"`
	TOTP     bool         `json:"totp"`
	Password string       `json:"password,omitempty"`
}

func showUser(u store.User, password string) userJSON {
	return userJSON{u.ID, u.Email, u.Role, u.Disabled, timestamp(u.Created), u.Limits, u.TOTP, password}
}

// user finds an account by its e-mail address or its id.
func (c *call) user(name string) (store.User, error) {
	find := c.srv.deps.Store.User
	if strings.Contains(name, "@") {
		find = c.srv.deps.Store.UserByEmail
	}
	u, err := find(name)
	if errors.Is(err, store.ErrNotFound) || name == "" {
		return u, refuse(notFound, "There is no such account: name it by its e-mail address or its id.")
	}
	return u, err
}

// userOfQuery is the account that the required query parameter user names.
func (c *call) userOfQuery() (store.User, error) {
	if c.query("user") == "" {
		return store.User{}, refuse(unacceptable, "user is missing: name the account by its e-mail address or its id.")
	}
	return c.user(c.query("user"))
}

// actor is who acts and from where, for the audit log.
func (c *call) actor() string { return store.AuditActor(c.identity.User.ID, c.clientIPText()) }

// clientIPText is the client's address, empty if it is not known.
func (c *call) clientIPText() string {
	if a := c.clientIP(); a.IsValid() {
		return a.String()
	}
	return ""
}

func (c *call) listUsers() error {
	users := []userJSON{}
	for _, u := range c.srv.deps.Store.Users() {
		users = append(users, showUser(u, ""))
	}
	return c.sendJSON(statusOK, map[string]any{"users": users})
}

func (c *call) addUser() error {
	d, err := c.strictDocument("email", "password", "role", "credits", "limits")
	if err != nil {
		return err
	}
	n, err := readUser(d)
	if err != nil {
		return err
	}
	u, password, err := c.srv.deps.Store.AddUser(c.ctx, n, c.actor(), c.srv.now())
	if err != nil {
		return err
	}
	return c.sendJSON(statusCreated, showUser(u, password))
}

func readUser(d *document) (n store.NewUser, err error) {
	if n.Email, err = d.requiredText("email"); err != nil {
		return n, err
	}
	if n.Password, _, err = d.text("password"); err != nil {
		return n, err
	}
	role, _, err := d.text("role")
	if err != nil {
		return n, err
	}
	n.Role = store.Role(role)
	if n.Credits, err = d.number("credits", 0, 0, store.MaxCredits); err != nil {
		return n, err
	}
	limits, err := d.object("limits")
	if err != nil || limits == nil {
		return n, err
	}
	n.Limits, err = readLimits(limits)
	return n, err
}

func readLimits(d *document) (l store.Limits, err error) {
	if err := d.allowOnly("single_per_minute", "bulk_per_hour"); err != nil {
		return l, err
	}
	single, err := d.number("single_per_minute", 0, 0, store.MaxLimit)
	if err != nil {
		return l, err
	}
	bulk, err := d.number("bulk_per_hour", 0, 0, store.MaxLimit)
	return store.Limits{SinglePerMinute: int(single), BulkPerHour: int(bulk)}, err
}

func (c *call) disableUser() error {
	return c.changeUser(func(id string) error { return c.srv.deps.Store.DisableUser(id, c.actor(), c.srv.now()) })
}

func (c *call) enableUser() error {
	return c.changeUser(func(id string) error { return c.srv.deps.Store.EnableUser(id, c.actor(), c.srv.now()) })
}

// ResetPage is the dashboard's page that a reset link leads to. The token follows the #, which browsers do not send.
const ResetPage = "/app/reset#"

// createResetLink makes a link that resets the password of the account of the path.
func (c *call) createResetLink() error {
	u, err := c.user(c.param)
	if err != nil {
		return err
	}
	token, expires, err := c.srv.deps.Store.NewReset(u.ID, c.actor(), c.srv.now())
	if err != nil {
		return err
	}
	return c.sendJSON(statusCreated, map[string]any{"url": c.srv.cfg.PublicURL + ResetPage + token, "expires_at": timestamp(expires)})
}

func (c *call) setLimits() error {
	d, err := c.document()
	if err != nil {
		return err
	}
	l, err := readLimits(d)
	if err != nil {
		return err
	}
	return c.changeUser(func(id string) error { return c.srv.deps.Store.SetLimits(id, l, c.actor(), c.srv.now()) })
}

// changeUser changes the account of the path and returns it.
func (c *call) changeUser(change func(id string) error) error {
	u, err := c.user(c.param)
	if err != nil {
		return err
	}
	if err := change(u.ID); err != nil {
		return err
	}
	if u, err = c.srv.deps.Store.User(u.ID); err != nil {
		return err
	}
	return c.sendJSON(statusOK, showUser(u, ""))
}

package api

import (
	"errors"
	"strings"

	"probity/api/httpd"
	"probity/api/record"
	"probity/api/userlist"
	"probity/store"
)

func showUser(u store.User, password string) record.User {
	return record.User{ID: u.ID, Email: u.Email, Role: u.Role, Disabled: u.Disabled, Created: record.Time(u.Created),
		Limits: u.Limits, TOTP: u.TOTP, Password: password}
}

// user finds an account by its e-mail address or its id.
func user(c *call, name string) (store.User, error) {
	find := c.srv.deps.Store.User
	if strings.Contains(name, "@") {
		find = c.srv.deps.Store.UserByEmail
	}
	u, err := find(name)
	if errors.Is(err, store.ErrNotFound) || name == "" {
		return u, httpd.Refuse(httpd.NotFound, "There is no such account: name it by its e-mail address or its id.")
	}
	return u, err
}

// userOfQuery is the account that the required query parameter user names.
func userOfQuery(c *call) (store.User, error) {
	if c.QueryText("user") == "" {
		return store.User{}, httpd.Refuse(httpd.Unacceptable,
			"user is missing: name the account by its e-mail address or its id.")
	}
	return user(c, c.QueryText("user"))
}

// accountFilter is the id of the account that the query parameter user names; empty for all.
func accountFilter(c *call) (string, error) {
	if !c.Ctx.QueryArgs().Has("user") {
		return "", nil
	}
	u, err := user(c, c.QueryText("user"))
	return u.ID, err
}

// actor is who acts and from where, for the audit log.
func actor(c *call) string {
	if c.localActor != "" {
		return c.localActor
	}
	return store.AuditActor(c.identity.User.ID, clientIPText(c))
}

// clientIPText is the client's address, empty if it is not known.
func clientIPText(c *call) string {
	if a := c.ClientIP(); a.IsValid() {
		return a.String()
	}
	return ""
}

func listUsers(c *call) error {
	page, err := userlist.Read(c.Call, c.srv.deps.Store.Users())
	if err != nil {
		return err
	}
	users := make([]record.User, 0, len(page.Users))
	for _, u := range page.Users {
		users = append(users, showUser(u, ""))
	}
	return c.SendJSON(httpd.StatusOK, map[string]any{"users": users, "total": page.Total,
		"next_cursor": nextCursor(page.Next)})
}

func addUser(c *call) error {
	d := c.Document()
	n, err := readUser(d)
	if err != nil {
		return err
	}
	if n.Role == store.Admin {
		if err := c.requireSession("make an admin"); err != nil {
			return err
		}
	}
	u, password, err := c.srv.deps.Store.AddUser(c.Ctx, n, actor(c), c.srv.now())
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusCreated, showUser(u, password))
}

func readUser(d *httpd.Document) (n store.NewUser, err error) {
	if n.Email, err = d.RequiredText("email"); err != nil {
		return n, err
	}
	if err := httpd.CheckShown("email", n.Email, store.MaxName); err != nil {
		return n, err
	}
	if n.Password, _, err = d.Text("password"); err != nil {
		return n, err
	}
	role, _, err := d.Text("role")
	if err != nil {
		return n, err
	}
	n.Role = store.Role(role)
	if n.Credits, err = d.Number("credits", 0, 0, store.MaxCredits); err != nil {
		return n, err
	}
	limits, err := d.Object("limits")
	if err != nil || limits == nil {
		return n, err
	}
	n.Limits, err = readLimits(limits)
	return n, err
}

func readLimits(d *httpd.Document) (l store.Limits, err error) {
	single, err := d.Number("single_per_minute", 0, 0, store.MaxLimit)
	if err != nil {
		return l, err
	}
	batch, err := d.Number("batch_per_minute", 0, 0, store.MaxLimit)
	if err != nil {
		return l, err
	}
	bulk, err := d.Number("bulk_per_hour", 0, 0, store.MaxLimit)
	return store.Limits{SinglePerMinute: int(single), BatchPerMinute: int(batch), BulkPerHour: int(bulk)}, err
}

func disableUser(c *call) error {
	return changeUser(c, func(id string) error { return c.srv.deps.Store.DisableUser(id, actor(c), c.srv.now()) })
}

func enableUser(c *call) error {
	u, err := user(c, c.Param)
	if err != nil {
		return err
	}
	if u.Role == store.Admin {
		if err := c.requireSession("enable an admin"); err != nil {
			return err
		}
	}
	return changeUser(c, func(id string) error { return c.srv.deps.Store.EnableUser(id, actor(c), c.srv.now()) })
}

// resetPage is the dashboard's page that a reset link leads to. The token follows the #, which browsers do not send.
const resetPage = "/app/reset#"

// createResetLink makes a link that resets the password of the account of the path.
func createResetLink(c *call) error {
	u, err := user(c, c.Param)
	if err != nil {
		return err
	}
	token, expires, err := c.srv.deps.Store.NewReset(u.ID, actor(c), c.srv.now())
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusCreated, map[string]any{"url": c.srv.cfg.PublicURL + resetPage + token,
		"expires_at": record.Time(expires)})
}

func setLimits(c *call) error {
	d := c.Document()
	l, err := readLimits(d)
	if err != nil {
		return err
	}
	return changeUser(c, func(id string) error { return c.srv.deps.Store.SetLimits(id, l, actor(c), c.srv.now()) })
}

// changeUser changes the account of the path and returns it.
func changeUser(c *call, change func(id string) error) error {
	u, err := user(c, c.Param)
	if err != nil {
		return err
	}
	if err := change(u.ID); err != nil {
		return err
	}
	if u, err = c.srv.deps.Store.User(u.ID); err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, showUser(u, ""))
}

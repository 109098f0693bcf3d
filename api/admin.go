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
	Created  stamp        `json:"created_at"`
	Limits   store.Limits `json:"limits"`
	TOTP     bool         `json:"totp"`
	Password string       `json:"password,omitempty"`
}

func showUser(u store.User, password string) userJSON {
	return userJSON{u.ID, u.Email, u.Role, u.Disabled, stamp(u.Created), u.Limits, u.TOTP, password}
}

// user is the account of an e-mail address or an id.
func (x *exchange) user(name string) (store.User, error) {
	find := x.srv.rooms.Store.User
	if strings.Contains(name, "@") {
		find = x.srv.rooms.Store.UserByEmail
	}
	u, err := find(name)
	if errors.Is(err, store.ErrNotFound) || name == "" {
		return u, refuse(notFound, "There is no such account: name it by its e-mail address or its id.")
	}
	return u, err
}

// userOfQuery is the account that the parameter user names, which must have been sent.
func (x *exchange) userOfQuery() (store.User, error) {
	if x.query("user") == "" {
		return store.User{}, refuse(unacceptable, "user is missing: name the account by its e-mail address or its id.")
	}
	return x.user(x.query("user"))
}

// by is who acts and from where, for the audit log.
func (x *exchange) by() string {
	return store.Actor(x.who.User.ID, x.clientText())
}

// clientText is the client's address, empty where it is not known.
func (x *exchange) clientText() string {
	if a := x.client(); a.IsValid() {
		return a.String()
	}
	return ""
}

func (x *exchange) listUsers() error {
	users := []userJSON{}
	for _, u := range x.srv.rooms.Store.Users() {
		users = append(users, showUser(u, ""))
	}
	return x.sendAs(statusOK, map[string]any{"users": users})
}

func (x *exchange) addUser() error {
	d, err := x.documentOf("email", "password", "role", "credits", "limits")
	if err != nil {
		return err
	}
	n, err := readUser(d)
	if err != nil {
		return err
	}
	u, password, err := x.srv.rooms.Store.AddUser(x.ctx, n, x.by(), x.srv.now())
	if err != nil {
		return err
	}
	return x.sendAs(statusCreated, showUser(u, password))
}

func readUser(d *document) (n store.NewUser, err error) {
	if n.Email, err = d.needText("email"); err != nil {
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
	if err := d.only("single_per_minute", "bulk_per_hour"); err != nil {
		return l, err
	}
	single, err := d.number("single_per_minute", 0, 0, store.MaxLimit)
	if err != nil {
		return l, err
	}
	bulk, err := d.number("bulk_per_hour", 0, 0, store.MaxLimit)
	return store.Limits{SinglePerMinute: int(single), BulkPerHour: int(bulk)}, err
}

func (x *exchange) disableUser() error {
	return x.changeUser(func(id string) error { return x.srv.rooms.Store.DisableUser(id, x.by(), x.srv.now()) })
}

func (x *exchange) enableUser() error {
	return x.changeUser(func(id string) error { return x.srv.rooms.Store.EnableUser(id, x.by(), x.srv.now()) })
}

// ResetPage is the dashboard's page that a reset link leads to. The token stands behind the #, which browsers do not send.
const ResetPage = "/app/reset#"

// makeReset makes a link that gives the account of the path a new password.
func (x *exchange) makeReset() error {
	u, err := x.user(x.param)
	if err != nil {
		return err
	}
	token, expires, err := x.srv.rooms.Store.NewReset(u.ID, x.by(), x.srv.now())
	if err != nil {
		return err
	}
	return x.sendAs(statusCreated, map[string]any{"url": x.srv.cfg.PublicURL + ResetPage + token, "expires_at": stamp(expires)})
}

func (x *exchange) setLimits() error {
	d, err := x.document()
	if err != nil {
		return err
	}
	l, err := readLimits(d)
	if err != nil {
		return err
	}
	return x.changeUser(func(id string) error { return x.srv.rooms.Store.SetLimits(id, l, x.by(), x.srv.now()) })
}

// changeUser changes the account of the path and shows it.
func (x *exchange) changeUser(change func(id string) error) error {
	u, err := x.user(x.param)
	if err != nil {
		return err
	}
	if err := change(u.ID); err != nil {
		return err
	}
	if u, err = x.srv.rooms.Store.User(u.ID); err != nil {
		return err
	}
	return x.sendAs(statusOK, showUser(u, ""))
}

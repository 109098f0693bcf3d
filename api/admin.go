package api

import (
	"errors"
	"strconv"
	"strings"

	"probity/engine"
	"probity/store"
)

// maxNote bounds the words that an admin leaves beside an act.
const maxNote = 200

// Erased is what the erasure of an address removed.
type Erased struct {
	Cached int `json:"cached"` // cached verdicts
	Jobs   int `json:"jobs"`   // jobs whose results held it
}

// userJSON is an account as admins see it.
type userJSON struct {
	ID       string       `json:"id"`
	Email    string       `json:"email"`
	Role     store.Role   `json:"role"`
	Disabled bool         `json:"disabled"`
	Created  stamp        `json:"created_at"`
	Limits   store.Limits `json:"limits"`
	Password string       `json:"password,omitempty"`
}

func showUser(u store.User, password string) userJSON {
	return userJSON{u.ID, u.Email, u.Role, u.Disabled, stamp(u.Created), u.Limits, password}
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

// by is who acts, for the audit log.
func (x *exchange) by() string { return x.who.User.ID }

func (x *exchange) listUsers() error {
	users := []userJSON{}
	for _, u := range x.srv.rooms.Store.Users() {
		users = append(users, showUser(u, ""))
	}
	return x.sendAs(statusOK, map[string]any{"users": users})
}

func (x *exchange) addUser() error {
	d, err := x.document()
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

func (x *exchange) getCreditsOf() error {
	u, err := x.userOfQuery()
	if err != nil {
		return err
	}
	return x.sendCredits(u.ID)
}

func (x *exchange) grantCredits() error {
	d, err := x.document()
	if err != nil {
		return err
	}
	if d.get("amount") == nil {
		return refuse(unacceptable, "amount is missing: send it as a whole number.")
	}
	amount, err := d.number("amount", 0, -store.MaxCredits, store.MaxCredits)
	if err != nil {
		return err
	}
	note, err := d.shortText("note", maxNote)
	if err != nil {
		return err
	}
	id, err := d.shortText("grant_id", 100)
	if err != nil {
		return err
	}
	u, err := x.userOf(d)
	if err != nil {
		return err
	}
	c, err := x.srv.rooms.Store.GrantCredits(u.ID, id, amount, x.by(), note, x.srv.now())
	if err != nil {
		return err
	}
	return x.send(statusOK, creditsJSON(c))
}

// entryJSON is a line of a ledger.
type entryJSON struct {
	Number   uint64     `json:"number"`
	Kind     store.Kind `json:"kind"`
	Credits  int64      `json:"credits"`
	Amount   int64      `json:"amount"`
	Cause    string     `json:"cause"`
	At       stamp      `json:"at"`
	Balance  int64      `json:"balance"`
	Reserved int64      `json:"reserved"`
}

func (x *exchange) getLedger() error {
	u, err := x.userOfQuery()
	if err != nil {
		return err
	}
	limit, err := x.queryNumber("limit", defaultPage, 1, maxPage)
	if err != nil {
		return err
	}
	before, err := x.queryNumber("cursor", 0, 1, 1<<62)
	if err != nil {
		return err
	}
	found, err := x.srv.rooms.Store.Ledger(u.ID, uint64(before), int(limit))
	if err != nil {
		return err
	}
	entries, next := []entryJSON{}, ""
	for _, e := range found {
		entries = append(entries, entryJSON{e.Number, e.Kind, e.Credits, e.Amount, e.Cause, stamp(e.At), e.Balance, e.Reserved})
		next = strconv.FormatUint(e.Number, 10)
	}
	if len(found) < int(limit) || next == "1" {
		next = ""
	}
	return x.sendAs(statusOK, map[string]any{"entries": entries, "next_cursor": textOrNil(next)})
}

// suppressionJSON is a wish never to be probed.
type suppressionJSON struct {
	Kind  store.StopKind `json:"kind"`
	Name  string         `json:"name"`
	Note  string         `json:"note"`
	By    string         `json:"by"`
	Since stamp          `json:"since"`
}

func showSuppression(s store.Suppression) suppressionJSON {
	return suppressionJSON{s.Kind, s.Name, s.Note, s.By, stamp(s.Since)}
}

func (x *exchange) listSuppressions() error {
	found, err := x.srv.rooms.Store.Suppressions()
	if err != nil {
		return err
	}
	wishes := []suppressionJSON{}
	for _, s := range found {
		wishes = append(wishes, showSuppression(s))
	}
	return x.sendAs(statusOK, map[string]any{"suppressions": wishes})
}

// wish reads what is to be suppressed, in the form that the engine compares.
func wish(kind, name string) (store.Suppression, error) {
	s := store.Suppression{Kind: store.StopKind(kind)}
	if kind == "" {
		s.Kind = store.StopDomain
		if strings.Contains(name, "@") {
			s.Kind = store.StopAddress
		}
	}
	switch s.Kind {
	case store.StopAddress:
		a, err := engine.ParseTrimmed(name)
		if err != nil {
			return s, refuse(unacceptable, "name must be an e-mail address for kind address.")
		}
		s.Name = a.Folded()
	case store.StopDomain, store.StopMX:
		domain, err := engine.ParseDomain(strings.TrimSuffix(engine.Trim(name), "."))
		if err != nil {
			return s, refuse(unacceptable, "name must be a domain name for kind %s.", s.Kind)
		}
		s.Name = domain
	default:
		return s, refuse(unacceptable, "kind must be domain, mx or address.")
	}
	return s, nil
}

func (x *exchange) suppress() error {
	d, err := x.document()
	if err != nil {
		return err
	}
	name, err := d.needText("name")
	if err != nil {
		return err
	}
	kind, _, err := d.text("kind")
	if err != nil {
		return err
	}
	s, err := wish(kind, name)
	if err != nil {
		return err
	}
	if s.Note, err = d.shortText("note", maxNote); err != nil {
		return err
	}
	s.By, s.Since = x.by(), x.srv.now().UTC()
	if err := x.srv.rooms.Store.Suppress([]store.Suppression{s}, x.srv.now()); err != nil {
		return err
	}
	return x.sendAs(statusCreated, showSuppression(s))
}

func (x *exchange) unsuppress() error {
	s, err := wish(x.query("kind"), x.query("name"))
	if err != nil {
		return err
	}
	if err := x.srv.rooms.Store.Unsuppress(s.Kind, s.Name, x.by(), x.srv.now()); err != nil {
		return err
	}
	x.ctx.Response.SetStatusCode(statusNoContent)
	return nil
}

// erase forgets an address. It is written into the audit log without the address.
func (x *exchange) erase() error {
	d, err := x.document()
	if err != nil {
		return err
	}
	text, err := d.needText("address")
	if err != nil {
		return err
	}
	a, err := engine.ParseTrimmed(text)
	if err != nil {
		return refuse(unacceptable, "address must be an e-mail address.")
	}
	var removed Erased
	if x.srv.rooms.Erase != nil {
		if removed, err = x.srv.rooms.Erase(x.srv.ending, a.Folded()); err != nil {
			return err
		}
	}
	if err := x.srv.rooms.Store.Audit(store.Act{At: x.srv.now(), By: x.by(), Act: "erase", Target: "an address"}); err != nil {
		return err
	}
	return x.sendAs(statusOK, removed)
}

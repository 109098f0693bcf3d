package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/cockroachdb/pebble/v2"

	"probity/internal/shownname"
	"probity/store/base62"
	"probity/store/passwords"
	"probity/store/window"
)

// Role is what an account may do.
type Role string

// The roles. An admin may act on every account; a customer only on its own.
const (
	Admin    Role = "admin"
	Customer Role = "customer"
)

// Limits are the sliding windows of one account; zero is the default.
type Limits struct {
	SinglePerMinute int `json:"single_per_minute,omitempty"`
	BatchPerMinute  int `json:"batch_per_minute,omitempty"`
	BulkPerHour     int `json:"bulk_per_hour,omitempty"`
}

// The default limits, and the greatest limit that can be set.
const (
	DefaultSinglePerMinute = 30
	DefaultBatchPerMinute  = 60
	DefaultBulkPerHour     = 10
	MaxLimit               = 1_000_000
)

// User is an account: its login, and the owner of keys, credits and jobs.
type User struct {
	ID       string    `json:"id"`
	Email    string    `json:"email"` // as it was entered; unique when folded
	Role     Role      `json:"role"`
	Disabled bool      `json:"disabled,omitempty"`
	Created  time.Time `json:"created"`
	Limits   Limits    `json:"limits"`
	TOTP     bool      `json:"totp,omitempty"` // a login also needs a code
}

// SinglePerMinute is the account's limit of single calls.
func (u User) SinglePerMinute() int { return cmp.Or(u.Limits.SinglePerMinute, DefaultSinglePerMinute) }

// BatchPerMinute is the account's limit of batches.
func (u User) BatchPerMinute() int { return cmp.Or(u.Limits.BatchPerMinute, DefaultBatchPerMinute) }

// BulkPerHour is the account's limit of bulk requests.
func (u User) BulkPerHour() int { return cmp.Or(u.Limits.BulkPerHour, DefaultBulkPerHour) }

// IsActiveAdmin reports whether the account can act as an admin.
func (u User) IsActiveAdmin() bool { return u.Role == Admin && !u.Disabled }

// userRecord is the stored form of a user; the password hash never leaves this package.
type userRecord struct {
	User
	Password string `json:"password"`
	Reset    *reset `json:"reset,omitempty"`
	// in force if User.TOTP; before that it waits for its first code
	Second *secondFactor `json:"second_factor,omitempty"`
}

// NewUser describes an account for AddUser. If the password is empty, a random one is made; an empty role is Customer.
type NewUser struct {
	Email    string
	Password string
	Role     Role
	Credits  int64
	Limits   Limits
}

// The bounds of a password. The upper one keeps clients from making us hash megabytes.
const (
	MinPassword = 10
	MaxPassword = 256
)

// The refusals of accounts.
var (
	ErrPasswordLength = errors.New("the password is too short or too long")
	ErrPasswordsBusy  = passwords.ErrBusy
	ErrEmailTaken     = errors.New("an account with this e-mail address exists")
	ErrBadEmail       = errors.New("not an e-mail address that can log in")
	ErrBadRole        = errors.New("the role must be admin or customer")
	ErrLastAdmin      = errors.New("this is the last active admin")
	ErrBadLimit       = fmt.Errorf("a limit must be between 0 (the default) and %d", MaxLimit)
)

// Accounts are the accounts and their API keys. It keeps in memory what every request needs of them, and updates that
// before the method that changed an account returns: one entry for each account (admins create those), with at most
// MaxKeys keys.
type Accounts struct {
	*DB
	passwords *passwords.Hasher
	singles   minuteWindows
	batches   minuteWindows
	domains   minuteWindows

	disableMu sync.Mutex // serialises DisableUser, so that two admins are not each other's last
	refreshMu sync.Mutex // serialises refresh, so that the last to finish has read the last commit
	mu        sync.RWMutex
	users     map[string]User         // guarded by mu
	keys      map[KeyHash]*cachedKey  // guarded by mu
	byID      map[string]*cachedKey   // guarded by mu
	byAccount map[string][]*cachedKey // guarded by mu
}

// cachedKey is one API key.
type cachedKey struct {
	apiKeyRecord
	used    atomic.Int64 // unix seconds of the last use, 0 for never
	written atomic.Int64 // the last use that is in the store
}

func newAccounts(db *DB) *Accounts {
	return &Accounts{
		DB:        db,
		passwords: passwords.New(passwords.DefaultCost),
		singles:   minuteWindows{byAccount: make(map[string]*window.Window)},
		batches:   minuteWindows{byAccount: make(map[string]*window.Window)},
		domains:   minuteWindows{byAccount: make(map[string]*window.Window)},
		users:     make(map[string]User),
		keys:      make(map[KeyHash]*cachedKey),
		byID:      make(map[string]*cachedKey),
		byAccount: make(map[string][]*cachedKey),
	}
}

// load reads all accounts and their keys when the store is opened, each in one scan, at the same time.
func (a *Accounts) load() error {
	var usersErr, keysErr error
	var reading sync.WaitGroup
	reading.Go(func() { usersErr = a.loadUsers() })
	reading.Go(func() { keysErr = a.loadKeys() })
	reading.Wait()
	return errors.Join(usersErr, keysErr)
}

func (a *Accounts) loadUsers() error {
	return scan(a.db, []byte{tableUser}, nil, func(k, v []byte) error {
		var u User // without its password, for speed
		if err := decodeJSON(k, v, &u); err != nil {
			return fmt.Errorf("account %s: %w", k[1:], err)
		}
		a.users[string(k[1:])] = u
		return nil
	})
}

func (a *Accounts) loadKeys() error {
	err := scan(a.db, []byte{tableAPIKey}, nil, func(k, v []byte) error {
		account, _ := splitKeyName(k)
		rec, err := readKeyRecord(v, account)
		if err != nil {
			return err
		}
		one := &cachedKey{apiKeyRecord: rec}
		a.keys[rec.Hash], a.byID[rec.ID] = one, one
		a.byAccount[account] = append(a.byAccount[account], one)
		return nil
	})
	if err != nil {
		return err
	}
	return scan(a.db, []byte{tableKeyUsed}, nil, func(k, v []byte) error {
		_, id := splitKeyName(k)
		at, err := decodeUint64(v, "last use of API key "+string(id))
		if one := a.byID[string(id)]; one != nil {
			one.used.Store(int64(at))
			one.written.Store(int64(at))
		}
		return err
	})
}

// refresh reads an account and its keys again, and replaces them in the cache.
func (a *Accounts) refresh(account string) error {
	a.refreshMu.Lock()
	defer a.refreshMu.Unlock()
	view := a.db.NewSnapshot()
	defer view.Close()
	rec, err := readUser(view, account)
	if err != nil {
		return fmt.Errorf("account %s: %w", account, err)
	}
	var keys []*cachedKey
	err = scan(view, keyPrefix(tableAPIKey, account), nil, func(_, v []byte) error {
		rec, err := readKeyRecord(v, account)
		if err != nil {
			return err
		}
		k := &cachedKey{apiKeyRecord: rec}
		at, err := getUint64(view, subKey(tableKeyUsed, account, k.ID), "last use of API key "+k.ID)
		k.used.Store(int64(at))
		k.written.Store(int64(at))
		keys = append(keys, k)
		return err
	})
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.users[account] = rec.User
	for i, k := range keys {
		if old := a.byID[k.ID]; old != nil {
			keys[i] = old // it may have a last use that is not written yet
		}
	}
	for _, k := range a.byAccount[account] {
		delete(a.keys, k.Hash)
		delete(a.byID, k.ID)
	}
	for _, k := range keys {
		a.keys[k.Hash] = k
		a.byID[k.ID] = k
	}
	a.byAccount[account] = keys
	return nil
}

func (a *Accounts) user(account string) (User, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	u, ok := a.users[account]
	return u, ok
}

// usersLock serialises the creation of accounts, so that an e-mail address is used once.
const usersLock = "\x00users"

// AddUser creates an account with its first credits, unless a part of first, in the same commit, returns an error. It
// returns the account's password, which is never shown again.
func (a *Accounts) AddUser(ctx context.Context, n NewUser, by string, now time.Time,
	first ...Part) (User, string, error) {
	n.Role = cmp.Or(n.Role, Customer)
	n.Password = cmp.Or(n.Password, RandomPassword())
	email := strings.TrimSpace(n.Email)
	var badRole error
	if n.Role != Admin && n.Role != Customer {
		badRole = ErrBadRole
	}
	if err := errors.Join(CheckEmail(email), badRole, n.Limits.check(), checkPasswordLength(n.Password)); err != nil {
		return User{}, "", err
	}
	hash, err := a.passwords.Hash(ctx, n.Password) // before any lock is taken
	if err != nil {
		return User{}, "", err
	}
	u := User{ID: newID("u_"), Email: email, Role: n.Role, Created: now.UTC(), Limits: n.Limits}
	insert := func(b *pebble.Batch) error {
		if _, err := get(b, emailKey(email)); err == nil {
			return ErrEmailTaken
		} else if !errors.Is(err, ErrNotFound) {
			return err
		}
		return errors.Join(b.Set(emailKey(email), []byte(u.ID), nil),
			setJSON(b, key(tableUser, u.ID), userRecord{User: u, Password: hash}))
	}
	parts := append(first, insert, AuditEvent{At: now, By: by, Action: "user add", Target: u.ID,
		Note: string(u.Role) + " " + email}.write)
	if n.Credits != 0 {
		parts = append(parts, grantPart(u.ID, "initial", n.Credits, "initial credits", now))
	}
	if err := a.Commit(usersLock, parts...); err != nil {
		return User{}, "", err
	}
	return u, n.Password, a.refresh(u.ID)
}

// FirstAdmin creates an admin with that password if there is no account, and reports whether it did.
func (a *Accounts) FirstAdmin(ctx context.Context, email, password string, credits int64,
	now time.Time) (User, bool, error) {
	if len(a.Users()) > 0 {
		return User{}, false, nil
	}
	none := func(b *pebble.Batch) error {
		return scan(b, []byte{tableUser}, nil, func(_, _ []byte) error { return errNotFirst })
	}
	u, _, err := a.AddUser(ctx, NewUser{Email: email, Password: password, Role: Admin, Credits: credits}, "first start",
		now, none)
	if errors.Is(err, errNotFirst) {
		return User{}, false, nil
	}
	return u, err == nil, err
}

var errNotFirst = errors.New("there are accounts already")

func readUser(r pebble.Reader, account string) (userRecord, error) {
	return readJSON[userRecord](r, key(tableUser, account))
}

// changeUser is the part that reads an account, changes it and writes it back.
func changeUser(account string, change func(*userRecord) error) Part {
	return func(b *pebble.Batch) error {
		rec, err := readUser(b, account)
		if err != nil {
			return fmt.Errorf("account %s: %w", account, err)
		}
		if err := change(&rec); err != nil {
			return err
		}
		return setJSON(b, key(tableUser, account), rec)
	}
}

// commitUser commits a change of an account and updates the cache, so that every later request sees it.
func (a *Accounts) commitUser(account string, parts ...Part) error {
	if err := a.Commit(account, parts...); err != nil {
		return err
	}
	return a.refresh(account)
}

// DisableUser disables the account's keys, and ends its sessions and its reset link. Its jobs finish. The last active
// admin is refused with ErrLastAdmin.
func (a *Accounts) DisableUser(account, by string, now time.Time) error {
	a.disableMu.Lock()
	defer a.disableMu.Unlock()
	otherAdmin := func(u User) bool { return u.ID != account && u.IsActiveAdmin() }
	if u, _ := a.user(account); u.IsActiveAdmin() && !slices.ContainsFunc(a.Users(), otherAdmin) {
		return ErrLastAdmin
	}
	return a.commitUser(account,
		changeUser(account, func(rec *userRecord) error { rec.Disabled, rec.Reset = true, nil; return nil }),
		dropSessions(account, ""),
		AuditEvent{At: now, By: by, Action: "user disable", Target: account}.write)
}

// EnableUser enables a disabled account; its sessions stay ended.
func (a *Accounts) EnableUser(account, by string, now time.Time) error {
	return a.commitUser(account,
		changeUser(account, func(rec *userRecord) error { rec.Disabled = false; return nil }),
		AuditEvent{At: now, By: by, Action: "user enable", Target: account}.write)
}

// SetLimits sets the account's own limits.
func (a *Accounts) SetLimits(account string, l Limits, by string, now time.Time) error {
	if err := l.check(); err != nil {
		return err
	}
	return a.commitUser(account,
		changeUser(account, func(rec *userRecord) error { rec.Limits = l; return nil }),
		AuditEvent{At: now, By: by, Action: "user limits", Target: account, Note: l.String()}.write)
}

// User returns an account by id, or ErrNotFound.
func (a *Accounts) User(account string) (User, error) {
	if u, ok := a.user(account); ok {
		return u, nil
	}
	return User{}, fmt.Errorf("account %s: %w", account, ErrNotFound)
}

// UserByEmail returns the account with a login e-mail address, or ErrNotFound.
func (a *Accounts) UserByEmail(email string) (User, error) {
	id, err := get(a.db, emailKey(email))
	if err != nil {
		return User{}, fmt.Errorf("account of that e-mail address: %w", err)
	}
	return a.User(string(id))
}

// Users lists all accounts by e-mail address.
func (a *Accounts) Users() []User {
	a.mu.RLock()
	users := slices.Collect(maps.Values(a.users))
	a.mu.RUnlock()
	slices.SortFunc(users, func(a, b User) int {
		return cmp.Or(strings.Compare(FoldEmail(a.Email), FoldEmail(b.Email)), strings.Compare(a.ID, b.ID))
	})
	return users
}

// FoldEmail normalises the spelling of a login. It does not know about mailboxes: dots and tags stay, because a login
// is only compared with a login.
func FoldEmail(email string) string { return strings.ToLower(strings.TrimSpace(email)) }

// emailKey has the hash of a login: no key contains an address in clear.
func emailKey(email string) []byte {
	hash := hashSecret(FoldEmail(email))
	return key(tableEmail, string(hash[:]))
}

// CheckEmail returns ErrBadEmail for what cannot be the e-mail address of an account.
func CheckEmail(email string) error {
	local, domain, ok := strings.Cut(email, "@")
	bad := func(r rune) bool { return r == '@' || unicode.IsSpace(r) }
	if !ok || local == "" || domain == "" || shownname.Check(email, MaxName-1) != nil ||
		strings.ContainsFunc(local+domain, bad) {
		return ErrBadEmail
	}
	return nil
}

// RandomPassword makes a random password.
func RandomPassword() string { return base62.Random(20) }

func checkPasswordLength(p string) error {
	if len(p) < MinPassword || len(p) > MaxPassword {
		return ErrPasswordLength
	}
	return nil
}

// String names the limits.
func (l Limits) String() string {
	rate := func(n int, unit string) string {
		if n == 0 {
			return "default"
		}
		return strconv.Itoa(n) + unit
	}
	return "single " + rate(l.SinglePerMinute, "/min") + ", batch " + rate(l.BatchPerMinute, "/min") + ", bulk " +
		rate(l.BulkPerHour, "/hour")
}

func (l Limits) check() error {
	if min(l.SinglePerMinute, l.BatchPerMinute, l.BulkPerHour) < 0 ||
		max(l.SinglePerMinute, l.BatchPerMinute, l.BulkPerHour) > MaxLimit {
		return ErrBadLimit
	}
	return nil
}

package store

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/hashicorp/golang-lru/simplelru"

	"probity/store/window"
)

// The lock-out: after freeAttempts failures in a row, logins for that address from that network are refused for a minute, then for
// twice as long after each further failure, up to maxLockout. Failures are reset a day after the last one.
const (
	freeAttempts  = 5
	firstLockout  = time.Minute
	maxLockout    = 15 * time.Minute
	forgetFailure = 24 * time.Hour
)

// The refusals of a login.
var (
	ErrBadCredentials = errors.New("wrong e-mail address or password")
	ErrDisabled       = errors.New("the account is disabled")
)

// ErrLockedOut refuses a login after repeated failures, right password or not.
type ErrLockedOut struct {
	Until time.Time
	Codes bool // wrong codes of the account, from all networks; else wrong passwords for the address, from one network
}

func (e *ErrLockedOut) Error() string {
	return "too many failed logins: try again after " + e.Until.UTC().Format(time.RFC3339)
}

// loginFailures counts the failures since the last success.
type loginFailures struct {
	Failures int
	Last     time.Time
	Until    time.Time // locked until then
}

// afterFailure returns the state after one more failure at now.
func (l loginFailures) afterFailure(now time.Time) loginFailures {
	if now.Sub(l.Last) > forgetFailure {
		l = loginFailures{}
	}
	l.Failures++
	l.Last = now.UTC()
	if l.Until = l.Last; l.Failures >= freeAttempts {
		l.Until = l.Last.Add(min(firstLockout<<min(l.Failures-freeAttempts, 10), maxLockout))
	}
	return l
}

// LoginsPerMinute is how many login attempts a client network may make in a minute. Few clients that log in share a network, and
// an attacker's guesses count only for its own.
const LoginsPerMinute = 30

// maxNetworks bounds the networks in memory: beyond it, the one that was idle longest is dropped.
const maxNetworks = 1 << 14

// networkOf is the network that one client can be expected to control: an IPv4 /24, an IPv6 /64. Clients without an address
// share one.
func networkOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := 24
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}

// loginAttempts counts logins by client network, and failures by address and network. It is only in memory: requests without an
// account must not write to the disk.
type loginAttempts struct {
	mu      sync.Mutex
	windows *simplelru.LRU // netip.Prefix to *window.Window; guarded by mu, windows included
	logins  *simplelru.LRU // loginKey to login; guarded by mu
}

// loginKey is the key by which failures are counted, whether or not the account exists.
type loginKey struct {
	email   KeyHash // of the folded address
	network netip.Prefix
	codes   bool // counts wrong codes, from all networks
}

// maxLogins bounds the entries of failures; the least recently used is dropped first. To displace one, an attacker needs as many
// attempts, from a thousand networks, and gains only freeAttempts.
const maxLogins = 1 << 15

func newLoginAttempts() *loginAttempts {
	windows, err := simplelru.NewLRU(maxNetworks, nil)
	logins, err2 := simplelru.NewLRU(maxLogins, nil)
	if err := errors.Join(err, err2); err != nil {
		panic("BUG: " + err.Error())
	}
	return &loginAttempts{windows: windows, logins: logins}
}

func (l Login) key() loginKey {
	return loginKey{email: hashSecret(foldEmail(l.Email)), network: networkOf(l.From)}
}

func (l Login) codeKey() loginKey {
	return loginKey{email: hashSecret(foldEmail(l.Email)), codes: true}
}

// begin refuses an attempt of a locked key. If counted, it counts another as a failure; succeed resets the count.
func (a *loginAttempts) begin(k loginKey, counted bool, now time.Time) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	known, _ := a.logins.Get(k)
	one, _ := known.(loginFailures)
	if now.Before(one.Until) {
		return &ErrLockedOut{Until: one.Until, Codes: k.codes}
	}
	if counted {
		a.logins.Add(k, one.afterFailure(now))
	}
	return nil
}

// succeed resets the failures of a key.
func (a *loginAttempts) succeed(k loginKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.logins.Remove(k)
}

// forgetAddress resets the failures of an address from all networks.
func (a *loginAttempts) forgetAddress(email string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	emailHash := hashSecret(foldEmail(email))
	for _, k := range a.logins.Keys() {
		if k.(loginKey).email == emailHash {
			a.logins.Remove(k)
		}
	}
}

// AllowLogin checks and counts one attempt to log in from a client's address.
func (s *Logins) AllowLogin(from netip.Addr, now time.Time) Decision {
	a, network := s.attempts, networkOf(from)
	a.mu.Lock()
	defer a.mu.Unlock()
	w := new(window.Window)
	if known, ok := a.windows.Get(network); ok {
		w = known.(*window.Window)
	} else {
		a.windows.Add(network, w)
	}
	return w.Allow(Limit{N: LoginsPerMinute, Per: time.Minute}, now)
}

// Logins are the passwords, second factors and sessions of accounts.
type Logins struct {
	*Accounts
	attempts *loginAttempts
}

// Login is an attempt to log in.
type Login struct {
	Email, Password string
	Code            string     // of the authenticator app, or a recovery code; only LogIn reads it
	From            netip.Addr // of the client
}

// CheckPassword returns the account of an address and a password; LogIn also checks a code. An unknown address is treated like a
// known one with a wrong password: it takes about the same time and is locked out alike, so that a client cannot find out whether
// the account exists. The lock-out holds only for the network of the failures: the owner can still log in from another.
// ErrDisabled is returned only after the right password.
func (s *Logins) CheckPassword(ctx context.Context, l Login, now time.Time) (User, error) {
	rec, err := s.matchPassword(ctx, l, now)
	if err != nil {
		return User{}, err
	}
	return s.finishLogin(l, rec)
}

// finishLogin ends an attempt with the right credentials.
func (s *Logins) finishLogin(l Login, rec userRecord) (User, error) {
	s.attempts.succeed(l.key())
	if rec.Disabled {
		return User{}, ErrDisabled
	}
	return rec.User, nil
}

// matchPassword returns the account of an address and a password. It counts the attempt as a failure, until succeed.
func (s *Logins) matchPassword(ctx context.Context, l Login, now time.Time) (userRecord, error) {
	if len(l.Password) > MaxPassword {
		return userRecord{}, ErrBadCredentials
	}
	if err := s.attempts.begin(l.key(), false, now); err != nil { // before it waits for a hash
		return userRecord{}, err
	}
	done, err := s.passwords.acquire(ctx)
	if err != nil {
		return userRecord{}, err
	}
	defer done()
	// Counted before the comparison, so that a hundred concurrent attempts count as a hundred, and after the wait for a slot.
	if err := s.attempts.begin(l.key(), true, now); err != nil {
		return userRecord{}, err
	}
	var rec userRecord
	id, err := get(s.db, emailKey(l.Email))
	if err == nil {
		rec, err = readUser(s.db, string(id))
	}
	if errors.Is(err, ErrNotFound) { // it takes the time of a comparison: an unknown address is not answered faster than a known one
		s.passwords.cost.derive(l.Password, make([]byte, 16), 32)
		return userRecord{}, ErrBadCredentials
	}
	if err != nil {
		return userRecord{}, err
	}
	ok, err := s.passwords.matches(rec.Password, l.Password)
	if err != nil {
		return userRecord{}, fmt.Errorf("password of %s: %w", rec.ID, err)
	}
	if !ok {
		return userRecord{}, ErrBadCredentials
	}
	return rec, nil
}

// NewPassword is a new password for an account.
type NewPassword struct {
	Password string
	Keep     string // the id of the session that does not end; empty: none
	By       string
}

// SetPassword replaces the account's password, ends its sessions except the one to keep, lifts a lock-out, and deletes a reset
// token, unless a part of allowed, in the same commit, returns an error.
func (s *Logins) SetPassword(ctx context.Context, account string, p NewPassword, now time.Time, allowed ...Part) error {
	if err := checkPasswordLength(p.Password); err != nil {
		return err
	}
	hash, err := s.passwords.hash(ctx, p.Password)
	if err != nil {
		return err
	}
	var email string
	err = s.Commit(account, append(allowed,
		changeUser(account, func(rec *userRecord) error {
			rec.Password, rec.Reset, email = hash, nil, rec.Email
			return nil
		}),
		dropSessions(account, p.Keep),
		AuditEvent{At: now, By: p.By, Action: "user password", Target: account}.write)...)
	if err == nil {
		s.attempts.forgetAddress(email)
	}
	return err
}

// resetTime is how long a reset token is valid.
const resetTime = time.Hour

// ErrNoReset refuses a reset token that is wrong, used, expired or replaced by a newer one.
var ErrNoReset = errors.New("the link for a new password is not good: it works once, and for an hour")

// reset is the token for a new password without the old one. An account has one at most.
type reset struct {
	Hash    KeyHash   `json:"hash"`
	Expires time.Time `json:"expires"`
}

// NewReset makes a token that is valid once, within an hour, to set a new password for the account. It replaces an earlier token. Only
// this call returns it.
func (s *Logins) NewReset(account, by string, now time.Time) (token string, expires time.Time, err error) {
	secret := randomBase62(tokenLength)
	one := reset{hashSecret(secret), now.Add(resetTime).UTC()}
	err = s.commitUser(account, changeUser(account, func(rec *userRecord) error {
		if rec.Disabled {
			return ErrDisabled
		}
		rec.Reset = &one
		return nil
	}),
		AuditEvent{At: now, By: by, Action: "reset link", Target: account}.write)
	if err != nil {
		return "", time.Time{}, err
	}
	return account + "." + secret, one.Expires, nil
}

// ResetPassword uses up a token: it replaces the password, lifts a lock-out, and ends all sessions. from is the client's address.
func (s *Logins) ResetPassword(ctx context.Context, token, password, from string, now time.Time) error {
	account, secret, _ := strings.Cut(token, ".")
	if checkName("account", account) != nil {
		return ErrNoReset
	}
	good := func(r pebble.Reader) error {
		rec, err := readUser(r, account)
		if errors.Is(err, ErrNotFound) {
			return ErrNoReset
		}
		if err != nil {
			return err
		}
		sent := hashSecret(secret)
		if rec.Disabled || rec.Reset == nil || !now.Before(rec.Reset.Expires) || subtle.ConstantTimeCompare(sent[:], rec.Reset.Hash[:]) != 1 {
			return ErrNoReset
		}
		return nil
	}
	if err := good(s.db); err != nil {
		return err // before anything is hashed
	}
	stillValid := func(b *pebble.Batch) error { return good(b) }
	return s.SetPassword(ctx, account, NewPassword{Password: password, By: AuditActor(account, from)}, now, stillValid)
}

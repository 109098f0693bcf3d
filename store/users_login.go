package store

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"probity/store/base62"
	"probity/store/signin"
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

// LoginsPerMinute is how many login attempts a client network may make in a minute.
const LoginsPerMinute = signin.NetworkPerMinute

// AllowLogin checks and counts one attempt to log in from a client's address.
func (l *Logins) AllowLogin(from netip.Addr, now time.Time) Decision { return l.guard.Allow(from, now) }

// Logins are the passwords, second factors and sessions of accounts.
type Logins struct {
	*Accounts
	guard *signin.Guard
}

// Login is an attempt to log in.
type Login struct {
	Email, Password string
	Code            string     // of the authenticator app, or a recovery code; only LogIn reads it
	From            netip.Addr // of the client
}

// signinSecret is the name of the secret with which the keys of failures are made.
const signinSecret = "sign-ins"

// lockoutsLock serialises the writing of lock-outs, so that the last one written is what the guard knows.
const lockoutsLock = "\x00lock-outs"

// saveLockouts writes the lock-outs that began, and removes those that were dropped.
func (l *Logins) saveLockouts() error {
	if !l.guard.HasChanges() {
		return nil
	}
	return l.Commit(lockoutsLock, func(b *pebble.Batch) error {
		return l.guard.Changes(func(k signin.Key, f signin.Failures) error {
			if !f.LockOut() {
				return b.Delete(key(tableLockout, string(k[:])), nil)
			}
			return setExpiring(b, key(tableLockout, string(k[:])), f.Forgotten(), f)
		})
	})
}

// loadLockouts reads what saveLockouts wrote.
func (l *Logins) loadLockouts() error {
	return scan(l.db, []byte{tableLockout}, nil, func(k, v []byte) error {
		var f signin.Failures
		if len(k) != 1+len(signin.Key{}) || len(v) < expirySize {
			return fmt.Errorf("a lock-out of %d and %d bytes", len(k), len(v))
		}
		if err := decodeJSON(k, v[expirySize:], &f); err != nil {
			return err
		}
		l.guard.Restore(signin.Key(k[1:]), f)
		return nil
	})
}

// SweepLockouts forgets failures that no longer count, and deletes their lock-outs. It returns their number.
func (l *Logins) SweepLockouts(now time.Time) (int, error) {
	n := l.guard.Sweep(now)
	return n, l.saveLockouts()
}

// passwordKey is the key by which wrong passwords are counted.
func (l *Logins) passwordKey(login Login) (signin.Key, error) {
	secret, err := l.Secret(signinSecret)
	return signin.ForPasswords(secret, FoldEmail(login.Email), login.From), err
}

// codeKey is the key by which wrong codes are counted.
func (l *Logins) codeKey(login Login) (signin.Key, error) {
	secret, err := l.Secret(signinSecret)
	return signin.ForCodes(secret, FoldEmail(login.Email)), err
}

// countFailure counts an attempt as a failure, until succeed. If its key is locked out, it returns until when instead.
// A lock-out that begins is durable before the attempt goes on, whether or not there is such an account.
func (l *Logins) countFailure(k signin.Key, now time.Time) (until time.Time, err error) {
	until = l.guard.Count(k, now)
	if !until.IsZero() {
		return until, nil
	}
	return until, l.saveLockouts()
}

// succeed forgets the failures of a key.
func (l *Logins) succeed(k signin.Key) error {
	l.guard.Succeed(k)
	return l.saveLockouts()
}

// CheckPassword returns the account of an address and a password; LogIn also checks a code. An unknown address is
// treated like a known one with a wrong password: it takes about the same time and is locked out alike, so that a
// client cannot find out whether the account exists. The lock-out holds only for the network of the failures: the owner
// can still log in from another. ErrDisabled is returned only after the right password.
func (l *Logins) CheckPassword(ctx context.Context, login Login, now time.Time) (User, error) {
	rec, err := l.matchPassword(ctx, login, now)
	if err != nil {
		return User{}, err
	}
	return l.finishLogin(login, rec)
}

// finishLogin ends an attempt with the right credentials.
func (l *Logins) finishLogin(login Login, rec userRecord) (User, error) {
	k, err := l.passwordKey(login)
	if err == nil {
		err = l.succeed(k)
	}
	if err != nil {
		return User{}, err
	}
	if rec.Disabled {
		return User{}, ErrDisabled
	}
	return rec.User, nil
}

// matchPassword returns the account of an address and a password. It counts the attempt as a failure, until succeed.
func (l *Logins) matchPassword(ctx context.Context, login Login, now time.Time) (userRecord, error) {
	if len(login.Password) > MaxPassword {
		return userRecord{}, ErrBadCredentials
	}
	k, err := l.passwordKey(login)
	if err != nil {
		return userRecord{}, err
	}
	if until := l.guard.Locked(k, now); !until.IsZero() { // before it waits for a hash
		return userRecord{}, &ErrLockedOut{Until: until}
	}
	done, err := l.passwords.Acquire(ctx)
	if err != nil {
		return userRecord{}, err
	}
	defer done()
	// Counted before the comparison, so that a hundred concurrent attempts count as a hundred, and after the wait for a
	// slot.
	until, err := l.countFailure(k, now)
	if err != nil {
		return userRecord{}, err
	}
	if !until.IsZero() {
		return userRecord{}, &ErrLockedOut{Until: until}
	}
	var rec userRecord
	id, err := get(l.db, emailKey(login.Email))
	if err == nil {
		rec, err = readUser(l.db, string(id))
	}
	// it takes the time of a comparison: an unknown address is not answered faster than a known one
	if errors.Is(err, ErrNotFound) {
		l.passwords.MatchNothing(login.Password)
		return userRecord{}, ErrBadCredentials
	}
	if err != nil {
		return userRecord{}, err
	}
	ok, err := l.passwords.Matches(rec.Password, login.Password)
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

// SetPassword replaces the account's password, ends its sessions except the one to keep, lifts a lock-out, and deletes
// a reset token, unless a part of allowed, in the same commit, returns an error.
func (l *Logins) SetPassword(ctx context.Context, account string, p NewPassword, now time.Time, allowed ...Part) error {
	if err := checkPasswordLength(p.Password); err != nil {
		return err
	}
	hash, err := l.passwords.Hash(ctx, p.Password)
	if err != nil {
		return err
	}
	var email string
	err = l.Commit(account, append(allowed,
		changeUser(account, func(rec *userRecord) error {
			rec.Password, rec.Reset, email = hash, nil, rec.Email
			return nil
		}),
		dropSessions(account, p.Keep),
		AuditEvent{At: now, By: p.By, Action: "user password", Target: account}.write)...)
	if err != nil {
		return err
	}
	k, err := l.passwordKey(Login{Email: email})
	if err != nil {
		return err
	}
	l.guard.ForgetLogin(k)
	return l.saveLockouts()
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

// NewReset makes a token that is valid once, within an hour, to set a new password for the account. It replaces an
// earlier token. Only this call returns it.
func (l *Logins) NewReset(account, by string, now time.Time) (token string, expires time.Time, err error) {
	secret := base62.Random(tokenLength)
	one := reset{hashSecret(secret), now.Add(resetTime).UTC()}
	err = l.commitUser(account, changeUser(account, func(rec *userRecord) error {
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

// ResetPassword uses up a token: it replaces the password, lifts a lock-out, and ends all sessions. from is the
// client's address.
func (l *Logins) ResetPassword(ctx context.Context, token, password, from string, now time.Time) error {
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
		if rec.Disabled || rec.Reset == nil || !now.Before(rec.Reset.Expires) ||
			subtle.ConstantTimeCompare(sent[:], rec.Reset.Hash[:]) != 1 {
			return ErrNoReset
		}
		return nil
	}
	if err := good(l.db); err != nil {
		return err // before anything is hashed
	}
	stillValid := func(b *pebble.Batch) error { return good(b) }
	return l.SetPassword(ctx, account, NewPassword{Password: password, By: AuditActor(account, from)}, now, stillValid)
}

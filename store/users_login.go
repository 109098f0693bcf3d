package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// The lock-out: after freeAttempts failures in a row the account takes no password for a minute, then twice as long
// after each further failure, up to maxLockout. Failures are forgotten a day after the last one.
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
type ErrLockedOut struct{ Until time.Time }

func (e *ErrLockedOut) Error() string {
	return "too many failed logins: try again after " + e.Until.UTC().Format(time.RFC3339)
}

// login is what is remembered of the attempts since the last success.
type login struct {
	Failures int       `json:"failures"`
	Last     time.Time `json:"last"`
	Until    time.Time `json:"until"` // locked until then
}

// next is the state after one more attempt at now, which counts as failed until it has succeeded.
func (l login) next(now time.Time) login {
	if now.Sub(l.Last) > forgetFailure {
		l = login{}
	}
	l.Failures++
	l.Last = now.UTC()
	l.Until = l.Last.Add(lockout(l.Failures))
	return l
}

func lockout(failures int) time.Duration {
	if failures < freeAttempts {
		return 0
	}
	return min(firstLockout<<min(failures-freeAttempts, 10), maxLockout)
}

// CheckPassword is the account that logs in with e-mail address and password. An unknown address, a wrong password and
// a lock-out cost the caller the same time as a success, within reason; a disabled account is told so only after the
// right password.
func (s *Store) CheckPassword(ctx context.Context, email, password string, now time.Time) (User, error) {
	if len(password) > MaxPassword {
		return User{}, ErrBadCredentials
	}
	id, err := get(s.db, emailKey(email))
	if errors.Is(err, ErrNotFound) {
		return User{}, errors.Join(ErrBadCredentials, s.live.passwords.waste(ctx, password))
	}
	if err != nil {
		return User{}, err
	}
	rec, err := s.countAttempt(string(id), now)
	if err != nil {
		return User{}, err
	}
	ok, err := s.live.passwords.matches(ctx, rec.Password, password)
	if err != nil {
		return User{}, fmt.Errorf("password of %s: %w", rec.ID, err)
	}
	if !ok {
		return User{}, ErrBadCredentials
	}
	forget := func(b *pebble.Batch) error { return b.Delete(key(tableLogin, rec.ID), nil) }
	if err := s.Commit(rec.ID, forget); err != nil {
		return User{}, err
	}
	if rec.Disabled {
		return User{}, ErrDisabled
	}
	return rec.User, nil
}

// countAttempt commits an attempt before its password is compared, so that a hundred at once count as a hundred.
func (s *Store) countAttempt(account string, now time.Time) (rec userRecord, err error) {
	err = s.Commit(account, func(b *pebble.Batch) error {
		if rec, err = readUser(b, account); err != nil {
			return err
		}
		var l login
		if err := getJSON(b, key(tableLogin, account), &l); err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if now.Before(l.Until) {
			return &ErrLockedOut{Until: l.Until}
		}
		return setJSON(b, key(tableLogin, account), l.next(now))
	})
	return rec, err
}

// NewPassword is what an account's password becomes.
type NewPassword struct {
	Password string
	Keep     string // the id of the session that goes on; empty: none does
	By       string
}

// SetPassword replaces the account's password, ends its sessions save the one to keep, and lifts a lock-out.
func (s *Store) SetPassword(ctx context.Context, account string, p NewPassword, now time.Time) error {
	if err := checkPasswordLength(p.Password); err != nil {
		return err
	}
	hash, err := s.live.passwords.hash(ctx, p.Password)
	if err != nil {
		return err
	}
	return s.Commit(account,
		changeUser(account, func(rec *userRecord) { rec.Password = hash }),
		dropSessions(account, p.Keep),
		func(b *pebble.Batch) error { return b.Delete(key(tableLogin, account), nil) },
		Act{At: now, By: p.By, Act: "user password", Target: account}.write)
}

package store

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// The lock-out: after freeAttempts failures in a row no password of that address is taken from that network for a minute, then
// twice as long after each further failure, up to maxLockout. Failures are forgotten a day after the last one.
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
	Codes bool // of the account, from everywhere; else passwords for the e-mail address from one network
}

func (e *ErrLockedOut) Error() string {
	return "too many failed logins: try again after " + e.Until.UTC().Format(time.RFC3339)
}

// loginFailures is what is remembered of the attempts since the last success.
type loginFailures struct {
	Failures int
	Last     time.Time
	Until    time.Time // locked until then
}

// afterFailure is the state after one more attempt at now, which counts as failed until it has succeeded.
func (l loginFailures) afterFailure(now time.Time) loginFailures {
	if now.Sub(l.Last) > forgetFailure {
		l = loginFailures{}
	}
	l.Failures++
	l.Last = now.UTC()
	l.Until = l.Last.Add(lockoutTime(l.Failures))
	return l
}

func lockoutTime(failures int) time.Duration {
	if failures < freeAttempts {
		return 0
	}
	return min(firstLockout<<min(failures-freeAttempts, 10), maxLockout)
}

// Login is an attempt to log in.
type Login struct {
	Email, Password string
	Code            string     // of the authenticator app, or a recovery code; LogIn alone reads it
	From            netip.Addr // of the client
}

// CheckPassword is the account that a password proves; LogIn asks for more. An unknown address is treated like a known one with a
// wrong password: it takes the same time, within reason, and is locked out alike, so that neither tells who has an account. The
// lock-out holds for the network that the failures came from: they lock its owner out nowhere else. A disabled account is told so
// only after the right password.
func (s *Store) CheckPassword(ctx context.Context, l Login, now time.Time) (User, error) {
	rec, err := s.matchPassword(ctx, l, now)
	if err != nil {
		return User{}, err
	}
	return s.finishLogin(l, rec)
}

// finishLogin is the end of an attempt that proved all that was asked for.
func (s *Store) finishLogin(l Login, rec userRecord) (User, error) {
	s.accountCache.attempts.succeed(l.key())
	if rec.Disabled {
		return User{}, ErrDisabled
	}
	return rec.User, nil
}

// matchPassword is the account of an address and a password. It has counted the attempt, which may still fail.
func (s *Store) matchPassword(ctx context.Context, l Login, now time.Time) (userRecord, error) {
	if len(l.Password) > MaxPassword {
		return userRecord{}, ErrBadCredentials
	}
	if err := s.accountCache.attempts.checkLocked(l.key(), now); err != nil {
		return userRecord{}, err
	}
	done, err := s.accountCache.passwords.acquire(ctx)
	if err != nil {
		return userRecord{}, err
	}
	defer done()
	// It counts before the password is compared, so that a hundred at once count as a hundred, and not before it had its turn.
	if err := s.accountCache.attempts.countAttempt(l.key(), now); err != nil {
		return userRecord{}, err
	}
	rec, err := s.userByLogin(l.Email)
	if errors.Is(err, ErrNotFound) {
		s.accountCache.passwords.constantTimeMiss(l.Password)
		return userRecord{}, ErrBadCredentials
	}
	if err != nil {
		return userRecord{}, err
	}
	ok, err := s.accountCache.passwords.matches(rec.Password, l.Password)
	if err != nil {
		return userRecord{}, fmt.Errorf("password of %s: %w", rec.ID, err)
	}
	if !ok {
		return userRecord{}, ErrBadCredentials
	}
	return rec, nil
}

func (s *Store) userByLogin(email string) (userRecord, error) {
	id, err := get(s.db, emailKey(email))
	if err != nil {
		return userRecord{}, err
	}
	return readUser(s.db, string(id))
}

// NewPassword is what an account's password becomes.
type NewPassword struct {
	Password string
	Keep     string // the id of the session that goes on; empty: none does
	By       string
}

// SetPassword replaces the account's password, ends its sessions save the one to keep, and lifts a lock-out. A reset token that
// was made for the old password is not good any more.
func (s *Store) SetPassword(ctx context.Context, account string, p NewPassword, now time.Time) error {
	return s.setPassword(ctx, account, p, now, func(*pebble.Batch) error { return nil })
}

// setPassword is SetPassword if the part allows it, in the same commit.
func (s *Store) setPassword(ctx context.Context, account string, p NewPassword, now time.Time, allowed Part) error {
	if err := checkPasswordLength(p.Password); err != nil {
		return err
	}
	hash, err := s.accountCache.passwords.hash(ctx, p.Password)
	if err != nil {
		return err
	}
	var email string
	err = s.Commit(account, allowed,
		changeUser(account, func(rec *userRecord) { rec.Password, rec.Reset, email = hash, nil, rec.Email }),
		dropSessions(account, p.Keep),
		AuditEvent{At: now, By: p.By, Action: "user password", Target: account}.write)
	if err == nil {
		s.accountCache.attempts.forgetAddress(email)
	}
	return err
}

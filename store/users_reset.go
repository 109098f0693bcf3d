package store

import (
	"context"
	"crypto/subtle"
	"errors"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

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
func (s *Store) NewReset(account, by string, now time.Time) (token string, expires time.Time, err error) {
	secret := randomBase62(tokenLength)
	one := reset{hashSecret(secret), now.Add(resetTime).UTC()}
	err = s.commitUser(account, changeUser(account, func(rec *userRecord) error { rec.Reset = &one; return nil }),
		AuditEvent{At: now, By: by, Action: "reset link", Target: account}.write)
	if err != nil {
		return "", time.Time{}, err
	}
	return account + "." + secret, one.Expires, nil
}

// ResetPassword uses up a token: it replaces the password, lifts a lock-out, and ends all sessions. from is the client's address.
func (s *Store) ResetPassword(ctx context.Context, token, password, from string, now time.Time) error {
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
	return s.setPassword(ctx, account, NewPassword{Password: password, By: AuditActor(account, from)}, now, stillValid)
}

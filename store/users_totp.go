package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// The refusals of a second factor.
var (
	ErrCodeNeeded = errors.New("the account asks for a code as well")
	ErrBadCode    = errors.New("the code is wrong, or was used")
	ErrTOTPOn     = errors.New("the account asks for codes already")
	ErrNoTOTP     = errors.New("no secret was made for the account's app")
	ErrTOTPOff    = errors.New("the account asks for no codes: TOTP is off")
)

// LogIn is CheckPassword for a new session: an account with TOTP also needs a code, and ErrCodeNeeded is returned only after the
// right password. An attempt without a code counts as a failure until one with a code succeeds. Wrong codes are also counted by
// account, over all networks: their sender knows the password, and could try a million codes from a thousand networks.
func (s *Store) LogIn(ctx context.Context, l Login, now time.Time) (User, error) {
	rec, err := s.matchPassword(ctx, l, now)
	if err != nil {
		return User{}, err
	}
	if rec.TOTP {
		if l.Code == "" {
			return User{}, ErrCodeNeeded
		}
		if err := s.accountCache.attempts.countAttempt(l.codeKey(), now); err != nil {
			return User{}, err
		}
		if err := s.useCode(rec.ID, l, now); err != nil {
			return User{}, err
		}
		s.accountCache.attempts.succeed(l.codeKey())
	}
	return s.finishLogin(l, rec)
}

// useCode uses up a code. That is durable before the login goes on, so that no crash makes a code valid again.
func (s *Store) useCode(account string, l Login, now time.Time) error {
	return s.Commit(account, func(b *pebble.Batch) error {
		rec, err := readUser(b, account)
		if err != nil || !rec.TOTP {
			return err // it was switched off meanwhile
		}
		had := len(rec.Second.Recovery)
		if !rec.Second.useCode(l.Code, now) {
			return ErrBadCode
		}
		if err := setJSON(b, key(tableUser, account), rec); err != nil || len(rec.Second.Recovery) == had {
			return err
		}
		event := AuditEvent{At: now, By: account, Action: "recovery code", Target: account, Note: fmt.Sprintf("%d left", len(rec.Second.Recovery))}
		if l.From.IsValid() {
			event.From = l.From.String()
		}
		return event.write(b)
	})
}

// NewTOTP makes the secret for an authenticator app, as text to type into it. Only this call returns it. It has no effect until
// TOTPOn is called with a code of it; a newer one replaces it.
func (s *Store) NewTOTP(account string) (secret string, err error) {
	second := newSecondFactor()
	err = s.commitUser(account, changeUser(account, func(rec *userRecord) error {
		if rec.TOTP {
			return ErrTOTPOn
		}
		rec.Second = second
		return nil
	}))
	return base32Text.EncodeToString(second.Secret), err
}

// TOTPOn switches TOTP on if the code belongs to the last secret, ends the account's sessions except keep, and returns the recovery
// codes, which are stored only as hashes.
func (s *Store) TOTPOn(account, code, keep, by string, now time.Time) (recovery []string, err error) {
	err = s.commitUser(account, changeUser(account, func(rec *userRecord) error {
		switch {
		case rec.TOTP:
			return ErrTOTPOn
		case rec.Second == nil:
			return ErrNoTOTP
		case !rec.Second.useCode(code, now):
			return ErrBadCode
		}
		rec.TOTP, recovery = true, rec.Second.renewRecovery()
		return nil
	}), dropSessions(account, keep), AuditEvent{At: now, By: by, Action: "totp on", Target: account}.write)
	return recovery, err
}

// TOTPOff switches TOTP off, deletes the secret and the recovery codes, and ends the account's sessions except keep. If TOTP is off
// already, it changes nothing and returns ErrTOTPOff.
func (s *Store) TOTPOff(account, keep, by string, now time.Time) error {
	return s.commitUser(account, changeUser(account, func(rec *userRecord) error {
		if !rec.TOTP {
			return ErrTOTPOff
		}
		rec.TOTP, rec.Second = false, nil
		return nil
	}), dropSessions(account, keep), AuditEvent{At: now, By: by, Action: "totp off", Target: account}.write)
}

// RecoveryLeft returns the number of unused recovery codes of the account.
func (s *Store) RecoveryLeft(account string) (int, error) {
	rec, err := readUser(s.db, account)
	if err != nil || !rec.TOTP {
		return 0, err
	}
	return len(rec.Second.Recovery), nil
}

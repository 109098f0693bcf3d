package store

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" // as RFC 6238 has it; collisions do not weaken HMAC
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// TOTP follows RFC 6238 with the values that all authenticator apps support: SHA-1, 30 seconds, six digits.
const (
	totpStep   = 30 // seconds
	totpDigits = 6
	totpSecret = 20 // bytes, as long as the hash (RFC 4226, section 4)
	totpSkew   = 1  // steps by which the app's clock may be off, either way

	recoveryCodes  = 10
	recoveryLength = 16 // characters of base32: 80 bits, so that a plain hash is as good as a slow one
)

// base32Text is the encoding of secrets that are typed into an app, and of recovery codes.
var base32Text = base32.StdEncoding.WithPadding(base32.NoPadding)

// totpCode is the code of a step (RFC 4226, section 5.3).
func totpCode(secret []byte, step int64, digits int) string {
	mac := hmac.New(sha1.New, secret)
	mac.Write(binary.BigEndian.AppendUint64(nil, uint64(step)))
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 0xf
	code := uint64(binary.BigEndian.Uint32(sum[at:at+4]) & 0x7fffffff)
	modulus := uint64(1)
	for range digits {
		modulus *= 10
	}
	return fmt.Sprintf("%0*d", digits, code%modulus)
}

// secondFactor is an account's second factor. Its secret is stored in clear, because codes are computed from it.
type secondFactor struct {
	Secret   []byte    `json:"secret"`
	Step     int64     `json:"step"` // of the last code that was used: no code is valid twice
	Recovery []KeyHash `json:"recovery,omitempty"`
}

func newSecondFactor() *secondFactor {
	f := &secondFactor{Secret: make([]byte, totpSecret)}
	rand.Read(f.Secret)
	return f
}

// renewRecovery replaces the recovery codes, and returns the new ones in the form for people.
func (f *secondFactor) renewRecovery() []string {
	f.Recovery = nil
	var codes []string
	for range recoveryCodes {
		random := make([]byte, recoveryLength*5/8)
		rand.Read(random)
		code := strings.ToLower(base32Text.EncodeToString(random))
		f.Recovery = append(f.Recovery, hashSecret(code))
		codes = append(codes, code[:4]+"-"+code[4:8]+"-"+code[8:12]+"-"+code[12:])
	}
	return codes
}

// normalizeCode removes the spaces and dashes that people and apps put into a code.
func normalizeCode(code string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "-", "").Replace(code))
}

// useCode uses up a code of the app that is newer than the last one, or a recovery code, and reports whether it was
// valid.
func (f *secondFactor) useCode(code string, now time.Time) bool {
	code = normalizeCode(code)
	if len(code) == totpDigits {
		present := now.Unix() / totpStep
		for step := max(present-totpSkew, f.Step+1); step <= present+totpSkew; step++ {
			if subtle.ConstantTimeCompare([]byte(totpCode(f.Secret, step, totpDigits)), []byte(code)) == 1 {
				f.Step = step
				return true
			}
		}
		return false
	}
	sent := hashSecret(code)
	i := slices.IndexFunc(f.Recovery, func(h KeyHash) bool { return subtle.ConstantTimeCompare(h[:], sent[:]) == 1 })
	if i < 0 {
		return false
	}
	f.Recovery = slices.Delete(f.Recovery, i, i+1)
	return true
}

// The refusals of a second factor.
var (
	ErrCodeNeeded = errors.New("the account asks for a code as well")
	ErrBadCode    = errors.New("the code is wrong, or was used")
	ErrTOTPOn     = errors.New("the account asks for codes already")
	ErrNoTOTP     = errors.New("no secret was made for the account's app")
	ErrTOTPOff    = errors.New("TOTP is off for this account")
)

// LogIn is CheckPassword for a new session: an account with TOTP also needs a code, and ErrCodeNeeded is returned only
// after the right password. An attempt without a code counts as a failure until one with a code succeeds. Wrong codes
// of the app are also counted by account, over all networks: their sender knows the password, and could try a million
// codes from a thousand networks.
func (l *Logins) LogIn(ctx context.Context, login Login, now time.Time) (User, error) {
	rec, err := l.matchPassword(ctx, login, now)
	if err != nil {
		return User{}, err
	}
	if rec.TOTP {
		if login.Code == "" {
			return User{}, ErrCodeNeeded
		}
		k, err := l.codeKey(login)
		if err != nil {
			return User{}, err
		}
		// no lock-out for recovery codes, whose 80 bits are not guessed
		if len(normalizeCode(login.Code)) == totpDigits {
			until, err := l.countFailure(k, now)
			if err != nil {
				return User{}, err
			}
			if !until.IsZero() {
				return User{}, &ErrLockedOut{Until: until, Codes: true}
			}
		}
		// The code is used up durably before the login goes on, so that no crash makes a code valid again.
		err = l.Commit(rec.ID, func(b *pebble.Batch) error {
			rec, err := readUser(b, rec.ID)
			if err != nil || !rec.TOTP {
				return err // it was switched off meanwhile
			}
			had := len(rec.Second.Recovery)
			if !rec.Second.useCode(login.Code, now) {
				return ErrBadCode
			}
			if err := setJSON(b, key(tableUser, rec.ID), rec); err != nil || len(rec.Second.Recovery) == had {
				return err
			}
			event := AuditEvent{At: now, By: rec.ID, Action: "recovery code", Target: rec.ID,
				Note: fmt.Sprintf("%d left", len(rec.Second.Recovery))}
			if login.From.IsValid() {
				event.From = login.From.String()
			}
			return event.write(b)
		})
		if err != nil {
			return User{}, err
		}
		if err := l.succeed(k); err != nil {
			return User{}, err
		}
	}
	return l.finishLogin(login, rec)
}

// NewTOTP makes the secret for an authenticator app, as text to type into it. Only this call returns it. It has no
// effect until TOTPOn is called with a code of it; a newer one replaces it.
func (l *Logins) NewTOTP(account string) (secret string, err error) {
	second := newSecondFactor()
	err = l.commitUser(account, changeUser(account, func(rec *userRecord) error {
		if rec.TOTP {
			return ErrTOTPOn
		}
		rec.Second = second
		return nil
	}))
	return base32Text.EncodeToString(second.Secret), err
}

// TOTPOn switches TOTP on if the code belongs to the last secret, ends the account's sessions except keep, and returns
// the recovery codes, which are stored only as hashes.
func (l *Logins) TOTPOn(account, code, keep, by string, now time.Time) (recovery []string, err error) {
	err = l.commitUser(account, changeUser(account, func(rec *userRecord) error {
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

// TOTPOff switches TOTP off, deletes the secret and the recovery codes, and ends the account's sessions except keep. If
// TOTP is off already, it changes nothing and returns ErrTOTPOff.
func (l *Logins) TOTPOff(account, keep, by string, now time.Time) error {
	return l.commitUser(account, changeUser(account, func(rec *userRecord) error {
		if !rec.TOTP {
			return ErrTOTPOff
		}
		rec.TOTP, rec.Second = false, nil
		return nil
	}), dropSessions(account, keep), AuditEvent{At: now, By: by, Action: "totp off", Target: account}.write)
}

// RecoveryLeft returns the number of unused recovery codes of the account.
func (l *Logins) RecoveryLeft(account string) (int, error) {
	rec, err := readUser(l.db, account)
	if err != nil || !rec.TOTP {
		return 0, err
	}
	return len(rec.Second.Recovery), nil
}

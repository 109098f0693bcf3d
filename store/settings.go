package store

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// secretSize is the length of the secrets that the store makes, in bytes.
const secretSize = 32

// Secret returns a random secret of this installation. It is made at its first use, never changes, and never leaves the
// server.
func (d *DB) Secret(name string) (secret []byte, err error) {
	if err := checkName("secret", name); err != nil {
		return nil, err
	}
	secret, err = d.Setting("secret " + name)
	if secret != nil || err != nil {
		return secret, err
	}
	err = d.Commit("", func(b *pebble.Batch) error {
		secret, err = d.Setting("secret " + name)
		if secret != nil || err != nil {
			return err
		}
		secret = make([]byte, secretSize)
		rand.Read(secret)
		return b.Set(key(tableSetting, "secret "+name), secret, nil)
	})
	return secret, err
}

// Setting returns a setting of the installation; nil if it is not there.
func (d *DB) Setting(name string) ([]byte, error) {
	v, err := get(d.db, key(tableSetting, name))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return v, err
}

// ChangeSetting makes of a setting what change makes of it.
func (d *DB) ChangeSetting(name string, event AuditEvent, change func(former []byte) ([]byte, error)) error {
	return d.Commit("", func(b *pebble.Batch) error {
		former, err := d.Setting(name)
		if err == nil {
			former, err = change(former)
		}
		if err != nil {
			return err
		}
		return b.Set(key(tableSetting, name), former, nil)
	}, event.write)
}

// callbackSecret is the name of an account's setting.
const callbackSecret = "callback secret"

// secretPrefix is the prefix of a signing secret in the notation of Standard Webhooks; base64 follows.
const secretPrefix = "whsec_"

// SecretOverlap is for how long callbacks are signed with the former secret as well after a rotation.
const SecretOverlap = 24 * time.Hour

// Signing is how an account's callbacks are signed; the zero value: not at all.
type Signing struct {
	Secret string    `json:"secret"`
	Former string    `json:"former,omitempty"` // valid too, if it is not empty
	Until  time.Time `json:"until,omitzero"`   // when the former one ends
}

// NewCallbackSecret gives the account a new random signing secret for its callbacks. The one before stays valid for
// SecretOverlap.
func (s *Store) NewCallbackSecret(account, by string, now time.Time) (secret string, err error) {
	random := make([]byte, secretSize)
	rand.Read(random)
	secret = secretPrefix + base64.StdEncoding.EncodeToString(random)
	return secret, s.changeSigning(account, by, "set", now, func(former Signing) Signing {
		if former.Secret == "" {
			return Signing{Secret: secret}
		}
		return Signing{Secret: secret, Former: former.Secret, Until: now.Add(SecretOverlap).UTC()}
	})
}

// DropCallbackSecrets ends the account's signing secrets at once: its callbacks are not signed any more.
func (s *Store) DropCallbackSecrets(account, by string, now time.Time) error {
	return s.changeSigning(account, by, "removed", now, func(Signing) Signing { return Signing{} })
}

func (s *Store) changeSigning(account, by, note string, now time.Time, change func(Signing) Signing) error {
	k := subKey(tableAccount, account, callbackSecret)
	event := AuditEvent{At: now, By: by, Action: "callback secret", Target: account, Note: note}
	err := s.Commit(account, func(b *pebble.Batch) error {
		if _, err := readUser(b, account); err != nil {
			return err
		}
		former, err := readJSON[Signing](b, k)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		next := change(former)
		if next.Secret == "" {
			return b.Delete(k, nil)
		}
		return setJSON(b, k, next)
	}, event.write)
	if err != nil {
		return fmt.Errorf("callback secret of %s: %w", account, err)
	}
	return nil
}

// Signing returns how the account's callbacks are signed at now.
func (s *Store) Signing(account string, now time.Time) (Signing, error) {
	v, err := readJSON[Signing](s.db, subKey(tableAccount, account, callbackSecret))
	if errors.Is(err, ErrNotFound) {
		return Signing{}, nil
	}
	if !now.Before(v.Until) {
		v.Former, v.Until = "", time.Time{}
	}
	return v, err
}

// SaveClock stores the time of the wall clock.
func (s *Store) SaveClock(now time.Time) error {
	return s.Commit("", func(b *pebble.Batch) error {
		return b.Set(key(tableMeta, "clock"), appendUint64(nil, uint64(now.UnixMilli())), nil)
	})
}

// SavedClock returns the time that SaveClock stored last; zero for never.
func (s *Store) SavedClock() (time.Time, error) {
	n, err := getUint64(s.db, key(tableMeta, "clock"), "clock record")
	if err != nil || n == 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(int64(n)), nil
}

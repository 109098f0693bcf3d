package store

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// secretSize is the length of the secrets that the store makes, in bytes.
const secretSize = 32

// Secret returns a random secret of this installation. It is made at its first use, never changes, and never leaves the
// server.
func (s *DB) Secret(name string) (secret []byte, err error) {
	if err := checkName("secret", name); err != nil {
		return nil, err
	}
	k := key(tableSetting, "secret "+name)
	secret, err = get(s.db, k)
	if err == nil || !errors.Is(err, ErrNotFound) {
		return secret, err
	}
	err = s.Commit("", func(b *pebble.Batch) error {
		if secret, err = get(b, k); err == nil || !errors.Is(err, ErrNotFound) {
			return err
		}
		secret = make([]byte, secretSize)
		rand.Read(secret)
		return b.Set(k, secret, nil)
	})
	return secret, err
}

// callbackSecret is the name of an account's setting.
const callbackSecret = "callback secret"

// secretPrefix is the prefix of a signing secret in the notation of Standard Webhooks; base64 follows.
const secretPrefix = "whsec_"

// ErrBadSecret refuses a malformed signing secret.
var ErrBadSecret = errors.New("a signing secret is whsec_ and the base64 of 24 to 64 bytes")

// NewCallbackSecret gives the account a new random signing secret for its callbacks.
func (s *Store) NewCallbackSecret(account, by string, now time.Time) (string, error) {
	random := make([]byte, secretSize)
	rand.Read(random)
	secret := secretPrefix + base64.StdEncoding.EncodeToString(random)
	return secret, s.SetCallbackSecret(account, secret, by, now)
}

// SetCallbackSecret sets the account's signing secret; with an empty one, callbacks are not signed any more.
func (s *Store) SetCallbackSecret(account, secret, by string, now time.Time) error {
	k := subKey(tableAccount, account, callbackSecret)
	event := AuditEvent{At: now, By: by, Action: "callback secret", Target: account, Note: "set"}
	change := func(b *pebble.Batch) error { return b.Set(k, []byte(secret), nil) }
	if secret == "" {
		event.Note = "removed"
		change = func(b *pebble.Batch) error { return b.Delete(k, nil) }
	} else {
		enc, ok := strings.CutPrefix(secret, secretPrefix)
		raw, err := base64.StdEncoding.DecodeString(enc)
		if !ok || err != nil || len(raw) < 24 || len(raw) > 64 {
			return ErrBadSecret
		}
	}
	exists := func(b *pebble.Batch) error {
		_, err := readUser(b, account)
		return err
	}
	if err := s.Commit(account, exists, change, event.write); err != nil {
		return fmt.Errorf("callback secret of %s: %w", account, err)
	}
	return nil
}

// CallbackSecret returns the account's signing secret, empty if its callbacks are not signed.
func (s *Store) CallbackSecret(account string) (string, error) {
	v, err := get(s.db, subKey(tableAccount, account, callbackSecret))
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return string(v), err
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

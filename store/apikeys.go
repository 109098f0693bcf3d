package store

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"probity/store/base62"
)

// MaxKeys bounds the keys of an account.
const MaxKeys = 100

// APIKey describes a key, without its secret.
type APIKey struct {
	ID       string    `json:"id"`
	Account  string    `json:"account"`
	Name     string    `json:"name"`
	Test     bool      `json:"test,omitempty"`
	Last4    string    `json:"last4"`
	Created  time.Time `json:"created"`
	LastUsed time.Time `json:"last_used,omitzero"` // zero: never; up to a minute late

	Scopes   Scopes         `json:"scopes,omitempty"`
	Expires  time.Time      `json:"expires,omitzero"` // zero: never
	Networks []netip.Prefix `json:"networks,omitempty"`
}

// apiKeyRecord is the stored form of a key. A revoked key is deleted; the audit log has it.
type apiKeyRecord struct {
	APIKey
	Hash KeyHash `json:"hash"`
}

// Identity is the account and the key of a request.
type Identity struct {
	User User
	Key  string // id of the API key
	Test bool   // a test key: no charges, no probes

	Scopes   Scopes         // of the key
	Networks []netip.Prefix // from which the key may be used; empty: any
	Expires  time.Time      // of the key; zero: never
}

// The refusals of keys.
var (
	// ErrBadKey: missing, malformed, unknown, revoked, expired, or of a disabled account; the client is not told which.
	ErrBadKey      = errors.New("the API key is missing, wrong, revoked or expired")
	ErrTooManyKeys = fmt.Errorf("an account can have %d API keys: revoke one first", MaxKeys)
	ErrBadName     = errors.New("a name must have 1 to 100 bytes")
)

// MaxLabel bounds the names that people give to keys, in bytes.
const MaxLabel = 100

// CreateKey creates a key for the account. Only this call returns the secret.
func (a *Accounts) CreateKey(account string, n NewKey, by string, now time.Time) (secret string, k APIKey, err error) {
	switch {
	case n.Name == "" || len(n.Name) > MaxLabel:
		return "", APIKey{}, ErrBadName
	case !n.Expires.IsZero() && !n.Expires.After(now):
		return "", APIKey{}, ErrBadExpiry
	case n.Test && n.Scopes&ScopeAdmin != 0:
		return "", APIKey{}, fmt.Errorf("%w: admin is for live keys", ErrBadScopes)
	}
	secret = base62.NewKey(n.Test)
	k = APIKey{ID: newID("k_"), Account: account, Name: n.Name, Test: n.Test, Last4: secret[len(secret)-4:],
		Created: now.UTC(),
		Scopes:  cmp.Or(n.Scopes, DefaultScopes), Expires: n.Expires.UTC().Truncate(time.Second), Networks: n.Networks}
	insert := func(b *pebble.Batch) error {
		owner, err := readUser(b, account)
		if err != nil {
			return fmt.Errorf("account %s: %w", account, err)
		}
		if k.Scopes&ScopeAdmin != 0 && owner.Role != Admin {
			return fmt.Errorf("%w: admin is for accounts with the role admin", ErrBadScopes)
		}
		has, err := count(b, keyPrefix(tableAPIKey, account))
		if err != nil {
			return err
		}
		if has >= MaxKeys {
			return ErrTooManyKeys
		}
		return setJSON(b, subKey(tableAPIKey, account, k.ID), apiKeyRecord{k, hashSecret(secret)})
	}
	event := AuditEvent{At: now, By: by, Action: "key create", Target: k.ID,
		Note: fmt.Sprintf("%s %s (%s)", account, n.Name, k.describe())}
	if err := a.commitUser(account, insert, event.write); err != nil {
		return "", APIKey{}, err
	}
	return secret, k, nil
}

// RevokeKey revokes a key: no request that starts after it returns is accepted with it. account may be empty for an
// admin, who knows only the id; ErrNotFound if there is no such key (of that account).
func (a *Accounts) RevokeKey(account, id, by string, now time.Time) error {
	a.mu.RLock()
	k, ok := a.byID[id]
	a.mu.RUnlock()
	if !ok || (account != "" && account != k.Account) {
		return fmt.Errorf("API key %s: %w", id, ErrNotFound)
	}
	stored := subKey(tableAPIKey, k.Account, id)
	drop := func(b *pebble.Batch) error {
		if _, err := get(b, stored); err != nil {
			return fmt.Errorf("API key %s: %w", id, err)
		}
		return errors.Join(b.Delete(stored, nil), b.Delete(subKey(tableKeyUsed, k.Account, id), nil))
	}
	return a.commitUser(k.Account, drop, AuditEvent{At: now, By: by, Action: "key revoke", Target: id,
		Note: k.Account}.write)
}

// Keys lists the account's keys, or those of all accounts if account is empty.
func (a *Accounts) Keys(account string) ([]APIKey, error) {
	prefix := []byte{tableAPIKey}
	if account != "" {
		prefix = keyPrefix(tableAPIKey, account)
	}
	var keys []APIKey
	err := scan(a.db, prefix, nil, func(k, v []byte) error {
		account, _ := splitKeyName(k)
		rec, err := readKeyRecord(v, account)
		if err != nil {
			return err
		}
		a.mu.RLock()
		defer a.mu.RUnlock()
		if k := a.byID[rec.ID]; k != nil && k.used.Load() > 0 {
			rec.LastUsed = time.Unix(k.used.Load(), 0).UTC()
		}
		keys = append(keys, rec.APIKey)
		return nil
	})
	return keys, err
}

// Authenticate returns the identity of a key. It reads only memory, and refuses a wrong checksum before that.
func (a *Accounts) Authenticate(secret string, now time.Time) (Identity, error) {
	if _, ok := base62.WellFormedKey(secret); !ok {
		return Identity{}, ErrBadKey
	}
	hash := hashSecret(secret)
	a.mu.RLock()
	k, u := a.keys[hash], User{}
	if k != nil {
		u = a.users[k.Account]
	}
	a.mu.RUnlock()
	if k == nil || u.Disabled || (!k.Expires.IsZero() && !now.Before(k.Expires)) {
		return Identity{}, ErrBadKey
	}
	k.used.Store(now.Unix())
	return Identity{User: u, Key: k.ID, Test: k.Test, Scopes: k.Scopes, Networks: k.Networks, Expires: k.Expires}, nil
}

// lastUsedEvery is by how many seconds the stored last use of a key may be late.
const lastUsedEvery = 60

// WriteLastUsed stores the last uses that are a minute or more later than the stored ones, in one commit. The process
// that runs the store calls it about once a minute; it is cheap if no key was used.
func (a *Accounts) WriteLastUsed() error {
	stale := make(map[*cachedKey]int64)
	a.mu.RLock()
	for _, k := range a.keys {
		if used := k.used.Load(); used >= k.written.Load()+lastUsedEvery {
			stale[k] = used
		}
	}
	a.mu.RUnlock()
	err := a.Commit("", func(b *pebble.Batch) error {
		for k, used := range stale {
			if err := b.Set(subKey(tableKeyUsed, k.Account, k.ID), appendUint64(nil, uint64(used)), nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("last uses of API keys: %w", err)
	}
	for k, used := range stale {
		k.written.Store(used)
	}
	return nil
}

// KeyHash is the stored form of a key or of a session token: its SHA-256. Both have so many random bits that no slow
// hash is needed.
type KeyHash [sha256.Size]byte

// MarshalText writes a hash as hexadecimal digits.
func (h KeyHash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText reads what MarshalText wrote.
func (h *KeyHash) UnmarshalText(text []byte) error {
	if hex.DecodedLen(len(text)) != len(h) {
		return fmt.Errorf("hash of %d digits, want %d", len(text), 2*len(h))
	}
	_, err := hex.Decode(h[:], text)
	return err
}

// hashSecret is the stored form of a secret that we made, and of a name that must not be a key in clear.
func hashSecret(secret string) KeyHash {
	var short [64]byte // holds a key
	return sha256.Sum256(append(short[:0], secret...))
}

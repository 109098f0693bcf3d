package store

import (
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// accountCache keeps in memory what every request needs of accounts. It is updated before the method that changed an account
// returns. It has one entry for each account (admins create those), with at most MaxKeys keys.
type accountCache struct {
	passwords    *passwords
	attempts     *loginAttempts
	singles      singleWindows
	inFlight     inFlight
	suppressed   atomic.Pointer[suppressionList]
	suppressedMu sync.Mutex // serialises loadSuppressions

	refreshMu sync.Mutex // serialises refresh, so that the last to finish has read the last commit
	mu        sync.RWMutex
	users     map[string]User         // guarded by mu
	keys      map[KeyHash]*cachedKey  // guarded by mu
	byID      map[string]*cachedKey   // guarded by mu
	byAccount map[string][]*cachedKey // guarded by mu
}

// cachedKey is one API key.
type cachedKey struct {
	account string
	id      string
	hash    KeyHash
	test    bool

	scopes   Scopes
	expires  time.Time // zero: never
	networks []netip.Prefix

	used    atomic.Int64 // unix seconds of the last use, 0 for never
	written atomic.Int64 // the last use that is in the store
}

func newAccountCache() *accountCache {
	l := &accountCache{
		passwords: newPasswords(defaultCost),
		attempts:  newLoginAttempts(),
		users:     make(map[string]User),
		keys:      make(map[KeyHash]*cachedKey),
		byID:      make(map[string]*cachedKey),
		byAccount: make(map[string][]*cachedKey),
	}
	l.suppressed.Store(&suppressionList{})
	return l
}

// load fills the cache from the store, at Open.
func (l *accountCache) load(s *Store) error {
	var ids []string
	err := scan(s.db, []byte{tableUser}, nil, func(k, _ []byte) error {
		ids = append(ids, string(k[1:]))
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := l.refresh(s, id); err != nil {
			return err
		}
	}
	return l.loadSuppressions(s)
}

// refresh reads an account and its keys again, and replaces them in the cache.
func (l *accountCache) refresh(s *Store, account string) error {
	l.refreshMu.Lock()
	defer l.refreshMu.Unlock()
	view := s.db.NewSnapshot()
	defer view.Close()
	rec, err := readUser(view, account)
	if err != nil {
		return fmt.Errorf("account %s: %w", account, err)
	}
	keys, err := l.readKeys(view, rec.User)
	if err != nil {
		return err
	}
	l.replace(rec.User, keys)
	return nil
}

func (l *accountCache) readKeys(r pebble.Reader, owner User) ([]*cachedKey, error) {
	var keys []*cachedKey
	err := scan(r, keyPrefix(tableAPIKey, owner.ID), nil, func(_, v []byte) error {
		rec, err := readKeyRecord(v, owner)
		if err != nil {
			return err
		}
		keys = append(keys, &cachedKey{account: owner.ID, id: rec.ID, hash: rec.Hash, test: rec.Test,
			scopes: rec.Scopes, expires: rec.Expires, networks: rec.Networks})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		at, err := readLastUsed(r, owner.ID, k.id)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		k.used.Store(at)
		k.written.Store(at)
	}
	return keys, nil
}

func (l *accountCache) replace(u User, keys []*cachedKey) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.users[u.ID] = u
	for _, k := range l.byAccount[u.ID] {
		delete(l.keys, k.hash)
	}
	for i, k := range keys {
		if old := l.byID[k.id]; old != nil {
			keys[i] = old // it may have a last use that is not written yet
		}
	}
	for _, k := range l.byAccount[u.ID] {
		delete(l.byID, k.id)
	}
	for _, k := range keys {
		l.keys[k.hash] = k
		l.byID[k.id] = k
	}
	l.byAccount[u.ID] = keys
}

func (l *accountCache) user(account string) (User, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	u, ok := l.users[account]
	return u, ok
}

func (l *accountCache) allUsers() []User {
	l.mu.RLock()
	defer l.mu.RUnlock()
	users := make([]User, 0, len(l.users))
	for _, u := range l.users {
		users = append(users, u)
	}
	return users
}

// keyWithOwner returns the key with a hash, and its account.
func (l *accountCache) keyWithOwner(h KeyHash) (*cachedKey, User, bool) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	k, ok := l.keys[h]
	if !ok {
		return nil, User{}, false
	}
	return k, l.users[k.account], true
}

// allKeys returns the keys of all accounts.
func (l *accountCache) allKeys() []*cachedKey {
	l.mu.RLock()
	defer l.mu.RUnlock()
	keys := make([]*cachedKey, 0, len(l.keys))
	for _, k := range l.keys {
		keys = append(keys, k)
	}
	return keys
}

package store

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
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
	ac := &accountCache{
		passwords: newPasswords(defaultCost),
		attempts:  newLoginAttempts(),
		singles:   singleWindows{byAccount: make(map[string]*window)},
		inFlight:  inFlight{digests: make(map[KeyHash]KeyHash)},
		users:     make(map[string]User),
		keys:      make(map[KeyHash]*cachedKey),
		byID:      make(map[string]*cachedKey),
		byAccount: make(map[string][]*cachedKey),
	}
	ac.suppressed.Store(&suppressionList{})
	return ac
}

// load fills the cache from the store, at Open.
func (ac *accountCache) load(s *Store) error {
	err := scan(s.db, []byte{tableUser}, nil, func(k, _ []byte) error { return ac.refresh(s, string(k[1:])) })
	if err != nil {
		return err
	}
	return ac.loadSuppressions(s)
}

// refresh reads an account and its keys again, and replaces them in the cache.
func (ac *accountCache) refresh(s *Store, account string) error {
	ac.refreshMu.Lock()
	defer ac.refreshMu.Unlock()
	view := s.db.NewSnapshot()
	defer view.Close()
	rec, err := readUser(view, account)
	if err != nil {
		return fmt.Errorf("account %s: %w", account, err)
	}
	var keys []*cachedKey
	err = scan(view, keyPrefix(tableAPIKey, account), nil, func(_, v []byte) error {
		rec, err := readKeyRecord(v, rec.User)
		if err != nil {
			return err
		}
		k := &cachedKey{account: account, id: rec.ID, hash: rec.Hash, test: rec.Test, scopes: rec.Scopes, expires: rec.Expires, networks: rec.Networks}
		at, err := getUint64(view, subKey(tableKeyUsed, account, k.id), "last use of API key "+k.id)
		k.used.Store(int64(at))
		k.written.Store(int64(at))
		keys = append(keys, k)
		return err
	})
	if err != nil {
		return err
	}
	ac.mu.Lock()
	defer ac.mu.Unlock()
	ac.users[account] = rec.User
	for i, k := range keys {
		if old := ac.byID[k.id]; old != nil {
			keys[i] = old // it may have a last use that is not written yet
		}
	}
	for _, k := range ac.byAccount[account] {
		delete(ac.keys, k.hash)
		delete(ac.byID, k.id)
	}
	for _, k := range keys {
		ac.keys[k.hash] = k
		ac.byID[k.id] = k
	}
	ac.byAccount[account] = keys
	return nil
}

func (ac *accountCache) user(account string) (User, bool) {
	ac.mu.RLock()
	defer ac.mu.RUnlock()
	u, ok := ac.users[account]
	return u, ok
}

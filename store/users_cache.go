package store

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Accounts are the accounts and their API keys. It keeps in memory what every request needs of them, and updates that before the
// method that changed an account returns: one entry for each account (admins create those), with at most MaxKeys keys.
type Accounts struct {
	*DB
	passwords *passwords
	singles   singleWindows

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

func newAccounts(db *DB) *Accounts {
	return &Accounts{
		DB:        db,
		passwords: newPasswords(defaultCost),
		singles:   singleWindows{byAccount: make(map[string]*window)},
		users:     make(map[string]User),
		keys:      make(map[KeyHash]*cachedKey),
		byID:      make(map[string]*cachedKey),
		byAccount: make(map[string][]*cachedKey),
	}
}

// load fills the memory from the database, at Open.
func (s *Accounts) load() error {
	return scan(s.db, []byte{tableUser}, nil, func(k, _ []byte) error { return s.refresh(string(k[1:])) })
}

// refresh reads an account and its keys again, and replaces them in the cache.
func (s *Accounts) refresh(account string) error {
	s.refreshMu.Lock()
	defer s.refreshMu.Unlock()
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
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[account] = rec.User
	for i, k := range keys {
		if old := s.byID[k.id]; old != nil {
			keys[i] = old // it may have a last use that is not written yet
		}
	}
	for _, k := range s.byAccount[account] {
		delete(s.keys, k.hash)
		delete(s.byID, k.id)
	}
	for _, k := range keys {
		s.keys[k.hash] = k
		s.byID[k.id] = k
	}
	s.byAccount[account] = keys
	return nil
}

func (s *Accounts) user(account string) (User, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	u, ok := s.users[account]
	return u, ok
}

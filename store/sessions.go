package store

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// MaxSessions bounds the open sessions of an account: one more ends the oldest.
const MaxSessions = 50

// ErrNoSession: no such session, or it has ended.
var ErrNoSession = errors.New("not logged in, or the session has ended")

// Session is one browser that is logged in. Only the hash of its token is stored.
type Session struct {
	ID      string    `json:"id"` // for lists; no secret
	Account string    `json:"account"`
	Agent   string    `json:"agent,omitempty"` // User-Agent of the browser
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// tokenLength is the length of a token: 256 bits in base62.
const tokenLength = 43

// CreateSession logs the account in for ttl and returns the token of its cookie.
func (s *Store) CreateSession(account, agent string, ttl time.Duration, now time.Time) (token string, one Session, err error) {
	token = randomBase62(tokenLength)
	hash := hashSecret(token)
	one = Session{ID: sessionID(hash), Account: account, Agent: agent[:min(len(agent), 200)], Created: now.UTC(), Expires: now.Add(ttl).UTC()}
	err = s.Commit(account, evictSessions(account, now), func(b *pebble.Batch) error {
		rec, err := readUser(b, account)
		if err != nil {
			return err
		}
		if rec.Disabled {
			return ErrDisabled
		}
		return one.write(b, hash)
	})
	if err != nil {
		return "", Session{}, err
	}
	return token, one, nil
}

func sessionID(hash KeyHash) string { return hex.EncodeToString(hash[:8]) }

func sessionKey(hash []byte) []byte { return key(tableSession, string(hash)) }

func accountSessionKey(account string, hash []byte) []byte {
	return append(keyPrefix(tableAccountSession, account), hash...)
}

func (one Session) write(b *pebble.Batch, hash KeyHash) error {
	body, err := json.Marshal(one)
	if err != nil {
		return err
	}
	if err := b.Set(sessionKey(hash[:]), append(appendExpiry(nil, one.Expires), body...), nil); err != nil {
		return err
	}
	return b.Set(accountSessionKey(one.Account, hash[:]), nil, nil)
}

func readSession(r pebble.Reader, hash []byte) (Session, error) {
	v, err := get(r, sessionKey(hash))
	if err != nil {
		return Session{}, err
	}
	var one Session
	if len(v) < expirySize {
		return one, errors.New("a session record is damaged")
	}
	err = json.Unmarshal(v[expirySize:], &one)
	return one, err
}

// Session returns the session of a token, and its account.
func (s *Store) Session(token string, now time.Time) (Session, User, error) {
	if len(token) != tokenLength {
		return Session{}, User{}, ErrNoSession
	}
	hash := hashSecret(token)
	one, err := readSession(s.db, hash[:])
	if errors.Is(err, ErrNotFound) || (err == nil && !now.Before(one.Expires)) {
		return Session{}, User{}, ErrNoSession
	}
	if err != nil {
		return Session{}, User{}, fmt.Errorf("session: %w", err)
	}
	u, ok := s.accountCache.user(one.Account)
	if !ok || u.Disabled {
		return Session{}, User{}, ErrNoSession
	}
	return one, u, nil
}

// Sessions lists the account's open sessions, newest first.
func (s *Store) Sessions(account string, now time.Time) ([]Session, error) {
	var open []Session
	err := eachSession(s.db, account, func(_ []byte, one Session) error {
		if now.Before(one.Expires) {
			open = append(open, one)
		}
		return nil
	})
	slices.SortFunc(open, func(a, b Session) int { return b.Created.Compare(a.Created) })
	return open, err
}

func eachSession(r pebble.Reader, account string, visit func(hash []byte, one Session) error) error {
	return scan(r, keyPrefix(tableAccountSession, account), nil, func(k, _ []byte) error {
		_, hash, _ := splitKeyName(k)
		one, err := readSession(r, hash)
		if err != nil {
			return fmt.Errorf("session of %s: %w", account, err)
		}
		return visit(append([]byte(nil), hash...), one)
	})
}

// EndSession ends the account's session with an id, or returns ErrNoSession.
func (s *Store) EndSession(account, id string) error {
	found := false
	err := s.Commit(account, dropSessionsIf(account, func(one Session) bool {
		match := one.ID == id
		found = found || match
		return match
	}))
	if err == nil && !found {
		return ErrNoSession
	}
	return err
}

// EndSessions ends the account's sessions except the one with the id keep (all if it is empty).
func (s *Store) EndSessions(account, keep string) error {
	return s.Commit(account, dropSessions(account, keep))
}

func dropSessions(account, keep string) Part {
	return dropSessionsIf(account, func(one Session) bool { return one.ID != keep })
}

func dropSessionsIf(account string, end func(Session) bool) Part {
	return func(b *pebble.Batch) error {
		var hashes [][]byte
		err := eachSession(b, account, func(hash []byte, one Session) error {
			if end(one) {
				hashes = append(hashes, hash)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, hash := range hashes {
			if err := errors.Join(b.Delete(sessionKey(hash), nil), b.Delete(accountSessionKey(account, hash), nil)); err != nil {
				return err
			}
		}
		return nil
	}
}

// evictSessions ends the account's expired sessions, and its oldest ones until there is room for one more.
func evictSessions(account string, now time.Time) Part {
	return func(b *pebble.Batch) error {
		var starts []time.Time
		err := eachSession(b, account, func(_ []byte, one Session) error {
			if now.Before(one.Expires) {
				starts = append(starts, one.Created)
			}
			return nil
		})
		if err != nil {
			return err
		}
		slices.SortFunc(starts, time.Time.Compare)
		surplus := len(starts) - (MaxSessions - 1)
		return dropSessionsIf(account, func(one Session) bool {
			return !now.Before(one.Expires) || (surplus > 0 && !one.Created.After(starts[surplus-1]))
		})(b)
	}
}

// SweepSessions deletes the expired sessions, and returns their number. The process that runs the store calls it about once an
// hour.
func (s *Store) SweepSessions(now time.Time) (int, error) {
	return s.sweep([]byte{tableSession}, now, func(k, v []byte) expiredRecord {
		var one Session
		if len(v) < expirySize || json.Unmarshal(v[expirySize:], &one) != nil {
			return expiredRecord{}
		}
		return expiredRecord{lock: one.Account, secondKey: accountSessionKey(one.Account, k[1:])}
	})
}

// CSRFToken is the value that a page of this session must send with each change: a page of another origin can make the
// browser send the cookie, but can read neither the cookie nor this value.
func CSRFToken(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("cross-site request forgery, version 1"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// CheckCSRF reports whether sent is the CSRFToken of the session token, in constant time.
func CheckCSRF(token, sent string) bool {
	return subtle.ConstantTimeCompare([]byte(CSRFToken(token)), []byte(sent)) == 1
}

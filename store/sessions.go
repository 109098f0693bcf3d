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

	"probity/store/base62"
)

// MaxSessions bounds the open sessions of an account: one more ends the oldest.
const MaxSessions = 50

// MaxAgent bounds the name that a session keeps of its browser, in bytes.
const MaxAgent = 200

// ErrNoSession means that there is no such session, or it has ended.
var ErrNoSession = errors.New("not logged in, or the session has ended")

// Session is one browser that is logged in. Only the hash of its token is stored.
type Session struct {
	ID      string    `json:"id"` // for lists; no secret
	Account string    `json:"account"`
	Agent   string    `json:"agent,omitempty"` // User-Agent of the browser
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
	hash    KeyHash   // of the token
}

// tokenLength is the length of a token: 256 bits in base62.
const tokenLength = 43

// CreateSession logs the account in for ttl and returns the token of its cookie. It ends the account's expired
// sessions, and its oldest ones until there is room for one more.
func (l *Logins) CreateSession(account, agent string, ttl time.Duration,
	now time.Time) (token string, one Session, err error) {
	token = base62.Random(tokenLength)
	hash := hashSecret(token)
	one = Session{ID: hex.EncodeToString(hash[:8]), Account: account, Agent: agent[:min(len(agent), MaxAgent)],
		Created: now.UTC(), Expires: now.Add(ttl).UTC(), hash: hash}
	err = l.Commit(account, func(b *pebble.Batch) error {
		room := MaxSessions - 1
		err := dropSessionsIf(account, func(one Session) bool { // newest first
			open := now.Before(one.Expires)
			if open {
				room--
			}
			return !open || room < 0
		})(b)
		if err != nil {
			return err
		}
		rec, err := readUser(b, account)
		if err != nil {
			return err
		}
		if rec.Disabled {
			return ErrDisabled
		}
		return errors.Join(setExpiring(b, sessionKey(hash), one.Expires, one),
			b.Set(subKey(tableAccountSession, account, hash[:]), nil, nil))
	})
	if err != nil {
		return "", Session{}, err
	}
	return token, one, nil
}

func sessionKey(hash KeyHash) []byte { return key(tableSession, string(hash[:])) }

func readSession(r pebble.Reader, hash KeyHash) (one Session, err error) {
	v, err := get(r, sessionKey(hash))
	if err != nil {
		return one, err
	}
	if len(v) < expirySize {
		return one, errors.New("a session record is damaged")
	}
	one.hash = hash
	err = json.Unmarshal(v[expirySize:], &one)
	return one, err
}

// Session returns the session of a token, and its account.
func (l *Logins) Session(token string, now time.Time) (Session, User, error) {
	if len(token) != tokenLength {
		return Session{}, User{}, ErrNoSession
	}
	one, err := readSession(l.db, hashSecret(token))
	if errors.Is(err, ErrNotFound) || (err == nil && !now.Before(one.Expires)) {
		return Session{}, User{}, ErrNoSession
	}
	if err != nil {
		return Session{}, User{}, fmt.Errorf("session: %w", err)
	}
	u, ok := l.user(one.Account)
	if !ok || u.Disabled {
		return Session{}, User{}, ErrNoSession
	}
	return one, u, nil
}

// Sessions lists the account's open sessions, newest first.
func (l *Logins) Sessions(account string, now time.Time) ([]Session, error) {
	all, err := allSessions(l.db, account)
	return slices.DeleteFunc(all, func(one Session) bool { return !now.Before(one.Expires) }), err
}

// allSessions returns the account's sessions, newest first, expired ones too.
func allSessions(r pebble.Reader, account string) (all []Session, err error) {
	err = scan(r, keyPrefix(tableAccountSession, account), nil, func(k, _ []byte) error {
		_, hash := splitKeyName(k)
		if len(hash) != len(KeyHash{}) {
			return fmt.Errorf("session of %s: its hash has %d bytes", account, len(hash))
		}
		one, err := readSession(r, KeyHash(hash))
		if err != nil {
			return fmt.Errorf("session of %s: %w", account, err)
		}
		all = append(all, one)
		return nil
	})
	slices.SortFunc(all, func(a, b Session) int { return b.Created.Compare(a.Created) })
	return all, err
}

// EndSession ends the account's session with an id, or returns ErrNoSession.
func (l *Logins) EndSession(account, id string) error {
	found := false
	err := l.Commit(account, dropSessionsIf(account, func(one Session) bool {
		found = found || one.ID == id
		return one.ID == id
	}))
	if err == nil && !found {
		return ErrNoSession
	}
	return err
}

// EndSessions ends the account's sessions except the one with the id keep (all if it is empty).
func (l *Logins) EndSessions(account, keep string) error {
	return l.Commit(account, dropSessions(account, keep))
}

func dropSessions(account, keep string) Part {
	return dropSessionsIf(account, func(one Session) bool { return one.ID != keep })
}

func dropSessionsIf(account string, end func(Session) bool) Part {
	return func(b *pebble.Batch) error {
		all, err := allSessions(b, account)
		if err != nil {
			return err
		}
		for _, one := range all {
			if !end(one) {
				continue
			}
			if err := errors.Join(b.Delete(sessionKey(one.hash), nil),
				b.Delete(subKey(tableAccountSession, account, one.hash[:]), nil)); err != nil {
				return err
			}
		}
		return nil
	}
}

// SweepSessions deletes the expired sessions, and returns their number.
func (l *Logins) SweepSessions(now time.Time) (int, error) {
	return l.sweep([]byte{tableSession}, func(k, v []byte) (*deletion, error) {
		var one Session
		if !hasExpired(v, now) {
			return nil, nil
		}
		if len(v) < expirySize || json.Unmarshal(v[expirySize:], &one) != nil {
			return &deletion{}, nil
		}
		return &deletion{lock: one.Account, secondKey: subKey(tableAccountSession, one.Account, k[1:])}, nil
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

package store

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// answerTTL is how long an answer is stored.
const answerTTL = 24 * time.Hour

// MaxAnswer bounds the body of a stored answer.
const MaxAnswer = 4 << 20

// maxInFlight bounds the requests with an Idempotency-Key that are under way at one time; in practice the listener's
// bound on connections is lower.
const maxInFlight = 1 << 16

// Request is one use of an Idempotency-Key.
type Request struct {
	Account  string
	Endpoint string
	Key      string
	Digest   KeyHash // of the decoded parts of the request: equal digests are the same request
}

// Answer is a stored answer.
type Answer struct {
	Status   int     `json:"status"`
	Location string  `json:"location,omitempty"`
	Body     []byte  `json:"body"`
	Digest   KeyHash `json:"digest"`
}

// The refusals of repeated requests.
var (
	ErrInFlight        = errors.New("a request with this Idempotency-Key is still under way")
	ErrMismatch        = errors.New("this Idempotency-Key was used with another request")
	ErrIdempotencyKey  = fmt.Errorf("an Idempotency-Key has 1 to %d bytes", MaxName)
	ErrTooManyInFlight = errors.New("too many requests are under way")
	ErrAnswer          = fmt.Errorf("only a 2xx answer of at most %d bytes can be kept", MaxAnswer)
)

// inFlight tracks the requests under way. It is only in memory, so that the keys of a process that ended are free at
// once.
type inFlight struct {
	mu      sync.Mutex
	digests map[KeyHash]KeyHash // guarded by mu: request id to digest
}

// id identifies a request; its key may have any bytes.
func (r Request) id() KeyHash {
	return sha256.Sum256([]byte(r.Account + "\x00" + r.Endpoint + "\x00" + r.Key))
}

func (r Request) key() []byte {
	id := r.id()
	return subKey(tableAnswer, r.Account, id[:])
}

// BeginRequest claims the key. If kept is true, the request was answered before, a is that answer, and nothing is
// claimed. Otherwise, without an error, the caller does the work and calls EndRequest in any case.
func (s *Store) BeginRequest(r Request, now time.Time) (a Answer, kept bool, err error) {
	if r.Key == "" || len(r.Key) > MaxName {
		return Answer{}, false, ErrIdempotencyKey
	}
	if err := s.inFlight.claim(r); err != nil {
		return Answer{}, false, err
	}
	defer func() {
		if err != nil || kept {
			s.EndRequest(r)
		}
	}()
	v, err := get(s.db, r.key())
	if errors.Is(err, ErrNotFound) || (err == nil && hasExpired(v, now)) {
		return Answer{}, false, nil
	}
	if err != nil {
		return Answer{}, false, err
	}
	if err := json.Unmarshal(v[expirySize:], &a); err != nil {
		return Answer{}, false, fmt.Errorf("kept answer: %w", err)
	}
	if a.Digest != r.Digest {
		return Answer{}, false, ErrMismatch
	}
	return a, true, nil
}

// Answered reports whether the key has a stored answer, of whatever request.
func (s *Store) Answered(r Request, now time.Time) (bool, error) {
	v, err := get(s.db, r.key())
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && !hasExpired(v, now), err
}

func (f *inFlight) claim(r Request) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	digest, taken := f.digests[r.id()]
	switch {
	case taken && digest != r.Digest:
		return ErrMismatch
	case taken:
		return ErrInFlight
	case len(f.digests) >= maxInFlight:
		return ErrTooManyInFlight
	}
	f.digests[r.id()] = r.Digest
	return nil
}

// EndRequest releases a key that BeginRequest claimed. If KeepAnswer was committed, the answer is found from now on;
// else the key is free.
func (s *Store) EndRequest(r Request) {
	s.inFlight.mu.Lock()
	defer s.inFlight.mu.Unlock()
	delete(s.inFlight.digests, r.id())
}

// KeepAnswer is the part of a settlement or an acceptance that stores its answer for a day. It is in the commit of the
// charge, so that a repeated request is free. The caller decides which answers to store (a 2xx that is not UNKNOWN).
func KeepAnswer(r Request, a Answer, now time.Time) Part {
	return func(b *pebble.Batch) error {
		if a.Status < 200 || a.Status > 299 || len(a.Body) > MaxAnswer {
			return ErrAnswer
		}
		a.Digest = r.Digest
		return setExpiring(b, r.key(), now.Add(answerTTL), a)
	}
}

// SweepAnswers deletes the answers that are over a day old, and returns their number.
func (s *Store) SweepAnswers(now time.Time) (int, error) {
	return s.sweepAnswers(func(v []byte) bool { return hasExpired(v, now) })
}

// EraseAnswers deletes the stored answers that match, and returns their number: the answer to a single call contains
// the address in clear. The body is valid until match returns. A request whose answer was deleted is a new request.
func (s *Store) EraseAnswers(match func(body []byte) bool) (n int, err error) {
	return s.sweepAnswers(func(v []byte) bool {
		var a Answer
		return len(v) >= expirySize && json.Unmarshal(v[expirySize:], &a) == nil && match(a.Body)
	})
}

func (d *DB) sweepAnswers(match func(v []byte) bool) (int, error) {
	return d.sweep([]byte{tableAnswer}, func(k, v []byte) (*deletion, error) {
		if !match(v) {
			return nil, nil
		}
		account, _ := splitKeyName(k)
		return &deletion{lock: account}, nil
	})
}

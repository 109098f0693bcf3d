package store

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// receiptKeys is the name of the setting that has the keys of receipts.
const receiptKeys = "receipt keys"

// maxReceiptKeys bounds the keys: each is published for as long as the installation lives.
const maxReceiptKeys = 100

// ErrReceiptKeys is returned for one key too many.
var ErrReceiptKeys = fmt.Errorf("there are %d receipt keys already", maxReceiptKeys)

// ReceiptKey is a key that signs receipts.
type ReceiptKey struct {
	Seed      []byte    `json:"seed"` // of the Ed25519 key
	CreatedAt time.Time `json:"created_at"`
}

// Private is the key itself.
func (k *ReceiptKey) Private() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(k.Seed) }

// Public is the key that is published.
func (k *ReceiptKey) Public() ed25519.PublicKey { return k.Private().Public().(ed25519.PublicKey) }

// ReceiptKeys returns the keys of receipts, the oldest first; the last signs. The first is made when it is asked for.
func (s *Store) ReceiptKeys(now time.Time) ([]ReceiptKey, error) {
	keys, err := readJSON[[]ReceiptKey](s.db, key(tableSetting, receiptKeys))
	if !errors.Is(err, ErrNotFound) {
		return keys, err
	}
	return s.addReceiptKey(now, func(had []ReceiptKey) bool { return len(had) == 0 })
}

// NewReceiptKey makes a key that signs receipts from now on. Those before stay published, so that their receipts can be checked.
func (s *Store) NewReceiptKey(by string, now time.Time) ([]ReceiptKey, error) {
	event := AuditEvent{At: now, By: by, Action: "receipt key", Note: "made"}
	return s.addReceiptKey(now, func([]ReceiptKey) bool { return true }, event.write)
}

// addReceiptKey adds a key if it is wanted after those that there are.
func (s *Store) addReceiptKey(now time.Time, wanted func(had []ReceiptKey) bool, parts ...Part) (keys []ReceiptKey, err error) {
	add := func(b *pebble.Batch) error {
		keys, err = readJSON[[]ReceiptKey](b, key(tableSetting, receiptKeys))
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if !wanted(keys) {
			return nil
		}
		if len(keys) >= maxReceiptKeys {
			return ErrReceiptKeys
		}
		seed := make([]byte, ed25519.SeedSize)
		rand.Read(seed)
		keys = append(keys, ReceiptKey{seed, now.UTC().Truncate(time.Second)})
		return setJSON(b, key(tableSetting, receiptKeys), keys)
	}
	err = s.Commit("", append([]Part{add}, parts...)...)
	return keys, err
}

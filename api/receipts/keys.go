package receipts

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"probity/api/httpd"
	"probity/internal/receipt"
	"probity/store"
)

// setting is the name of the store's setting that has the keys, the oldest first; the last signs.
const setting = "receipt keys"

// maxKeys bounds the keys: each is published for as long as the installation lives.
const maxKeys = 100

// Key is a key that signs receipts.
type Key struct {
	Seed      []byte    `json:"seed"` // of the Ed25519 key
	CreatedAt time.Time `json:"created_at"`
}

func (k *Key) private() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(k.Seed) }

// keysOf returns the keys. The first is made when it is asked for.
func keysOf(s *store.Store, now time.Time) (keys []Key, err error) {
	text, err := s.Setting(setting)
	if err != nil {
		return nil, err
	}
	if text == nil {
		return addKey(s, "first use", now, func(had []Key) bool { return len(had) == 0 })
	}
	return keys, json.Unmarshal(text, &keys)
}

// addKey adds a key if it is wanted after those that there are.
func addKey(s *store.Store, by string, now time.Time, wanted func(had []Key) bool) (keys []Key, err error) {
	event := store.AuditEvent{At: now, By: by, Action: "receipt key", Note: "made"}
	err = s.ChangeSetting(setting, event, func(former []byte) ([]byte, error) {
		if former != nil {
			if err := json.Unmarshal(former, &keys); err != nil {
				return nil, fmt.Errorf("%s: %w", setting, err)
			}
		}
		if !wanted(keys) {
			return former, nil
		}
		if len(keys) >= maxKeys {
			return nil, httpd.Refuse(httpd.Conflict,
				"There are %d receipt keys already, and each stays published: no more are made.", maxKeys)
		}
		seed := make([]byte, ed25519.SeedSize)
		rand.Read(seed)
		keys = append(keys, Key{seed, now.UTC().Truncate(time.Second)})
		return json.Marshal(keys)
	})
	return keys, err
}

// SendKeys answers with the public keys, the newest first.
func SendKeys(c *httpd.Call, s *store.Store, now time.Time) error {
	keys, err := keysOf(s, now)
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusOK, show(keys))
}

// SendNewKey makes a key that signs from now on, and answers with all keys. The former stay, so that their receipts can
// be checked.
func SendNewKey(c *httpd.Call, s *store.Store, by string, now time.Time) error {
	keys, err := NewKey(s, by, now)
	if err != nil {
		return err
	}
	return c.SendJSON(httpd.StatusCreated, show(keys))
}

// NewKey makes a key that signs from now on, and returns all keys.
func NewKey(s *store.Store, by string, now time.Time) ([]Key, error) {
	return addKey(s, by, now, func([]Key) bool { return true })
}

func show(keys []Key) map[string]any {
	shown := make([]any, len(keys))
	for i := range keys {
		public := keys[i].private().Public().(ed25519.PublicKey)
		shown[len(keys)-1-i] = map[string]any{"key_id": receipt.KeyID(public),
			"public_key": base64.StdEncoding.EncodeToString(public),
			"created_at": keys[i].CreatedAt, "signs": i == len(keys)-1}
	}
	return map[string]any{"keys": shown}
}

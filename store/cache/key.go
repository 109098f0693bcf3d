package cache

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io/fs"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/zeebo/xxh3"

	"probity/engine"
)

// The schema: the first byte of a key names its table.
//
//	table           key after the first byte                          value
const (
	// first letter of a name "format": one byte; "secret": 32 random bytes; "aside": when the last was set aside, ms
	// uint64
	tableMeta   = 'm'
	tableResult = 'r' // 8 bytes of domain hash, 16 of address HMAC   AppendVerdict
	tableFact   = 'd' // 16 bytes HMAC of domain, 0, MX host          AppendFact
	tableBudget = 'p' // 16 bytes HMAC of the budget's name           expiry in ms uint64, then as the prober encodes it
)

// Format is the version of this schema.
const Format = 1

// Key is the key of the verdict of one address.
type Key [24]byte

// Keyer makes keys. It reuses its hash and belongs to one goroutine.
type Keyer struct {
	seed uint64
	mac  hash.Hash
	buf  []byte
	sum  [sha256.Size]byte
}

// Keyer returns a new Keyer for this cache.
func (c *Cache) Keyer() *Keyer {
	return &Keyer{seed: c.seed, mac: hmac.New(sha256.New, c.secret)}
}

// Key returns the key of an address, for a caller that needs only one.
func (c *Cache) Key(a engine.Address) Key {
	k := c.keyers.Get().(*Keyer)
	defer c.keyers.Put(k)
	return k.Key(a)
}

// Key returns the key of an address.
func (k *Keyer) Key(a engine.Address) Key {
	var key Key
	binary.BigEndian.PutUint64(key[:], xxh3.HashStringSeed(a.Domain(), k.seed))
	copy(key[8:], k.hash("a", a.Folded(), "")[:16])
	return key
}

// hash returns the HMAC of kind, a and b. It is valid until the next call.
func (k *Keyer) hash(kind, a, b string) []byte {
	k.buf = append(append(append(append(append(k.buf[:0], kind...), 0), a...), 0), b...)
	k.mac.Reset()
	k.mac.Write(k.buf)
	return k.mac.Sum(k.sum[:0])
}

// Digest is 16 bytes that only this cache can derive from kind and name. The decoys of a domain are made from it.
func (k *Keyer) Digest(kind, name string) [16]byte {
	return [16]byte(k.hash(kind, name, ""))
}

func factKey(k *Keyer, domain, host string) []byte {
	return append([]byte{tableFact}, k.hash("d", domain, host)[:16]...)
}

func budgetKey(k *Keyer, name string) []byte {
	return append([]byte{tableBudget}, k.hash("p", name, "")[:16]...)
}

var errNewer = errors.New("use the newer program, or delete the cache")

// prepare checks the format and reads the secret and when another database was set aside, or writes them into a new
// database.
func (c *Cache) prepare() error {
	format, err := read(c.db, []byte{tableMeta, 'f'})
	switch {
	case errors.Is(err, pebble.ErrNotFound):
		return c.initDatabase()
	case err != nil:
		return fmt.Errorf("cache format: %w", err)
	case len(format) != 1 || format[0] == 0 || format[0] > Format:
		return fmt.Errorf("cache has format %v, this program knows formats up to %d: %w", format, Format, errNewer)
	}
	if c.secret, err = read(c.db, []byte{tableMeta, 's'}); err != nil {
		return fmt.Errorf("cache secret: %w", err)
	}
	c.seed = xxh3.Hash(c.secret)
	b, err := read(c.db, []byte{tableMeta, 'a'})
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil || len(b) != 8 {
		return fmt.Errorf("cache: when another was set aside: %w", errors.Join(err, errValue))
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(b)))
	c.setAsideAt.Store(&at)
	return nil
}

func (c *Cache) initDatabase() error {
	if c.secret == nil { // else the keys in use stay valid
		c.secret = make([]byte, 32)
		rand.Read(c.secret)
		c.seed = xxh3.Hash(c.secret)
	}
	b := c.db.NewBatch()
	defer b.Close()
	err := errors.Join(b.Set([]byte{tableMeta, 's'}, c.secret, nil), b.Set([]byte{tableMeta, 'f'}, []byte{Format}, nil))
	// The renamed folder tells that another was set aside, so that a crash after the renaming loses nothing.
	if _, statErr := c.cfg.FS.Stat(c.cfg.Dir + damagedSuffix); statErr == nil {
		now := time.Now()
		c.setAsideAt.Store(&now)
		err = errors.Join(err, b.Set([]byte{tableMeta, 'a'},
			binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli())), nil))
	} else if !errors.Is(statErr, fs.ErrNotExist) {
		err = errors.Join(err, fmt.Errorf("cache: %w", statErr))
	}
	if err != nil {
		return err
	}
	return commit(b, pebble.Sync)
}

// read copies the value of a key.
func read(db *pebble.DB, key []byte) ([]byte, error) {
	v, closer, err := db.Get(key)
	if err != nil {
		return nil, err
	}
	defer closer.Close()
	return append([]byte(nil), v...), nil
}

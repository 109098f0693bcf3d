package cache

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// storedFact is the database's fact about a domain at a host, or its absence.
type storedFact struct {
	fact  Fact
	found bool
}

// Fact returns what a decoy proved about domain at host less than a week before now.
func (c *Cache) Fact(domain, host string, now time.Time) (Fact, bool) {
	k := c.keyers.Get().(*Keyer)
	defer c.keyers.Put(k)
	at := factKey(k, domain, host)
	key := paddedKey(at)
	shard := c.facts.shard(&key)
	f, writes := shard.get(&key)
	if f == nil {
		var err error
		if f, err = c.readFact(at); err != nil {
			return Fact{}, false
		}
		shard.put(&key, f, writes)
	}
	if !f.found || !now.Before(f.fact.At.Add(c.capLifetime(LifeFact))) {
		return Fact{}, false
	}
	return f.fact, true
}

// paddedKey pads a shorter key to the length of a verdict's key, for the memory cache.
func paddedKey(at []byte) (key Key) {
	copy(key[len(key)-len(at):], at)
	return key
}

// noFact is the absence of a fact, the usual case.
var noFact = &storedFact{}

func (c *Cache) readFact(at []byte) (*storedFact, error) {
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	b, closer, err := c.db.Get(at)
	if errors.Is(err, pebble.ErrNotFound) {
		return noFact, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cache read: %w", err)
	}
	defer closer.Close()
	f, err := ReadFact(b)
	return &storedFact{f, true}, err
}

// PutFact stores what a decoy proved, without a sync.
func (c *Cache) PutFact(domain, host string, f *Fact) error {
	k := c.keyers.Get().(*Keyer)
	defer c.keyers.Put(k)
	at := factKey(k, domain, host)
	key := paddedKey(at)
	defer c.facts.shard(&key).invalidate(&key)
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	defer panicAsLost()
	return c.db.Set(at, AppendFact(nil, f), pebble.NoSync)
}

package cache

import (
	"errors"
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
		c.dbMu.RLock()
		b, err := read(c.db, at)
		c.dbMu.RUnlock()
		switch {
		case errors.Is(err, pebble.ErrNotFound):
			f = noFact
		case err != nil:
			return Fact{}, false
		default:
			f = &storedFact{found: true}
			if f.fact, err = ReadFact(b); err != nil {
				return Fact{}, false
			}
		}
		shard.put(&key, f, writes)
	}
	if !f.found || c.cfg.expired(f.fact.At, LifeFact, 0, now) {
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

// PutFact stores what a decoy proved, without a sync; while the disk is full it drops it.
func (c *Cache) PutFact(domain, host string, f *Fact) error {
	if c.Full() != nil {
		return nil
	}
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

package cache

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// known is what the database has of a domain at a host.
type known struct {
	fact Fact
	is   bool
}

// Fact finds what a decoy proved about domain at host less than a week before now.
func (c *Cache) Fact(domain, host string, now time.Time) (Fact, bool) {
	k := c.keyers.Get().(*Keyer)
	defer c.keyers.Put(k)
	at := factKey(k, domain, host)
	key := rightmost(at)
	shard := c.facts.shard(&key)
	f, writes := shard.get(&key)
	if f == nil {
		var err error
		if f, err = c.readFact(at); err != nil {
			return Fact{}, false
		}
		shard.put(&key, f, writes)
	}
	if !f.is || !now.Before(f.fact.At.Add(c.atMost(LifeFact))) {
		return Fact{}, false
	}
	return f.fact, true
}

// rightmost is a shorter key as one of a verdict's length, for what is kept in memory.
func rightmost(at []byte) (key Key) {
	copy(key[len(key)-len(at):], at)
	return key
}

// noFact is what most domains have.
var noFact = &known{}

func (c *Cache) readFact(at []byte) (*known, error) {
	c.life.RLock()
	defer c.life.RUnlock()
	b, closer, err := c.db.Get(at)
	if errors.Is(err, pebble.ErrNotFound) {
		return noFact, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cache read: %w", err)
	}
	defer closer.Close()
	f, err := ReadFact(b)
	return &known{f, true}, err
}

// PutFact keeps what a decoy proved, without waiting for the disk.
func (c *Cache) PutFact(domain, host string, f *Fact) error {
	k := c.keyers.Get().(*Keyer)
	defer c.keyers.Put(k)
	at := factKey(k, domain, host)
	key := rightmost(at)
	defer c.facts.shard(&key).written(&key)
	c.life.RLock()
	defer c.life.RUnlock()
	defer lostOnPanic()
	return c.db.Set(at, AppendFact(nil, f), pebble.NoSync)
}

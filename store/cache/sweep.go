package cache

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"probity/engine"
)

const (
	sweepStep  = 2000                  // entries read between pauses
	sweepPause = 20 * time.Millisecond // so a sweep reads at most 100,000 entries a second
	maxShrink  = 6                     // lifetimes are divided by 64 at most
)

// Swept counts the entries of a sweep.
type Swept struct{ Read, Deleted int }

// Sweep deletes expired entries, in key order and at a limited rate. While the database is over its size bound, each
// sweep halves the lifetimes that it applies; once there is room again, it doubles them. The remaining verdicts make
// the next key filter.
func (c *Cache) Sweep(ctx context.Context, now time.Time) (s Swept, err error) {
	if at := c.setAsideAt.Load(); at != nil && now.Sub(*at) >= damagedTTL {
		if err := c.cfg.FS.RemoveAll(c.cfg.Dir + damagedSuffix); err != nil {
			return s, fmt.Errorf("cache sweep: %w", err)
		}
	}
	switch size, n := c.size(), c.shrink.Load(); {
	case size > c.max && n < maxShrink:
		c.shrink.Store(n + 1)
	case size < c.max/2 && n > 0:
		c.shrink.Store(n - 1)
	}
	next, complete := c.filters.beginRebuild(), false
	defer func() { c.filters.finishRebuild(next, complete) }()
	for _, table := range [...]byte{tableResult, tableFact, tableBudget} {
		from, upto := []byte{table}, []byte{table + 1}
		for from != nil {
			if from, err = c.sweepStep(from, upto, now, next, &s); err != nil {
				return s, fmt.Errorf("cache sweep: %w", err)
			}
			select {
			case <-ctx.Done():
				return s, ctx.Err()
			case <-time.After(sweepPause):
			}
		}
	}
	complete = true
	return s, nil
}

// sweepStep reads one step from from, deletes its expired entries, adds the remaining verdicts to a key filter, and
// returns where to continue; nil at the end.
func (c *Cache) sweepStep(from, upto []byte, now time.Time, left *keyFilter, s *Swept) ([]byte, error) {
	if err := c.Full(); err != nil {
		return nil, err
	}
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	it, err := c.db.NewIter(&pebble.IterOptions{LowerBound: from, UpperBound: upto})
	if err != nil {
		return nil, err
	}
	defer it.Close()
	b := c.db.NewBatch()
	defer b.Close()
	var next []byte
	shrink := c.shrink.Load()
	for ok, n := it.First(), 0; ok; ok, n = it.Next(), n+1 {
		if n == sweepStep {
			next = append(next, it.Key()...)
			break
		}
		s.Read++
		key, value, drop := it.Key(), it.Value(), false // dropped: expired, undecodable, or too many
		switch key[0] {
		case tableBudget: // never because of size: it protects receivers
			drop = len(value) < 8 || now.UnixMilli() > int64(binary.BigEndian.Uint64(value))
		case tableFact:
			f, err := ReadFact(value)
			drop = err != nil || c.cfg.expired(f.At, LifeFact, shrink, now)
		default:
			v, err := ReadVerdict(value)
			drop = err != nil || c.cfg.expired(v.VerifiedAt, verdictLifetime(&v), shrink, now)
			if !drop {
				left.add((*Key)(key[1:]))
			}
		}
		if drop {
			s.Deleted++
			if err := b.Delete(key, nil); err != nil {
				return nil, err
			}
		}
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	return next, commit(b, pebble.NoSync)
}

// Keepable reports whether v is based on a server's reply about the mailbox; target is that reply.
func Keepable(v *engine.Verdict, target *engine.Sighting) bool {
	if target.Subject != engine.SubjectTarget || target.Event != engine.EventReply {
		return false
	}
	switch target.Finding.Meaning {
	case engine.Accepted, engine.MailboxFull:
		return v.Status == engine.Valid || v.Status == engine.Risky
	}
	return v.Status == engine.Invalid
}

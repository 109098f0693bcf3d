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

// Sweep deletes expired entries, in key order and at a limited rate. While the database is over its size bound, each sweep
// halves the lifetimes that it applies; once there is room again, it doubles them. The remaining verdicts make the next key
// filter.
func (c *Cache) Sweep(ctx context.Context, now time.Time) (s Swept, err error) {
	if err := c.dropDamaged(now); err != nil {
		return s, fmt.Errorf("cache sweep: %w", err)
	}
	c.adaptLifetimes()
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

func (c *Cache) adaptLifetimes() {
	size, n := c.size(), c.shrink.Load()
	switch {
	case size > c.max && n < maxShrink:
		c.shrink.Store(n + 1)
	case size < c.max/2 && n > 0:
		c.shrink.Store(n - 1)
	}
}

// sweepStep reads one step from from, deletes its expired entries, adds the remaining verdicts to a key filter, and returns where to
// continue; nil at the end.
func (c *Cache) sweepStep(from, upto []byte, now time.Time, left *keyFilter, s *Swept) ([]byte, error) {
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
	for ok, n := it.First(), 0; ok; ok, n = it.Next(), n+1 {
		if n == sweepStep {
			next = append(next, it.Key()...)
			break
		}
		s.Read++
		key := it.Key()
		switch {
		case c.mustDelete(key[0], it.Value(), now):
			s.Deleted++
			if err := b.Delete(key, nil); err != nil {
				return nil, err
			}
		case key[0] == tableResult:
			left.add((*Key)(key[1:]))
		}
	}
	if err := it.Error(); err != nil {
		return nil, err
	}
	return next, commit(b, pebble.NoSync)
}

// mustDelete reports a value that has expired or does not decode, or must go because the database is too large.
func (c *Cache) mustDelete(table byte, value []byte, now time.Time) bool {
	shrink := c.shrink.Load()
	switch table {
	case tableBudget: // never because of size: it protects receivers
		return len(value) < 8 || now.UnixMilli() > int64(binary.BigEndian.Uint64(value))
	case tableFact:
		f, err := ReadFact(value)
		return err != nil || !now.Before(f.At.Add(c.capLifetime(LifeFact)>>shrink))
	}
	v, err := ReadVerdict(value)
	return err != nil || !now.Before(v.VerifiedAt.Add(c.capLifetime(verdictLifetime(&v))>>shrink))
}

// Keepable reports a verdict that is based on a server's reply about the mailbox; target is that reply.
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

package cache

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// A damaged database is renamed and a new one takes its place. Verdicts can be probed again, but budget usage is lost,
// so every budget that the new database does not have counts as unknown until it would have recovered anyway.
const (
	damagedSuffix = ".damaged"     // of the folder that was set aside; at most one is kept
	damagedTTL    = 24 * time.Hour // then a sweep removes it
	// budgets are for an hour, and a lease is settled some minutes after its end
	budgetUnknownFor = time.Hour + 10*time.Minute
)

// ErrSetAside is wrapped by Budget's error for a budget that cannot be read from a damaged database, or may have been
// in one that was set aside within budgetUnknownFor.
var ErrSetAside = errors.New("what was used of it was lost with a damaged cache")

// Damage is closed when the current database is found to be damaged: call SetAside then. Each database has its own
// channel.
func (c *Cache) Damage() <-chan struct{} {
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	return c.health.damage
}

// health is the state of one database's files. Each database has its own, so that late reports about an old one affect
// no other.
type health struct {
	once   sync.Once
	damage chan struct{} // closed when the database is found to be damaged
}

func (h *health) damaged() bool {
	select {
	case <-h.damage:
		return true
	default:
		return false
	}
}

// recordDamage is called for damage found at the start, during a read or a compaction. It reports only the first.
func (h *health) recordDamage(info pebble.DataCorruptionInfo, log *slog.Logger) {
	h.once.Do(func() {
		close(h.damage)
		// As text: the error itself has a stack trace for each wrapping.
		log.Error("the result cache is damaged", "file", info.Path, "error", info.Details.Error())
	})
}

// SetAside replaces a damaged database by a new one. Keys stay valid. If no new database can be made, it panics with
// Lost.
func (c *Cache) SetAside() {
	c.dbMu.Lock()
	defer c.dbMu.Unlock()
	cause := cmp.Or(c.db.Close(), errors.New("damage was met while it was in use"))
	if err := c.replace(cause); err != nil {
		panic(Lost(err.Error()))
	}
}

// replace renames the folder and starts a new database. dbMu is held, or the cache is not in use yet.
func (c *Cache) replace(cause error) error {
	disk, dir := c.cfg.FS, c.cfg.Dir
	if err := errors.Join(disk.RemoveAll(dir+damagedSuffix), disk.Rename(dir, dir+damagedSuffix)); err != nil {
		return fmt.Errorf("the result cache is damaged (%w) and cannot be set aside: %w; delete %s", cause, err, dir)
	}
	c.recent.clear()
	c.facts.clear()
	if err := c.load(); err != nil {
		return fmt.Errorf("a new result cache, as the one before was damaged: %w", err)
	}
	c.cfg.Log.Error("the result cache was damaged: a new one is begun, and budgets that are not known count as used up",
		"aside", dir+damagedSuffix, "cause", cause.Error())
	return nil
}

// size is the size of the database on disk.
func (c *Cache) size() uint64 {
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	return c.db.Metrics().DiskSpaceUsage()
}

package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"

	"probity/store/opendb"
)

// A database that is damaged is renamed and a new one takes its place: verdicts can be asked for again. What was used of a budget
// cannot, so every budget that the new database does not have counts as unknown until it would have recovered anyway.
const (
	damagedSuffix    = ".damaged"                 // of the folder that was set aside; one at most is kept
	damagedTTL       = 24 * time.Hour             // then a sweep removes it
	budgetUnknownFor = time.Hour + 10*time.Minute // budgets are for an hour, and a lease is settled some minutes after its end
)

// ErrSetAside is wrapped by what Budget returns for a budget that cannot be read from a database which has met damage, or may have been
// in one that was set aside a short time ago.
var ErrSetAside = errors.New("what was used of it was lost with a damaged cache")

// Damage is closed when the database that is in use has met damage: call SetAside then. Each database has its own.
func (c *Cache) Damage() <-chan struct{} {
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	return c.health.damage
}

// health is what is known of one database's files. What a database that was set aside still reports concerns no other.
type health struct {
	once   sync.Once
	damage chan struct{} // closed when it has met damage
}

func (h *health) damaged() bool {
	select {
	case <-h.damage:
		return true
	default:
		return false
	}
}

// recordDamage hears of damage at the start, or in the middle of a read or a compaction, and tells of the first.
func (h *health) recordDamage(info pebble.DataCorruptionInfo, log *slog.Logger) {
	h.once.Do(func() {
		close(h.damage)
		if log != nil { // as text: with its details the error has a stack trace for each wrapping
			log.Error("the result cache is damaged", "file", info.Path, "error", info.Details.Error())
		}
	})
}

// isDamage reports that the database could not be opened because it is not what was written: not for want of room or rights,
// as it is locked, or as a newer program wrote it.
func (c *Cache) isDamage(err error) bool {
	var refused syscall.Errno
	if err == nil || errors.Is(err, errNewer) || errors.Is(err, opendb.ErrDisk) || errors.As(err, &refused) && refused != syscall.ENOENT {
		return false
	}
	marker, _ := atomicfs.ReadMarker(c.cfg.FS, c.cfg.Dir, "format-version") // what cannot be read is no newer one's
	version, _ := strconv.ParseUint(marker, 10, 64)
	return version <= uint64(pebble.FormatNewest)
}

// SetAside puts a new database in the place of a damaged one. Keys stay good. When no new one can be made the cache panics
// with Lost, as there is nothing to go on with.
func (c *Cache) SetAside() {
	c.dbMu.Lock()
	defer c.dbMu.Unlock()
	cause := errors.New("damage was met while it was in use")
	if err := c.db.Close(); err != nil {
		cause = err
	}
	if err := c.replace(cause); err != nil {
		panic(Lost(err.Error()))
	}
}

// replace renames the folder and begins a new database. life is held, or nothing uses the cache yet.
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
	if log := c.cfg.Log; log != nil {
		log.Error("the result cache was damaged: a new one is begun, and budgets that are not known count as used up", "aside", dir+damagedSuffix, "cause", cause.Error())
	}
	return nil
}

// recordSetAside writes into a new database when the one before was set aside. It is the folder that tells, so that a crash between
// the renaming and this loses nothing.
func (c *Cache) recordSetAside(b *pebble.Batch) error {
	switch _, err := c.cfg.FS.Stat(c.cfg.Dir + damagedSuffix); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("cache: %w", err)
	}
	now := time.Now()
	c.setAsideAt.Store(&now)
	return b.Set([]byte{tableMeta, 'a'}, binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli())), nil)
}

func (c *Cache) loadSetAside() error {
	b, err := c.read([]byte{tableMeta, 'a'})
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

// budgetReadError is the error for a budget that the database could not read. life is held.
func (c *Cache) budgetReadError(err error) error {
	if c.health.damaged() {
		return fmt.Errorf("cache budget: %w: %w", ErrSetAside, err)
	}
	return fmt.Errorf("cache budget: %w", err)
}

// missingBudgetError is the error for a budget that the database does not have, nil when it never was there.
func (c *Cache) missingBudgetError() error {
	if at := c.setAsideAt.Load(); at != nil && time.Since(*at) < budgetUnknownFor {
		return ErrSetAside
	}
	return nil
}

// dropDamaged removes what was set aside a day ago.
func (c *Cache) dropDamaged(now time.Time) error {
	if at := c.setAsideAt.Load(); at == nil || now.Sub(*at) < damagedTTL {
		return nil
	}
	return c.cfg.FS.RemoveAll(c.cfg.Dir + damagedSuffix)
}

// size is what the database takes on disk.
func (c *Cache) size() uint64 {
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	return c.db.Metrics().DiskSpaceUsage()
}

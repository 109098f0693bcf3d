package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Budget is a budget's name and its encoded state. After Until it has no meaning, and the sweep deletes it.
type Budget struct {
	Name  string
	State []byte // nil removes the budget
	Until time.Time
}

// Budget reads the state stored under name; false if there is none. An error means that the budget's usage is unknown.
func (c *Cache) Budget(name string) ([]byte, bool, error) {
	k := c.keyers.Get().(*Keyer)
	defer c.keyers.Put(k)
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	b, err := read(c.db, budgetKey(k, name))
	switch at := c.setAsideAt.Load(); {
	case errors.Is(err, pebble.ErrNotFound) && at != nil && time.Since(*at) < budgetUnknownFor:
		return nil, false, ErrSetAside
	case errors.Is(err, pebble.ErrNotFound):
		return nil, false, nil
	case err != nil && c.health.damaged():
		return nil, false, fmt.Errorf("cache budget: %w: %w", ErrSetAside, err)
	case err != nil:
		return nil, false, fmt.Errorf("cache budget: %w", err)
	case len(b) < 8:
		return nil, false, fmt.Errorf("cache budget: %w", errValue)
	}
	return b[8:], true, nil
}

// PutBudgets writes budgets in one synced commit: when it returns nil, they survive a crash.
func (c *Cache) PutBudgets(budgets []Budget) error {
	if err := c.Full(); err != nil {
		return fmt.Errorf("cache budgets: %w", err)
	}
	k := c.keyers.Get().(*Keyer)
	defer c.keyers.Put(k)
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	b := c.db.NewBatch()
	defer b.Close()
	var err error
	for _, u := range budgets {
		key := budgetKey(k, u.Name)
		if u.State == nil {
			err = errors.Join(err, b.Delete(key, nil))
		} else {
			err = errors.Join(err, b.Set(key, append(binary.BigEndian.AppendUint64(nil, uint64(u.Until.UnixMilli())),
				u.State...), nil))
		}
	}
	if err == nil {
		err = commit(b, pebble.Sync)
	}
	if err != nil {
		return fmt.Errorf("cache budgets: %w", err)
	}
	return nil
}

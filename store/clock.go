package store

import (
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// SaveClock stores the time of the wall clock.
func (s *Store) SaveClock(now time.Time) error {
	return s.Commit("", func(b *pebble.Batch) error {
		return b.Set(key(tableMeta, "clock"), appendUint64(nil, uint64(now.UnixMilli())), nil)
	})
}

// SavedClock returns the time that SaveClock stored last; zero for never.
func (s *Store) SavedClock() (time.Time, error) {
	n, err := getUint64(s.db, key(tableMeta, "clock"), "clock record")
	if err != nil || n == 0 {
		return time.Time{}, err
	}
	return time.UnixMilli(int64(n)), nil
}

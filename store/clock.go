package store

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// SaveClock stores the time of the wall clock.
func (s *Store) SaveClock(now time.Time) error {
	return s.Commit("", func(b *pebble.Batch) error {
		return b.Set(key(tableMeta, "clock"), binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli())), nil)
	})
}

// SavedClock returns the time that SaveClock stored last; zero for never.
func (s *Store) SavedClock() (time.Time, error) {
	v, err := get(s.db, key(tableMeta, "clock"))
	if errors.Is(err, ErrNotFound) {
		return time.Time{}, nil
	}
	if err != nil || len(v) != 8 {
		return time.Time{}, errors.Join(err, errors.New("clock record"))
	}
	return time.UnixMilli(int64(binary.BigEndian.Uint64(v))), nil
}

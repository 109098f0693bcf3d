package store

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// expirySize is the size of the expiry time at the start of a value that expires: unix nanoseconds.
const expirySize = 8

func appendExpiry(dst []byte, at time.Time) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(at.UnixNano()))
}

// hasExpired reports whether a value has expired. A value without an expiry time is damaged and counts as expired.
func hasExpired(v []byte, now time.Time) bool {
	return len(v) < expirySize || int64(binary.BigEndian.Uint64(v)) <= now.UnixNano()
}

// sweepBatch bounds the deletions that one round of a sweep holds in memory.
const sweepBatch = 1000

// expiredRecord is an expired record: the account whose lock its commit takes, and the keys to delete.
type expiredRecord struct {
	lock      string
	key       []byte
	secondKey []byte // or nil
}

// sweep deletes the expired records under prefix and returns their number. It finds them without a lock, and deletes each
// under the lock of its account if it is still expired then.
func (s *Store) sweep(prefix []byte, now time.Time, inspect func(k, v []byte) expiredRecord) (int, error) {
	var start []byte
	for total := 0; ; {
		found, err := s.findExpired(prefix, start, now, inspect)
		if err != nil || len(found) == 0 {
			return total, err
		}
		start = append(found[len(found)-1].key, 0)
		byLock := make(map[string][]expiredRecord)
		for _, one := range found {
			byLock[one.lock] = append(byLock[one.lock], one)
		}
		for lock, records := range byLock {
			n, err := s.deleteExpired(lock, records, now)
			if total += n; err != nil {
				return total, err
			}
		}
	}
}

func (s *Store) findExpired(prefix, start []byte, now time.Time, inspect func(k, v []byte) expiredRecord) ([]expiredRecord, error) {
	var found []expiredRecord
	err := scan(s.db, prefix, start, func(k, v []byte) error {
		if !hasExpired(v, now) {
			return nil
		}
		one := inspect(k, v)
		one.key = append([]byte(nil), k...)
		if found = append(found, one); len(found) == sweepBatch {
			return errStop
		}
		return nil
	})
	return found, err
}

func (s *Store) deleteExpired(lock string, records []expiredRecord, now time.Time) (n int, err error) {
	err = s.Commit(lock, func(b *pebble.Batch) error {
		for _, one := range records {
			v, err := get(b, one.key)
			if errors.Is(err, ErrNotFound) || (err == nil && !hasExpired(v, now)) {
				continue
			}
			if err != nil {
				return err
			}
			n++
			if err := b.Delete(one.key, nil); err != nil {
				return err
			}
			if one.secondKey == nil {
				continue
			}
			if err := b.Delete(one.secondKey, nil); err != nil {
				return err
			}
		}
		return nil
	})
	return n, err
}

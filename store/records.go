package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// get returns a copy of the value of a key, or ErrNotFound.
func get(r pebble.Reader, k []byte) ([]byte, error) {
	v, closer, err := r.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, wrapBroken(err)
	}
	defer closer.Close()
	return append([]byte(nil), v...), nil
}

// getUint64 reads a number of eight bytes, 0 if there is none; what names it.
func getUint64(r pebble.Reader, k []byte, what string) (uint64, error) {
	v, err := get(r, k)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return decodeUint64(v, what)
}

func decodeUint64(v []byte, what string) (uint64, error) {
	if len(v) != 8 {
		return 0, fmt.Errorf("%s has %d bytes, want 8", what, len(v))
	}
	return binary.BigEndian.Uint64(v), nil
}

func appendUint64(dst []byte, n uint64) []byte { return binary.BigEndian.AppendUint64(dst, n) }

// setJSON writes a record as JSON into the batch.
func setJSON(b *pebble.Batch, k []byte, record any) error {
	v, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return b.Set(k, v, nil)
}

// readJSON reads a record that setJSON wrote, or ErrNotFound.
func readJSON[T any](r pebble.Reader, k []byte) (record T, err error) {
	v, err := get(r, k)
	if err == nil {
		err = decodeJSON(k, v, &record)
	}
	return record, err
}

func decodeJSON(k, v []byte, record any) error {
	if err := json.Unmarshal(v, record); err != nil {
		return fmt.Errorf("record of table %q: %w", k[0], err)
	}
	return nil
}

// listJSON reads all records under prefix.
func listJSON[T any](r pebble.Reader, prefix []byte) (all []T, err error) {
	err = scan(r, prefix, nil, func(k, v []byte) error {
		var one T
		err := decodeJSON(k, v, &one)
		all = append(all, one)
		return err
	})
	return all, err
}

// newestJSON reads the last records under prefix, from below upper, at most limit and MaxPage of them, and passes each
// to visit.
func newestJSON[T any](r pebble.Reader, prefix, upper []byte, limit int,
	visit func(k []byte, one *T)) (all []T, err error) {
	err = walkBack(r, prefix, upper, func(k, v []byte) error {
		var one T
		if err := decodeJSON(k, v, &one); err != nil {
			return err
		}
		visit(k, &one)
		all = append(all, one)
		if len(all) == pageSize(limit) {
			return errStop
		}
		return nil
	})
	return all, err
}

// errStop ends a scan early without an error.
var errStop = errors.New("stop")

// scan calls visit with each key and value under prefix, in key order, from the key start on if it is not nil. Both
// slices are valid until visit returns. visit returns errStop to end early.
func scan(r pebble.Reader, prefix, start []byte, visit func(k, v []byte) error) error {
	if start == nil {
		start = prefix
	}
	return walk(r, start, prefixEnd(prefix), (*pebble.Iterator).First, (*pebble.Iterator).Next, visit)
}

// walkBack is scan from below upper down to lower.
func walkBack(r pebble.Reader, lower, upper []byte, visit func(k, v []byte) error) error {
	return walk(r, lower, upper, (*pebble.Iterator).Last, (*pebble.Iterator).Prev, visit)
}

func walk(r pebble.Reader, lower, upper []byte, first, next func(*pebble.Iterator) bool,
	visit func(k, v []byte) error) error {
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return wrapBroken(err)
	}
	for ok := first(it); ok; ok = next(it) {
		v, err := it.ValueAndErr()
		if err = wrapBroken(err); err == nil {
			err = visit(it.Key(), v)
		}
		if errors.Is(err, errStop) {
			break
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return wrapBroken(it.Close())
}

func count(r pebble.Reader, prefix []byte) (n int, err error) {
	err = scan(r, prefix, nil, func(_, _ []byte) error { n++; return nil })
	return n, err
}

// expirySize is the size of the expiry time at the start of a value that expires: unix nanoseconds.
const expirySize = 8

// setExpiring writes a record as JSON after its expiry time.
func setExpiring(b *pebble.Batch, k []byte, at time.Time, record any) error {
	body, err := json.Marshal(record)
	if err != nil {
		return err
	}
	return b.Set(k, append(appendUint64(nil, uint64(at.UnixNano())), body...), nil)
}

// hasExpired reports whether a value has expired. A value without an expiry time is damaged and counts as expired.
func hasExpired(v []byte, now time.Time) bool {
	return len(v) < expirySize || int64(binary.BigEndian.Uint64(v)) <= now.UnixNano()
}

// sweepBatch bounds the deletions that one round of a sweep holds in memory.
const sweepBatch = 1000

// deletion is a record to delete.
type deletion struct {
	lock      string // the account whose lock its commit takes
	key       []byte
	secondKey []byte // goes with it; or nil
}

// sweep deletes the records under prefix for which match returns a deletion, and returns their number. It finds them
// without a lock, and deletes each under the lock of its account if it still matches then. match sets no key; it
// returns errStop to end early.
func (d *DB) sweep(prefix []byte, match func(k, v []byte) (*deletion, error)) (n int, err error) {
	for start := prefix; ; {
		found, byLock := 0, make(map[string][]*deletion)
		err := scan(d.db, prefix, start, func(k, v []byte) error {
			one, err := match(k, v)
			if one == nil || err != nil {
				return err
			}
			one.key = bytes.Clone(k)
			start = append(one.key, 0)
			byLock[one.lock] = append(byLock[one.lock], one)
			found++
			if found == sweepBatch {
				return errStop
			}
			return nil
		})
		if err != nil || found == 0 {
			return n, err
		}
		for lock, records := range byLock {
			err := d.Commit(lock, func(b *pebble.Batch) error {
				for _, one := range records {
					if deleted, err := one.delete(b, match); err != nil {
						return err
					} else if deleted {
						n++
					}
				}
				return nil
			})
			if err != nil {
				return n, err
			}
		}
	}
}

// delete deletes a record that still matches, and reports whether it did.
func (d *deletion) delete(b *pebble.Batch, match func(k, v []byte) (*deletion, error)) (bool, error) {
	v, err := get(b, d.key)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if still, err := match(d.key, v); still == nil || err != nil {
		return false, err
	}
	err = b.Delete(d.key, nil)
	if d.secondKey != nil {
		err = errors.Join(err, b.Delete(d.secondKey, nil))
	}
	return true, err
}

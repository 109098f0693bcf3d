package history

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"probity/engine"
	"probity/store/diskroom"
)

// Erase deletes the verifications of an address, given in folded form, of all accounts, and returns how many there
// were. Numbers of other rows and counts of days stay. After an error it can be repeated.
func (h *History) Erase(ctx context.Context, folded string) (erased int, err error) {
	if h == nil {
		return 0, nil
	}
	if err := diskroom.Full(h.cfg.FS); err != nil {
		return 0, fmt.Errorf("history: %w", err)
	}
	h.flush()
	h.writeMu.Lock()
	defer h.writeMu.Unlock()
	h.dbMu.RLock()
	defer h.dbMu.RUnlock()
	if erased, err = h.eraseRows(ctx, folded); err == nil {
		err = h.removeOldValues(ctx)
	}
	if err != nil {
		return erased, fmt.Errorf("history: %w", err)
	}
	return erased, nil
}

// eraseRows writes the blocks without the address, and that what they were before is still on the disk.
func (h *History) eraseRows(ctx context.Context, folded string) (erased int, err error) {
	it, err := h.db.NewIter(&pebble.IterOptions{LowerBound: []byte{byte(verifications)},
		UpperBound: []byte{byte(verifications) + 1}})
	if err != nil {
		return 0, err
	}
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err = errors.Join(err, ctx.Err()); err != nil {
			return erased, err
		}
		left, n := withoutAddress(value, folded)
		if n == 0 {
			continue
		}
		b := h.db.NewBatch()
		err = errors.Join(b.Set(it.Key(), left, nil), b.Set(oldValuesKey, nil, nil))
		if err = errors.Join(err, commit(b, pebble.Sync), b.Close()); err != nil {
			return erased, err
		}
		erased += n
	}
	return erased, it.Error()
}

// removeOldValues removes from all files what erased blocks were before, after an earlier erasure that failed there
// too.
func (h *History) removeOldValues(ctx context.Context) error {
	_, closer, err := h.db.Get(oldValuesKey)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err == nil {
		err = closer.Close()
	}
	if err == nil {
		err = h.files.RemoveOldValues(ctx, h.db, h.cfg.Dir, byte(verifications))
	}
	if err != nil {
		return err
	}
	b := h.db.NewBatch()
	return errors.Join(b.Delete(oldValuesKey, nil), commit(b, pebble.NoSync), b.Close())
}

// withoutAddress returns a block with empty rows in place of those of an address, and how many these are. A row that
// cannot be read counts as one of them.
func withoutAddress(value []byte, folded string) (left []byte, erased int) {
	b := newBlock(nil)
	for _, row := range splitBlock(value) {
		if len(row) > 0 && isAbout(row, folded) {
			row = nil
			erased++
		}
		b.add(row)
	}
	b.newest = newestOf(value)
	return b.seal(), erased
}

func isAbout(row []byte, folded string) bool {
	v, err := readVerification(row)
	if err != nil {
		return true
	}
	a, err := engine.ParseTrimmed(v.Email)
	return err == nil && a.Folded() == folded
}

// Sweep deletes rows older than MaxAge, and days older than MaxDays.
func (h *History) Sweep(now time.Time) error {
	h.writeMu.Lock()
	defer h.writeMu.Unlock()
	h.dbMu.RLock()
	defer h.dbMu.RUnlock()
	b := h.db.NewBatch()
	defer b.Close()
	var errs []error
	for _, k := range kinds {
		errs = append(errs, h.sweepKind(b, k, now))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("history: %w", err)
	}
	return commit(b, pebble.NoSync)
}

// sweepKind visits the accounts of a kind, and of each the rows that it deletes.
func (h *History) sweepKind(b *pebble.Batch, k kind, now time.Time) error {
	it, err := h.db.NewIter(&pebble.IterOptions{LowerBound: []byte{byte(k)}, UpperBound: []byte{byte(k) + 1}})
	if err != nil {
		return err
	}
	defer it.Close()
	for ok := it.First(); ok; {
		account, _ := splitKey(it.Key())
		end := k.end(account)
		old := 0
		for ; ok && bytes.Compare(it.Key(), end) < 0; ok = it.Next() {
			value, err := it.ValueAndErr()
			if err != nil {
				return err
			}
			if !isOld(k, it.Key(), value, now) {
				end = bytes.Clone(it.Key())
				break
			}
			old++
		}
		if old > 0 {
			if err := b.DeleteRange(k.prefix(account), end, nil); err != nil {
				return err
			}
		}
		ok = it.SeekGE(k.end(account))
	}
	return it.Error()
}

func isOld(k kind, key, value []byte, now time.Time) bool {
	if k == days {
		_, n := splitKey(key)
		return n+MaxDays <= dayNumber(now)
	}
	return int64(newestOf(value)) < now.Add(-MaxAge).UnixMilli()
}

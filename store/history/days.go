package history

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"probity/engine/detail"
)

// Day is what an account did on a day (UTC).
type Day struct {
	Requests int64
	Verified verdictCounts // verifications of single calls and batches by status, without those of test keys
}

func dayNumber(t time.Time) uint64 { return uint64(max(0, t.Unix()/(24*60*60))) }

func (d *Day) append(dst []byte) []byte {
	dst = binary.AppendVarint(dst, d.Requests)
	for _, n := range d.Verified {
		dst = binary.AppendVarint(dst, n)
	}
	return dst
}

func readDay(src []byte) (d Day, err error) {
	r := detail.Reader{Src: src}
	d.Requests = r.Varint()
	for i := range d.Verified {
		d.Verified[i] = r.Varint()
	}
	if r.Bad || len(r.Src) > 0 {
		return Day{}, ErrMalformed
	}
	return d, nil
}

// writeDays adds to the counts of days.
func (h *History) writeDays(account string, added map[uint64]*Day) error {
	for n, d := range added {
		key := days.key(account, n)
		old, closer, err := h.db.Get(key)
		if err != nil && !errors.Is(err, pebble.ErrNotFound) {
			return err
		}
		if err == nil {
			was, err := readDay(old)
			if err = errors.Join(err, closer.Close()); err != nil {
				return err
			}
			d.Requests += was.Requests
			for i := range d.Verified {
				d.Verified[i] += was.Verified[i]
			}
		}
		if err := h.db.Set(key, d.append(nil), pebble.NoSync); err != nil {
			return err
		}
	}
	return nil
}

// Days returns the days of an account from a time on, by their date such as 2026-03-01.
func (h *History) Days(account string, from time.Time) (map[string]Day, error) {
	found := map[string]Day{}
	if h == nil {
		return found, nil
	}
	h.flushForRead()
	h.dbMu.RLock()
	defer h.dbMu.RUnlock()
	it, err := h.db.NewIter(&pebble.IterOptions{LowerBound: days.key(account, dayNumber(from)),
		UpperBound: days.end(account)})
	if err != nil {
		return nil, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		d, err := readDay(value)
		if err != nil {
			return nil, errors.Join(err, it.Close())
		}
		_, n := splitKey(it.Key())
		found[time.Unix(int64(n)*24*60*60, 0).UTC().Format(time.DateOnly)] = d
	}
	return found, it.Close()
}

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// The kinds of paid work. A job's reservation is stored until the job is settled; a single call's is a hold in memory.
const (
	workSingle = 's'
	workJob    = 'j'
)

// paidWork identifies a job or a single call; its ledger ids and the key of its reservation derive from it.
type paidWork struct {
	account string
	kind    byte
	ref     string
}

func (w paidWork) key() []byte {
	return append(append(keyPrefix(tableReserve, w.account), w.kind), w.ref...)
}

func (w paidWork) cause() string {
	if w.kind == workJob {
		return "job " + w.ref
	}
	return singleCause + w.ref
}

// id is the ledger id: the cause and the kind.
func (w paidWork) id(kind Kind) string {
	if w.kind == workJob {
		return "job " + w.ref + " " + string(kind)
	}
	return singleCause + w.ref + " " + string(kind)
}

func (w paidWork) entry(kind Kind, credits int64, now time.Time) Entry {
	return Entry{ID: w.id(kind), Kind: kind, Credits: credits, Cause: w.cause(), At: now}
}

// ReserveJob is the part of a job's acceptance that sets credits aside for its distinct addresses. Its commit must be the
// account's. Nothing is written for zero credits (a test key's job).
func ReserveJob(account, job string, credits int64, now time.Time) Part {
	return paidWork{account, workJob, job}.reserve(credits, now)
}

// SettleJob is the part of a job's completion that charges used and releases the rest of its reservation. A repetition with
// the same number has no effect; nor has settling a job that reserved nothing and used nothing.
func SettleJob(account, job string, used int64, now time.Time) Part {
	return paidWork{account, workJob, job}.settle(used, now)
}

func (w paidWork) reserve(credits int64, now time.Time) Part {
	return func(b *pebble.Batch) error {
		if err := checkName("reference", w.ref); err != nil {
			return err
		}
		if credits < 0 || credits > MaxCredits {
			return ErrCreditsRange
		}
		if credits == 0 {
			return nil
		}
		fresh, err := appendEntry(b, w.account, w.entry(Reserve, credits, now))
		if err != nil || !fresh {
			return err
		}
		return b.Set(w.key(), binary.BigEndian.AppendUint64(nil, uint64(credits)), nil)
	}
}

func (w paidWork) settle(used int64, now time.Time) Part {
	return func(b *pebble.Batch) error {
		reserved, err := readReserved(b, w.key())
		if errors.Is(err, ErrNotFound) {
			return w.checkSettled(b, used)
		}
		if err != nil {
			return err
		}
		if used < 0 || used > reserved {
			return fmt.Errorf("%s: %d used of %d: %w", w.cause(), used, reserved, ErrOverspent)
		}
		if used > 0 {
			if _, err := appendEntry(b, w.account, w.entry(Charge, used, now)); err != nil {
				return err
			}
		}
		if rest := reserved - used; rest > 0 {
			if _, err := appendEntry(b, w.account, w.entry(Release, rest, now)); err != nil {
				return err
			}
		}
		return b.Delete(w.key(), nil)
	}
}

// checkSettled checks a settlement without a reservation: it must repeat the one that was made.
func (w paidWork) checkSettled(b *pebble.Batch, used int64) error {
	id := w.cause() // a single call's settlement, charge or release
	if w.kind == workJob {
		id = w.id(Charge)
	}
	var was int64
	old, err := entryByID(b, w.account, id)
	switch {
	case err == nil && old.Kind == Charge:
		was = old.Credits
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	}
	if was != used {
		return fmt.Errorf("%s: settled with %d used, now %d: %w", w.cause(), was, used, ErrLedgerConflict)
	}
	return nil
}

func readReserved(r pebble.Reader, k []byte) (int64, error) {
	v, err := get(r, k)
	if err != nil {
		return 0, err
	}
	return decodeReserved(v)
}

func decodeReserved(v []byte) (int64, error) {
	if len(v) != 8 {
		return 0, fmt.Errorf("a reservation has %d bytes, want 8", len(v))
	}
	return int64(binary.BigEndian.Uint64(v)), nil
}

package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// A job's reservation is stored until the job is settled; a single call's is in memory only. Ledger ids derive from the
// cause.
const jobCause = "job "

// reservationKey is the key of a job's reservation.
func reservationKey(account, job string) []byte { return subKey(tableReserve, account, "j"+job) }

// appendJobEntry enters a reservation, charge or release of a job.
func appendJobEntry(b *pebble.Batch, account, job string, kind Kind, credits int64,
	now time.Time) (fresh bool, err error) {
	cause := jobCause + job
	return appendEntry(b, account, Entry{ID: cause + " " + string(kind), Kind: kind, Credits: credits, Cause: cause,
		At: now})
}

// ReserveJob is the part of a job's acceptance that sets credits aside for its distinct addresses. Its commit must be
// the account's. Nothing is written for zero credits (a test key's job).
func ReserveJob(account, job string, credits int64, now time.Time) Part {
	return func(b *pebble.Batch) error {
		if err := checkName("reference", job); err != nil {
			return err
		}
		if credits < 0 || credits > MaxCredits {
			return ErrCreditsRange
		}
		if credits == 0 {
			return nil
		}
		fresh, err := appendJobEntry(b, account, job, Reserve, credits, now)
		if err != nil || !fresh {
			return err
		}
		return b.Set(reservationKey(account, job), appendUint64(nil, uint64(credits)), nil)
	}
}

// SettleJob is the part of a job's completion that charges used and releases the rest of its reservation. A repetition
// with the same number has no effect; nor has settling a job that reserved nothing and used nothing.
func SettleJob(account, job string, used int64, now time.Time) Part {
	return func(b *pebble.Batch) error {
		n, err := getUint64(b, reservationKey(account, job), "a reservation")
		reserved := int64(n)
		switch {
		case err != nil:
			return err
		case reserved == 0:
			return checkSettled(b, account, jobCause+job, jobCause+job+" "+string(Charge), used)
		case used < 0 || used > reserved:
			return fmt.Errorf("%s: %d used of %d: %w", jobCause+job, used, reserved, ErrOverspent)
		}
		if used > 0 {
			if _, err := appendJobEntry(b, account, job, Charge, used, now); err != nil {
				return err
			}
		}
		if used < reserved {
			if _, err := appendJobEntry(b, account, job, Release, reserved-used, now); err != nil {
				return err
			}
		}
		return b.Delete(reservationKey(account, job), nil)
	}
}

// checkSettled checks a settlement without a reservation: it must repeat the one that was made, whose charge has the
// id.
func checkSettled(b *pebble.Batch, account, cause, id string, used int64) error {
	var was int64
	old, err := entryByID(b, account, id)
	switch {
	case err == nil && old.Kind == Charge:
		was = old.Credits
	case err != nil && !errors.Is(err, ErrNotFound):
		return err
	}
	if was != used {
		return fmt.Errorf("%s: settled with %d used, now %d: %w", cause, was, used, ErrLedgerConflict)
	}
	return nil
}

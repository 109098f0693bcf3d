package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// What a reservation is for. A single's does not outlive its process; a job's lives until the job is settled.
const (
	forSingle = 's'
	forJob    = 'j'
)

// work names one piece of paid work: every ledger id and key of its reservation derives from it.
type work struct {
	account string
	kind    byte
	ref     string
}

func (w work) key() []byte {
	return append(append(keyUnder(tableReserve, w.account), w.kind), w.ref...)
}

func (w work) cause() string {
	if w.kind == forJob {
		return "job " + w.ref
	}
	return "single " + w.ref
}

func (w work) entry(kind Kind, credits int64, now time.Time) Entry {
	return Entry{ID: w.cause() + " " + string(kind), Kind: kind, Credits: credits, Cause: w.cause(), At: now}
}

// ReserveJob is the part of a job's acceptance that sets credits aside for its distinct addresses. The commit that it
// is part of must be the account's. Nothing is written for zero credits (a test key's job).
func ReserveJob(account, job string, credits int64, now time.Time) Part {
	return work{account, forJob, job}.reserve(credits, now)
}

// SettleJob is the part of a job's completion that charges used and releases the rest of its reservation. Settling
// again with the same number does nothing; so does settling a job that reserved nothing and used nothing.
func SettleJob(account, job string, used int64, now time.Time) Part {
	return work{account, forJob, job}.settle(used, now)
}

func (w work) reserve(credits int64, now time.Time) Part {
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
		fresh, err := post(b, w.account, w.entry(Reserve, credits, now))
		if err != nil || !fresh {
			return err
		}
		return b.Set(w.key(), binary.BigEndian.AppendUint64(nil, uint64(credits)), nil)
	}
}

func (w work) settle(used int64, now time.Time) Part {
	return func(b *pebble.Batch) error {
		reserved, err := readReserved(b, w.key())
		if errors.Is(err, ErrNotFound) {
			return w.settled(b, used)
		}
		if err != nil {
			return err
		}
		if used < 0 || used > reserved {
			return fmt.Errorf("%s: %d used of %d: %w", w.cause(), used, reserved, ErrOverspent)
		}
		if used > 0 {
			if _, err := post(b, w.account, w.entry(Charge, used, now)); err != nil {
				return err
			}
		}
		if rest := reserved - used; rest > 0 {
			if _, err := post(b, w.account, w.entry(Release, rest, now)); err != nil {
				return err
			}
		}
		return b.Delete(w.key(), nil)
	}
}

// settled judges a settlement without a reservation: it is harmless if it repeats the one that was made.
func (w work) settled(b *pebble.Batch, used int64) error {
	var was int64
	old, err := entryByID(b, w.account, w.entry(Charge, 0, time.Time{}).ID)
	switch {
	case err == nil:
		was = old.Credits
	case !errors.Is(err, ErrNotFound):
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

// ReserveSingle sets credits aside for one verification, before any work. request must be an identifier of our own
// making, new for every call: never one that a client can choose, for the same identifier is never charged twice.
func (s *Store) ReserveSingle(account, request string, credits int64, now time.Time) error {
	return s.Commit(account, work{account, forSingle, request}.reserve(credits, now))
}

// SettleSingle charges used of the reservation and releases the rest: 0 releases all of it. The further parts, such as
// KeepAnswer, become true with it.
func (s *Store) SettleSingle(account, request string, used int64, now time.Time, also ...Part) error {
	return s.Commit(account, append([]Part{work{account, forSingle, request}.settle(used, now)}, also...)...)
}

// ChargeSingle is a reservation and its settlement in one commit, for an answer that was there already.
func (s *Store) ChargeSingle(account, request string, used int64, now time.Time, also ...Part) error {
	w := work{account, forSingle, request}
	return s.Commit(account, append([]Part{w.reserve(used, now), w.settle(used, now)}, also...)...)
}

// releaseBatch bounds the reservations that one commit of releaseSingles gives back.
const releaseBatch = 256

// releaseSingles gives back what singles of a dead process had reserved: none of them was answered.
func (s *Store) releaseSingles(now time.Time) error {
	left, err := s.openSingles()
	if err != nil {
		return err
	}
	for account, refs := range left {
		for len(refs) > 0 {
			n := min(releaseBatch, len(refs))
			parts := make([]Part, 0, n)
			for _, ref := range refs[:n] {
				parts = append(parts, work{account, forSingle, ref}.settle(0, now))
			}
			if err := s.Commit(account, parts...); err != nil {
				return fmt.Errorf("release of single verifications cut short: %w", err)
			}
			refs = refs[n:]
		}
	}
	return nil
}

// openSingles lists the references of single reservations by account.
func (s *Store) openSingles() (map[string][]string, error) {
	left := make(map[string][]string)
	err := scan(s.db, []byte{tableReserve}, nil, func(k, _ []byte) error {
		account, rest, ok := cutName(k)
		if ok && len(rest) > 1 && rest[0] == forSingle {
			left[account] = append(left[account], string(rest[1:]))
		}
		return nil
	})
	return left, err
}

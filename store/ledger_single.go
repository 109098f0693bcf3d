package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// ReserveSingle sets credits aside for one single call, in memory only: nothing is charged before SettleSingle, even if
// the process ends. request must be from NewRequest and new for every call. It must not be one that a client can
// choose, because an identifier is charged only once.
func (b *Billing) ReserveSingle(account, request string, credits int64) error {
	if err := errors.Join(checkName("account", account), checkName("reference", request)); err != nil {
		return err
	}
	if credits < 0 || credits > MaxCredits {
		return ErrCreditsRange
	}
	if credits == 0 {
		return nil
	}
	if err := b.Full(); err != nil {
		return err
	}
	st := b.stripeOf(account)
	st.mu.Lock()
	defer st.mu.Unlock()
	have, err := st.balanceOf(b.db, account)
	if err != nil {
		return err
	}
	return st.singles.reserve(singleCall{account, request}, credits, have.Balance)
}

// SettleSingle charges used of the reservation and releases the rest; 0 releases all of it. It is one synced commit
// with the further parts, such as KeepAnswer: when it returns nil, it survives a power failure. After an error the
// reservation is unchanged. Repeating a settlement that has returned has no effect. On a full disk a release has no
// entries, as after a restart.
func (b *Billing) SettleSingle(account, request string, used int64, now time.Time, extra ...Part) error {
	st, call := b.stripeOf(account), singleCall{account, request}
	if used == 0 && len(extra) == 0 && b.Full() != nil {
		st.mu.Lock()
		defer st.mu.Unlock()
		st.singles.end(call)
		return nil
	}
	settle := func(batch *pebble.Batch) error { // the first of the batch, under the lock of the stripe
		reserved := st.singles.reserved[call]
		if reserved == 0 {
			return repeatSettlement(batch, account, request, used)
		}
		if used < 0 || used > reserved {
			return fmt.Errorf("single %s: %d used of %d: %w", request, used, reserved, ErrOverspent)
		}
		have, err := st.balanceOf(b.db, account)
		if err != nil {
			return err
		}
		return enterSettlement(batch, have, settlementRecord(request, used, reserved, now))
	}
	return b.commit(account, request, append([]Part{settle}, extra...))
}

// enterSettlement appends the settlement of a single call to the ledger of an account that has a balance, unless it is
// there already.
func enterSettlement(b *pebble.Batch, have balance, r record) error {
	old, err := entryByID(b, have.account, r.lookupID())
	if err == nil {
		return checkSameEntry(old, r.Entry)
	}
	if !errors.Is(err, ErrNotFound) {
		return err
	}
	if have.Balance < r.Credits {
		return &ErrInsufficientCredits{Balance: have.Balance, Needed: r.Credits}
	}
	r.applyAfter(have.Credits, have.last)
	return writeRecord(b, have.account, &r)
}

// repeatSettlement checks a settlement without a reservation, which must repeat one that was made.
func repeatSettlement(b *pebble.Batch, account, request string, used int64) error {
	cause := singleCause + request // and the id by which its charge or release is found
	if err := checkSettled(b, account, cause, cause, used); err != nil {
		return err
	}
	return b.LogData(nil, nil) // the sync of this entry of the log makes the first settlement durable too
}

// ReservedBySingles returns the part of the account's balance that is reserved for its single calls.
func (b *Billing) ReservedBySingles(account string) int64 {
	st := b.stripeOf(account)
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.singles.byAccount[account]
}

// NewRequest returns a new id for a request: 24 hexadecimal digits, unique across processes and stores.
func (b *Billing) NewRequest() string { return b.requests.Next() }

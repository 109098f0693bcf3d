package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// stripe is the lock of the accounts that hash to it, and the reservations of their single calls. A commit holds the
// lock from its reads until its batch is in the log, so the commits of an account are serial.
type stripe struct {
	mu      sync.Mutex
	singles reservations // guarded by mu
	newest  balance      // guarded by mu; of the account that was reserved for or charged last, if it is known
}

// balance is what an account has after its newest ledger entry. The zero value is of no account: it is not known.
type balance struct {
	account string
	Credits
	last uint64 // number of the entry
}

// balanceOf returns the balance of an account in the database.
func (st *stripe) balanceOf(db *pebble.DB, account string) (balance, error) {
	if st.newest.account == account {
		return st.newest, nil
	}
	have, last, err := readBalance(db, account)
	if err != nil {
		return balance{}, err
	}
	st.newest = balance{account, have, last}
	return st.newest, nil
}

// reservations are the credits that single calls under way have set aside.
type reservations struct {
	reserved  map[singleCall]int64
	byAccount map[string]int64 // their sum for each account
}

// singleCall is a single call under way.
type singleCall struct{ account, request string }

// reserve sets n of the account's balance aside for a call. A repetition has no effect.
func (r *reservations) reserve(call singleCall, n, balance int64) error {
	if old, repeated := r.reserved[call]; repeated {
		if old != n {
			return fmt.Errorf("single %s: %w", call.request, ErrLedgerConflict)
		}
		return nil
	}
	if free := balance - r.byAccount[call.account]; n > free {
		return &ErrInsufficientCredits{Balance: free, Needed: n}
	}
	if r.reserved == nil {
		r.reserved, r.byAccount = make(map[singleCall]int64), make(map[string]int64)
	}
	r.reserved[call] = n
	r.byAccount[call.account] += n
	return nil
}

// end ends the reservation of a call, if it has one.
func (r *reservations) end(call singleCall) {
	n := r.reserved[call]
	if n == 0 {
		return
	}
	delete(r.reserved, call)
	r.byAccount[call.account] -= n
	if r.byAccount[call.account] == 0 {
		delete(r.byAccount, call.account)
	}
}

// checkCovered reports an error unless the balance after the batch covers the reservations of the account less that of
// the call, which the batch ends. It returns that balance if it has read it.
func (r *reservations) checkCovered(db *pebble.DB, b *pebble.Batch, call singleCall) (after balance, err error) {
	all := r.byAccount[call.account]
	others := all - r.reserved[call]
	if others == 0 && call.request == "" {
		return balance{}, nil
	}
	now, last, err := readBalance(b, call.account)
	if err != nil || now.Balance >= others {
		return balance{call.account, now, last}, err
	}
	before, _, err := readBalance(db, call.account)
	if err != nil {
		return balance{}, err
	}
	return balance{}, &ErrInsufficientCredits{Balance: before.Balance - all, Needed: before.Balance - now.Balance}
}

// withoutReserved takes what single calls have reserved off the balance of an ErrInsufficientCredits: the ledger does
// not know of it.
func (r *reservations) withoutReserved(account string, err error) error {
	short, ok := errors.AsType[*ErrInsufficientCredits](err)
	if !ok {
		return err
	}
	return &ErrInsufficientCredits{Balance: short.Balance - r.byAccount[account], Needed: short.Needed}
}

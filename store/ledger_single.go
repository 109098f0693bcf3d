package store

import (
	"errors"
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// ReserveSingle sets credits aside for one verification, before any work, and in memory only: whatever becomes of the
// process, nothing was charged until SettleSingle. request must be an identifier of our own making, new for every call,
// as NewRequest makes them: never one that a client can choose, for the same identifier is never charged twice.
func (s *Store) ReserveSingle(account, request string, credits int64, now time.Time) error {
	if err := errors.Join(checkName("account", account), checkName("reference", request)); err != nil {
		return err
	}
	if credits < 0 || credits > MaxCredits {
		return ErrCreditsRange
	}
	if credits == 0 {
		return nil
	}
	p := s.balances.getOrCreate(account, s.stripeOf(account))
	for {
		switch err := p.hold(request, credits); err {
		case errNotLoaded:
			if err := s.loadBalance(p); err != nil {
				return err
			}
		case errNotMerged:
			s.mergeJournal()
			runtime.Gosched() // the call that settles may not have written it yet
		default:
			return err
		}
	}
}

func (s *Store) loadBalance(p *balance) error {
	mu := &s.stripeLocks[p.stripe]
	mu.Lock()
	defer mu.Unlock()
	return p.loadFrom(s.db)
}

// SettleSingle charges used of the reservation and releases the rest: 0 releases all of it. Once it has returned, whatever ends
// the process, the ledger will have it; should the power fail within mergeDelay and a sync, it may not. With further parts, such
// as KeepAnswer, it is synced, and they become true with it. After an error the reservation is as it was. Settling again, when
// the first call has returned, does nothing if it says the same.
func (s *Store) SettleSingle(account, request string, used int64, now time.Time, extra ...Part) error {
	var one *single
	err := ErrNotFound
	if p := s.balances.find(account); p != nil {
		if one, err = p.claim(request, used); err == errNotMerged {
			s.mergeJournal()
			err = ErrNotFound
		}
	}
	if errors.Is(err, ErrNotFound) {
		inspect := func(b *pebble.Batch) error { return paidWork{account, workSingle, request}.checkSettled(b, used) }
		return s.Commit(account, append([]Part{inspect}, extra...)...)
	}
	if err != nil {
		return err
	}
	r := settlementRecord(request, used, one.held, now)
	if len(extra) == 0 {
		return s.settle(one, r, used)
	}
	if err := s.commit(account, one.held, append([]Part{s.enterSingle(account, request, r)}, extra...)); err != nil {
		one.balance.unclaim(one)
		return err
	}
	one.balance.dropHold(one, 0) // its commit gave back what was not used
	return nil
}

// settle puts the end of a claimed single in the journal.
func (s *Store) settle(one *single, r record, used int64) error {
	p := one.balance
	exists, err := s.singleEntered(s.db, p.account, one.request, &r)
	switch {
	case err != nil:
		p.unclaim(one)
	case exists:
		p.dropHold(one, one.held)
	default:
		one.record = r
		p.settle(one, used)
		s.journalSettlement(one)
	}
	return err
}

// ChargeSingle is a reservation and its settlement in one commit, for an answer that was there already.
func (s *Store) ChargeSingle(account, request string, used int64, now time.Time, extra ...Part) error {
	if err := errors.Join(checkName("account", account), checkName("reference", request)); err != nil {
		return err
	}
	if used < 0 || used > MaxCredits {
		return ErrCreditsRange
	}
	if used == 0 {
		return s.Commit(account, extra...)
	}
	s.mergePending() // it may have been settled
	return s.Commit(account, append([]Part{s.enterSingle(account, request, settlementRecord(request, used, used, now))}, extra...)...)
}

// singleEntered tells whether the ledger has the end of a single already; it is an error if that was another end.
func (s *Store) singleEntered(in pebble.Reader, account, request string, r *record) (bool, error) {
	if s.requests.markUsed(request) {
		return false, nil
	}
	old, err := entryByID(in, account, r.lookupID())
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, checkSameEntry(old, r.Entry)
}

// enterSingle is the part that enters the end of a single, once.
func (s *Store) enterSingle(account, request string, r record) Part {
	return func(b *pebble.Batch) error {
		if exists, err := s.singleEntered(b, account, request, &r); exists || err != nil {
			return err
		}
		have, last, err := readBalance(b, account)
		if err != nil {
			return err
		}
		if have.Balance < r.Credits {
			return &ErrInsufficientCredits{Balance: have.Balance, Needed: r.Credits}
		}
		r.applyAfter(have, last)
		return writeRecord(b, account, &r)
	}
}

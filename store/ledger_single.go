package store

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// ReserveSingle sets credits aside for one single call, in memory only: nothing is charged before SettleSingle, even if the
// process ends. request must be from NewRequest and new for every call. It must not be one that a client can choose, because
// an identifier is charged only once.
func (s *Billing) ReserveSingle(account, request string, credits int64) error {
	if err := errors.Join(checkName("account", account), checkName("reference", request)); err != nil {
		return err
	}
	if credits < 0 || credits > MaxCredits {
		return ErrCreditsRange
	}
	if credits == 0 {
		return nil
	}
	if err := s.Full(); err != nil {
		return err
	}
	return s.holdSingle(account, request, credits)
}

// loadBalance syncs the log and loads a balance from the ledger, unless that was done.
func (s *DB) loadBalance(p *balance) error {
	mu := &s.stripeLocks[p.stripe]
	mu.Lock()
	defer mu.Unlock()
	if p.ledgerKnown {
		return nil
	}
	defer panicAsLost()
	if err := s.db.LogData(nil, pebble.Sync); err != nil {
		panic(Lost(err.Error()))
	}
	c, last, err := readBalance(s.db, p.account)
	if err != nil {
		return err
	}
	p.ledger, p.last, p.ledgerKnown = c, last, true
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free, p.freeKnown = c.Balance, true
	return nil
}

// SettleSingle charges used of the reservation and releases the rest; 0 releases all of it. When it returns nil, the settlement
// survives the end of the process, but may be lost in a power failure within mergeDelay and a sync. With further parts, such as
// KeepAnswer, it is one synced commit with them. After an error the reservation is unchanged. Repeating a settlement that has
// returned has no effect.
func (s *Billing) SettleSingle(account, request string, used int64, now time.Time, extra ...Part) error {
	var one *single
	err := ErrNotFound
	if p := s.balances.find(account); p != nil {
		if one, err = p.claim(request, used); err == errNotMerged {
			s.mergeJournal()
			err = ErrNotFound
		}
	}
	if errors.Is(err, ErrNotFound) {
		cause := singleCause + request // and the id by which its charge or release is found
		inspect := func(b *pebble.Batch) error { return checkSettled(b, account, cause, cause, used) }
		return s.Commit(account, append([]Part{inspect}, extra...)...)
	}
	if err != nil {
		return err
	}
	p, r := one.balance, settlementRecord(request, used, one.held, now)
	if len(extra) > 0 {
		r := r // so that only this way moves it to the heap
		enter := func(b *pebble.Batch) error {
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
		if err := s.commit(account, one.held, append([]Part{enter}, extra...)); err != nil {
			p.unclaim(one)
			return err
		}
		p.dropHold(one, 0) // the commit has freed the unused rest
		return nil
	}
	exists, err := s.singleEntered(s.db, account, request, &r)
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

// singleEntered reports whether the ledger already has the settlement of a single call; it is an error if that differs.
func (s *Billing) singleEntered(in pebble.Reader, account, request string, r *record) (bool, error) {
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

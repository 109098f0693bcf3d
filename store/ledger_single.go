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
	p := s.purses.of(account, s.stripeOf(account))
	for {
		switch err := p.hold(request, credits); err {
		case errUnread:
			if err := s.readPurse(p); err != nil {
				return err
			}
		case errUnfolded:
			s.fold()
			runtime.Gosched() // the call that settles may not have written it yet
		default:
			return err
		}
	}
}

func (s *Store) readPurse(p *purse) error {
	mu := &s.serial[p.stripe]
	mu.Lock()
	defer mu.Unlock()
	return p.read(s.db)
}

// SettleSingle charges used of the reservation and releases the rest: 0 releases all of it. Once it has returned, whatever ends
// the process, the ledger will have it; should the power fail within foldAfter and a sync, it may not. With further parts, such
// as KeepAnswer, it is synced, and they become true with it. After an error the reservation is as it was. Settling again, when
// the first call has returned, does nothing if it says the same.
func (s *Store) SettleSingle(account, request string, used int64, now time.Time, also ...Part) error {
	var one *single
	err := ErrNotFound
	if p := s.purses.find(account); p != nil {
		if one, err = p.claim(request, used); err == errUnfolded {
			s.fold()
			err = ErrNotFound
		}
	}
	if errors.Is(err, ErrNotFound) {
		judge := func(b *pebble.Batch) error { return work{account, forSingle, request}.settled(b, used) }
		return s.Commit(account, append([]Part{judge}, also...)...)
	}
	if err != nil {
		return err
	}
	r := endOfSingle(request, used, one.held, now)
	if len(also) == 0 {
		return s.settle(one, r, used)
	}
	if err := s.commit(account, one.held, append([]Part{s.enter(account, request, r)}, also...)); err != nil {
		one.purse.keep(one)
		return err
	}
	one.purse.end(one, 0) // its commit gave back what was not used
	return nil
}

// settle puts the end of a claimed single in the journal.
func (s *Store) settle(one *single, r record, used int64) error {
	p := one.purse
	there, err := s.entered(s.db, p.account, one.request, &r)
	switch {
	case err != nil:
		p.keep(one)
	case there:
		p.end(one, one.held)
	default:
		one.record = r
		p.settle(one, used)
		s.settleSoon(one)
	}
	return err
}

// ChargeSingle is a reservation and its settlement in one commit, for an answer that was there already.
func (s *Store) ChargeSingle(account, request string, used int64, now time.Time, also ...Part) error {
	if err := errors.Join(checkName("account", account), checkName("reference", request)); err != nil {
		return err
	}
	if used < 0 || used > MaxCredits {
		return ErrCreditsRange
	}
	if used == 0 {
		return s.Commit(account, also...)
	}
	s.shown() // it may have been settled
	return s.Commit(account, append([]Part{s.enter(account, request, endOfSingle(request, used, used, now))}, also...)...)
}

// entered tells whether the ledger has the end of a single already; it is an error if that was another end.
func (s *Store) entered(in pebble.Reader, account, request string, r *record) (bool, error) {
	if s.requests.use(request) {
		return false, nil
	}
	old, err := entryByID(in, account, r.cause())
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, sameEntry(old, r.Entry)
}

// enter is the part that enters the end of a single, once.
func (s *Store) enter(account, request string, r record) Part {
	return func(b *pebble.Batch) error {
		if there, err := s.entered(b, account, request, &r); there || err != nil {
			return err
		}
		have, last, err := readBalance(b, account)
		if err != nil {
			return err
		}
		if have.Balance < r.Credits {
			return &ErrInsufficientCredits{Balance: have.Balance, Needed: r.Credits}
		}
		r.comeAfter(have, last)
		return writeRecord(b, account, &r)
	}
}

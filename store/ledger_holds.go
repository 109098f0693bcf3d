package store

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// balances has an entry for each account that has made single calls.
type balances struct {
	byAccount sync.Map  // account to *balance
	pool      sync.Pool // of *single, for reuse
}

// balance is what one account can spend, and the holds of its single calls: credits that are set aside in memory and are not
// yet in the ledger. A hold is lost without a charge when the process ends.
type balance struct {
	account string
	stripe  uint64
	parent  *balances

	// Guarded by the account's stripe: the ledger's state as of the last record in the log.
	ledger      Credits
	last        uint64
	ledgerKnown bool
	merging     bool       // a group of settlements is being put in the log
	page        ledgerPage // the settlements of that group that are not in the batch yet

	mu             sync.Mutex
	pendingRelease int64              // guarded by mu: released, becomes free with the next merge
	free           int64              // guarded by mu: the durable balance less all holds and less what commits under way take; never negative
	freeKnown      bool               // guarded by mu: free was loaded
	holds          map[string]*single // guarded by mu: by request, one for each single call under way
}

// single is one single call: a hold on its account's balance, and later its settlement.
type single struct {
	balance  *balance
	request  string
	held     int64
	settling bool // guarded by the balance's mu: a call is settling it
	settled  bool // guarded by the balance's mu: it is settled, but its hold lasts until the ledger has it

	record record // the settlement; owned by the call, then by the merge
}

func (ps *balances) find(account string) *balance {
	if p, ok := ps.byAccount.Load(account); ok {
		return p.(*balance)
	}
	return nil
}

var (
	// errNotLoaded: the balance was not loaded from the ledger yet.
	errNotLoaded = errors.New("the balance has not been read")
	// errNotMerged: the result depends on settlements that are not in the ledger yet.
	errNotMerged = errors.New("the settlement is not in the ledger yet")
)

// holdSingle sets n of an account's free credits aside for a request. A repeated call has no effect.
func (s *DB) holdSingle(account, request string, n int64) error {
	p := s.balances.find(account)
	if p == nil {
		fresh := &balance{account: account, stripe: s.stripeOf(account), parent: &s.balances, holds: make(map[string]*single)}
		known, _ := s.balances.byAccount.LoadOrStore(account, fresh)
		p = known.(*balance)
	}
	for {
		switch err := p.hold(request, n); err {
		case errNotLoaded:
			if err := s.loadBalance(p); err != nil {
				return err
			}
		case errNotMerged:
			s.mergeJournal()
			runtime.Gosched() // the settling call may not have written it to the journal yet
		default:
			return err
		}
	}
}

// hold is holdSingle while the balance is loaded and what it depends on is merged.
func (p *balance) hold(request string, n int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.freeKnown {
		return errNotLoaded
	}
	if old, ok := p.holds[request]; ok {
		if old.settled {
			return errNotMerged
		}
		if old.held != n {
			return fmt.Errorf("single %s: %w", request, ErrLedgerConflict)
		}
		return nil
	}
	if n > p.free && n <= p.free+p.pendingRelease {
		return errNotMerged
	}
	if n > p.free {
		return &ErrInsufficientCredits{Balance: p.free, Needed: n}
	}
	p.free -= n
	one, ok := p.parent.pool.Get().(*single)
	if !ok {
		one = new(single)
	}
	one.balance, one.request, one.held = p, request, n
	p.holds[request] = one
	return nil
}

// claim finds the hold of a request. Only the caller may settle it until unclaim, settle or dropHold.
func (p *balance) claim(request string, used int64) (*single, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, ok := p.holds[request]
	switch {
	case !ok:
		return nil, ErrNotFound
	case one.settled:
		return nil, errNotMerged
	case one.settling:
		return nil, fmt.Errorf("single %s is being settled: %w", request, ErrLedgerConflict)
	case used < 0 || used > one.held:
		return nil, fmt.Errorf("single %s: %d used of %d: %w", request, used, one.held, ErrOverspent)
	}
	one.settling = true
	return one, nil
}

// unclaim undoes a claim.
func (p *balance) unclaim(one *single) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one.settling = false
}

// settle ends a claim. The unused rest of a charge is free at once. A release is free only once it is in the ledger: it is two
// entries there, and the balance must cover the first, the reservation.
func (p *balance) settle(one *single, used int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one.settled = true
	if used == 0 {
		p.pendingRelease += one.held
		return
	}
	p.free += one.held - used
	one.held = used
}

// hasPendingRelease reports whether the next merge frees credits.
func (p *balance) hasPendingRelease() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pendingRelease > 0
}

// dropHold removes a hold; back of its credits become free.
func (p *balance) dropHold(one *single, back int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.holds, one.request)
	p.free += back
}

// addFree adds to the free credits.
func (p *balance) addFree(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += n
}

// takeForCommit checks that free credits cover a commit that moves the ledger to now and ends a hold of claimed credits. Credits
// that the commit takes are not free from now on; back is what it frees once it is durable. The caller holds the account's stripe.
func (p *balance) takeForCommit(now Credits, claimed int64) (back int64, err error) {
	back = now.Balance - p.ledger.Balance + claimed
	if back >= 0 {
		return back, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free+back < 0 {
		return 0, &ErrInsufficientCredits{Balance: p.free, Needed: -back}
	}
	p.free += back
	return 0, nil
}

// correctShortfall replaces the balance in an ErrInsufficientCredits of the ledger, which does not know of holds, by the free credits.
func (p *balance) correctShortfall(err error) error {
	var e *ErrInsufficientCredits
	if !errors.As(err, &e) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return &ErrInsufficientCredits{Balance: p.free, Needed: e.Needed}
}

// Held is the part of the account's balance that its single calls hold.
func (s *Billing) Held(account string) (n int64) {
	p := s.balances.find(account)
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.holds {
		if !one.settled {
			n += one.held
		}
	}
	return n
}

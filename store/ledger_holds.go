package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// balances are the accounts that have used single verifications, one entry each: as many as an admin made accounts.
type balances struct {
	byAccount sync.Map  // account to *balance
	pool      sync.Pool // of singles that have been settled (BenchmarkHandle: two allocations less)
}

// balance is what one account may still spend, and the holds of its singles under way: credits that are promised in
// memory and not yet in the ledger. A hold does not outlive the process, and nothing was charged then.
type balance struct {
	account string
	stripe  uint64
	parent  *balances

	// Guarded by the account's stripe: where its ledger stands, as of the last record that was put in the log.
	ledger      Credits
	last        uint64
	ledgerKnown bool
	staged      stagedBalance

	mu             sync.Mutex
	pendingRelease int64              // guarded by mu: comes back with the next merge
	free           int64              // guarded by mu: what singles may hold: the durable balance less all holds, less what commits under way take; never negative
	freeKnown      bool               // guarded by mu: free is known
	holds          map[string]*single // guarded by mu: by request; as many as singles are under way
}

// stagedBalance is where a balance's ledger stands once a group of settlements is in the log.
type stagedBalance struct {
	ledger  Credits
	last    uint64
	written uint64     // the last entry that the balance written so far counts
	page    ledgerPage // ends that are not in the batch yet
	active  bool
}

// single is one verification under way: a hold on its account's balance, and later its settlement.
type single struct {
	balance  *balance
	request  string
	held     int64
	settling bool // guarded by the balance's mu: a call settles it
	settled  bool // guarded by the balance's mu: it is settled, and holds what it does until the ledger has it

	record record // of the settlement: belongs to the call, and then to the merge
}

func (ps *balances) find(account string) *balance {
	if p, ok := ps.byAccount.Load(account); ok {
		return p.(*balance)
	}
	return nil
}

func (ps *balances) getOrCreate(account string, stripe uint64) *balance {
	if p := ps.find(account); p != nil {
		return p
	}
	p, _ := ps.byAccount.LoadOrStore(account, &balance{account: account, stripe: stripe, parent: ps, holds: make(map[string]*single)})
	return p.(*balance)
}

var (
	// errNotLoaded tells that a balance does not know yet what the ledger says.
	errNotLoaded = errors.New("the balance has not been read")
	// errNotMerged tells that a single is settled, and the ledger does not know yet.
	errNotMerged = errors.New("the settlement is not in the ledger yet")
)

// hold sets n of the free credits aside for a request. Doing it again is harmless.
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
	one := p.parent.newSingle()
	one.balance, one.request, one.held = p, request, n
	p.holds[request] = one
	return nil
}

// newSingle is one of those that have been settled, or another.
func (ps *balances) newSingle() *single {
	if one, ok := ps.pool.Get().(*single); ok {
		return one
	}
	return new(single)
}

// recycle gives a single up, once the ledger has it. Nothing refers to it then: it is out of its balance's holds, and the ledger page that
// bore its record was written and emptied.
func (one *single) recycle() {
	pool := &one.balance.parent.pool
	*one = single{}
	pool.Put(one)
}

// claim finds the hold of a request, to be settled by the caller alone until keep or end.
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

// settle ends a claim. What is left of a charge is free at once. What is released is so with the ledger: it tells the hold and
// its release as two entries, and the balance must cover the first.
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

// finishMerged ends a single that the ledger has, on the disk.
func (p *balance) finishMerged(one *single) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.holds, one.request)
	if one.record.Kind == Release {
		p.pendingRelease -= one.held
		p.free += one.held
	}
}

// hasPendingRelease tells whether credits come back with the next merge.
func (p *balance) hasPendingRelease() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pendingRelease > 0
}

// dropHold forgets a hold; back of its credits are free again.
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

func (p *balance) held() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.holds {
		if !one.settled {
			n += one.held
		}
	}
	return n
}

// loadFrom learns what the ledger says, and the disk has. The caller holds the account's stripe.
func (p *balance) loadFrom(db *pebble.DB) error {
	if p.ledgerKnown {
		return nil
	}
	defer panicAsLost()
	if err := db.LogData(nil, pebble.Sync); err != nil {
		panic(Lost(err.Error()))
	}
	c, last, err := readBalance(db, p.account)
	if err != nil {
		return err
	}
	p.ledger, p.last, p.ledgerKnown = c, last, true
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free, p.freeKnown = c.Balance, true
	return nil
}

// takeForCommit holds a commit that moves the ledger to now, and that ends a hold of claimed credits, to what is free. What it
// takes is taken at once, so that no hold comes in between; back is what it gives back when it has happened. The caller
// holds the account's stripe.
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

// correctShortfall corrects what the ledger says of too few credits: it does not know of holds.
func (p *balance) correctShortfall(err error) error {
	var e *ErrInsufficientCredits
	if !errors.As(err, &e) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return &ErrInsufficientCredits{Balance: p.free, Needed: e.Needed}
}

// Held is what the account's singles under way hold of its balance.
func (s *Store) Held(account string) int64 {
	if p := s.balances.find(account); p != nil {
		return p.held()
	}
	return 0
}

package store

import (
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// purses are the accounts that have used single verifications, one entry each: as many as an admin made accounts.
type purses struct {
	byAccount sync.Map  // account to *purse
	spare     sync.Pool // of singles that have been settled (BenchmarkHandle: two allocations less)
}

// purse is what one account may still spend, and the holds of its singles under way: credits that are promised in
// memory and not yet in the ledger. A hold does not outlive the process, and nothing was charged then.
type purse struct {
	account string
	stripe  uint64
	all     *purses

	// Guarded by the account's stripe: where its ledger stands, as of the last record that was put in the log.
	ledger Credits
	last   uint64
	known  bool
	draft  draft

	mu    sync.Mutex
	due   int64              // guarded by mu: comes back with the next fold
	free  int64              // guarded by mu: what singles may hold: the durable balance less all holds, less what commits under way take; never negative
	ready bool               // guarded by mu: free is known
	holds map[string]*single // guarded by mu: by request; as many as singles are under way
}

// draft is where a purse's ledger stands once a group of settlements is in the log.
type draft struct {
	ledger Credits
	last   uint64
	told   uint64 // the last entry that the balance written so far counts
	sheet  sheet  // ends that are not in the batch yet
	open   bool
}

// single is one verification under way: a hold on its account's purse, and later its settlement.
type single struct {
	purse    *purse
	request  string
	held     int64
	settling bool // guarded by the purse's mu: a call settles it
	settled  bool // guarded by the purse's mu: it is settled, and holds what it does until the ledger has it

	record record // of the settlement: belongs to the call, and then to the fold
}

func (ps *purses) find(account string) *purse {
	if p, ok := ps.byAccount.Load(account); ok {
		return p.(*purse)
	}
	return nil
}

func (ps *purses) of(account string, stripe uint64) *purse {
	if p := ps.find(account); p != nil {
		return p
	}
	p, _ := ps.byAccount.LoadOrStore(account, &purse{account: account, stripe: stripe, all: ps, holds: make(map[string]*single)})
	return p.(*purse)
}

var (
	// errUnread tells that a purse does not know yet what the ledger says.
	errUnread = errors.New("the balance has not been read")
	// errUnfolded tells that a single is settled, and the ledger does not know yet.
	errUnfolded = errors.New("the settlement is not in the ledger yet")
)

// hold sets n of the free credits aside for a request. Doing it again is harmless.
func (p *purse) hold(request string, n int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ready {
		return errUnread
	}
	if old, ok := p.holds[request]; ok {
		if old.settled {
			return errUnfolded
		}
		if old.held != n {
			return fmt.Errorf("single %s: %w", request, ErrLedgerConflict)
		}
		return nil
	}
	if n > p.free && n <= p.free+p.due {
		return errUnfolded
	}
	if n > p.free {
		return &ErrInsufficientCredits{Balance: p.free, Needed: n}
	}
	p.free -= n
	one := p.all.newSingle()
	one.purse, one.request, one.held = p, request, n
	p.holds[request] = one
	return nil
}

// newSingle is one of those that have been settled, or another.
func (ps *purses) newSingle() *single {
	if one, ok := ps.spare.Get().(*single); ok {
		return one
	}
	return new(single)
}

// forget gives a single up, once the ledger has it. Nothing refers to it then: it is out of its purse's holds, and the sheet that
// bore its record was written and emptied.
func (one *single) forget() {
	spare := &one.purse.all.spare
	*one = single{}
	spare.Put(one)
}

// claim finds the hold of a request, to be settled by the caller alone until keep or end.
func (p *purse) claim(request string, used int64) (*single, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, ok := p.holds[request]
	switch {
	case !ok:
		return nil, ErrNotFound
	case one.settled:
		return nil, errUnfolded
	case one.settling:
		return nil, fmt.Errorf("single %s is being settled: %w", request, ErrLedgerConflict)
	case used < 0 || used > one.held:
		return nil, fmt.Errorf("single %s: %d used of %d: %w", request, used, one.held, ErrOverspent)
	}
	one.settling = true
	return one, nil
}

// keep undoes a claim.
func (p *purse) keep(one *single) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one.settling = false
}

// settle ends a claim. What is left of a charge is free at once. What is released is so with the ledger: it tells the hold and
// its release as two entries, and the balance must cover the first.
func (p *purse) settle(one *single, used int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one.settled = true
	if used == 0 {
		p.due += one.held
		return
	}
	p.free += one.held - used
	one.held = used
}

// book ends a single that the ledger has, on the disk.
func (p *purse) book(one *single) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.holds, one.request)
	if one.record.Kind == Release {
		p.due -= one.held
		p.free += one.held
	}
}

// expects tells whether credits come back with the next fold.
func (p *purse) expects() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.due > 0
}

// end forgets a hold; back of its credits are free again.
func (p *purse) end(one *single, back int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.holds, one.request)
	p.free += back
}

// give adds to the free credits.
func (p *purse) give(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += n
}

func (p *purse) held() (n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.holds {
		if !one.settled {
			n += one.held
		}
	}
	return n
}

// read learns what the ledger says, and the disk has. The caller holds the account's stripe.
func (p *purse) read(db *pebble.DB) error {
	if p.known {
		return nil
	}
	defer lostOnPanic()
	if err := db.LogData(nil, pebble.Sync); err != nil {
		panic(Lost(err.Error()))
	}
	c, last, err := readBalance(db, p.account)
	if err != nil {
		return err
	}
	p.ledger, p.last, p.known = c, last, true
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free, p.ready = c.Balance, true
	return nil
}

// agree holds a commit that moves the ledger to now, and that ends a hold of claimed credits, to what is free. What it
// takes is taken at once, so that no hold comes in between; back is what it gives back when it has happened. The caller
// holds the account's stripe.
func (p *purse) agree(now Credits, claimed int64) (back int64, err error) {
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

// short corrects what the ledger says of too few credits: it does not know of holds.
func (p *purse) short(err error) error {
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
	if p := s.purses.find(account); p != nil {
		return p.held()
	}
	return 0
}

package store

import (
	"math/bits"
	"runtime"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// maxGroup bounds the settlements of one commit.
const maxGroup = 256

// turn is what a single that waits to be settled is told.
type turn uint8

const (
	settledNow turn = iota // its commit is durable, or err says why it was not made
	lead                   // it commits the next group
	lost                   // the disk failed under its commit
)

// group gathers the settlements of concurrent calls into few commits. Nothing runs by itself: whoever comes first
// commits for all that wait by then, and hands the lead to the first that came since. The queue is as long as calls are
// under way: each waits for its own.
type group struct {
	mu      sync.Mutex
	waiting []*single // guarded by mu: the leader first
	broken  bool      // guarded by mu: the disk has failed

	scribe scribe // the leader's
}

const groupLost = Lost("a settlement was lost")

// settleTogether returns when the settlement is durable, or with the error for which it was not made.
func (s *Store) settleTogether(one *single) error {
	if !s.group.join(one) {
		switch <-one.turn {
		case settledNow:
			return one.err
		case lost:
			panic(groupLost)
		}
	}
	all := s.group.take()
	end := lost
	defer func() { s.group.leave(all, end) }()
	if err := s.commitGroup(all); err != nil {
		panic(Lost(err.Error()))
	}
	end = settledNow
	return one.err
}

// join queues a settlement, and tells whether it leads.
func (g *group) join(one *single) (leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken {
		panic(groupLost)
	}
	g.waiting = append(g.waiting, one)
	if len(g.waiting) == 1 {
		return true
	}
	one.turn = make(chan turn, 1)
	return false
}

// A group of this many is worth its sync, and so is one for which others were let run so long: on a busy machine each turn of
// theirs may take milliseconds.
const (
	worthSyncing = 32
	gatherTime   = 200 * time.Microsecond
)

// take is the next group: all that wait, and those that are about to, as long as letting others run brings more. That costs
// nothing where nobody comes, and spares syncs where many do. The group stays in the queue until leave, so that nobody else
// leads.
func (g *group) take() []*single {
	began := time.Now()
	for had, n := 0, g.size(); n > had && n < worthSyncing && time.Since(began) < gatherTime; {
		runtime.Gosched()
		had, n = n, g.size()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]*single(nil), g.waiting[:min(len(g.waiting), maxGroup)]...)
}

func (g *group) size() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

// leave ends a group, of which the caller is the first, and passes the lead on.
func (g *group) leave(all []*single, end turn) {
	g.mu.Lock()
	rest := g.waiting[len(all):]
	if end == lost {
		g.broken, all, rest = true, g.waiting, nil
	}
	g.waiting = append([]*single(nil), rest...)
	g.mu.Unlock()
	for _, one := range all[1:] {
		one.turn <- end
	}
	if len(rest) > 0 {
		rest[0].turn <- lead
	}
}

// commitGroup writes the settlements as one commit and returns when it is synced. An error is the end of the process;
// what is wrong with one settlement is its own err.
func (s *Store) commitGroup(all []*single) error {
	b := s.db.NewBatch()
	defer b.Close()
	if err := s.applyGroup(b, all); err != nil || b.Empty() {
		return err
	}
	return b.SyncWait()
}

// applyGroup puts the commit in the log, under the locks of its accounts.
func (s *Store) applyGroup(b *pebble.Batch, all []*single) error {
	defer s.unlockStripes(s.lockStripes(all))
	for _, one := range all {
		one.err = s.draw(b, one)
	}
	for _, one := range all {
		if p := one.purse; p.draft.open && p.draft.last != p.draft.told {
			p.draft.told = p.draft.last
			if err := s.group.scribe.writeBalance(b, p.account, p.draft.ledger, p.draft.last); err != nil {
				return err
			}
		}
	}
	if err := s.put(b); err != nil {
		return err
	}
	for _, one := range all {
		one.purse.drawn(one)
	}
	return nil
}

// drawn is the end of a single whose draft is in the log, or was refused.
func (p *purse) drawn(one *single) {
	if p.draft.open {
		p.ledger, p.last, p.draft = p.draft.ledger, p.draft.last, draft{}
	}
	if one.err != nil {
		p.keep(one)
		return
	}
	p.end(one, one.back)
}

// draw writes one settlement. The caller holds the stripe of its account.
func (s *Store) draw(b *pebble.Batch, one *single) error {
	p := one.purse
	if !p.draft.open {
		p.draft = draft{ledger: p.ledger, last: p.last, told: p.last, open: true}
	}
	d := &p.draft
	r := &one.record
	if there, err := s.entered(s.db, p.account, one.request, r); there || err != nil {
		one.back = one.held
		return err
	}
	r.comeAfter(d.ledger, d.last)
	if r.Balance < 0 {
		panic("BUG: a single was held beyond the balance of " + p.account)
	}
	one.back = one.held + r.Balance - d.ledger.Balance
	d.ledger, d.last = Credits{r.Balance, r.Reserved}, r.Number
	return s.group.scribe.write(b, p.account, r)
}

// lockStripes locks the accounts of a group, in order, so that two lockers cannot wait for each other.
func (s *Store) lockStripes(all []*single) (set uint64) {
	for _, one := range all {
		set |= 1 << one.purse.stripe
	}
	for rest := set; rest != 0; rest &= rest - 1 {
		s.serial[bits.TrailingZeros64(rest)].Lock()
	}
	return set
}

func (s *Store) unlockStripes(set uint64) {
	for ; set != 0; set &= set - 1 {
		s.serial[bits.TrailingZeros64(set)].Unlock()
	}
}

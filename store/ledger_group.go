package store

import (
	"math/bits"
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

// group gathers the settlements of concurrent calls into few commits. Nothing runs by itself: whoever comes first leads, and
// commits for all that wait by then. Once its commit is in the log, before it is durable, the lead goes to the first that came
// since: so the disk need not wait for anybody's turn, and syncs what has come meanwhile at once. The queue is as long as calls
// are under way: each waits for its own.
type group struct {
	mu       sync.Mutex
	waiting  []*single     // guarded by mu: in no group yet, the leader not among them
	full     chan struct{} // guarded by mu: closed when enough wait; nil when the leader does not wait for that
	leading  bool          // guarded by mu: somebody leads
	settling int           // guarded by mu: calls that have joined and not been told
	broken   bool          // guarded by mu: the disk has failed

	// The leader's.
	scribe scribe
	began  time.Time // its group, or the one before
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
	return s.settleGroup(one)
}

// settleGroup commits the group of its leader.
func (s *Store) settleGroup(leader *single) error {
	all, end := []*single{leader}, lost
	defer func() { s.group.tell(all, end) }()
	all = s.group.take(leader)
	b := s.db.NewBatch()
	defer b.Close()
	if err := s.applyGroup(b, all); err != nil {
		panic(Lost(err.Error()))
	}
	s.group.pass()
	if !b.Empty() {
		if err := b.SyncWait(); err != nil {
			panic(Lost(err.Error()))
		}
	}
	end = settledNow
	return leader.err
}

// join queues a settlement, and tells whether it leads.
func (g *group) join(one *single) (leads bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken {
		panic(groupLost)
	}
	g.settling++
	if !g.leading {
		g.leading = true
		return true
	}
	g.waiting = append(g.waiting, one)
	if g.full != nil && len(g.waiting) >= worthSyncing {
		close(g.full)
		g.full = nil
	}
	return false
}

// A group of this many is worth its sync, and so is one that begins so long after the one before.
const (
	worthSyncing = 32
	gatherTime   = 500 * time.Microsecond
)

// take is the leader's group: all that wait. Where groups follow each other closely it waits a little first, that more may
// come: an idle disk costs a single nothing, a busy one a fraction of what its sync does. It must not ask the scheduler to let
// others run instead: beside a list that was tens of milliseconds.
func (g *group) take(leader *single) []*single {
	if wait := gatherTime - time.Since(g.began); wait > 0 {
		g.gather(min(wait, gatherTime)) // should the clock have been set back
	}
	g.began = time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.broken {
		panic(groupLost)
	}
	g.full = nil
	n := min(len(g.waiting), maxGroup-1)
	all := append(append(make([]*single, 0, n+1), leader), g.waiting[:n]...)
	g.waiting = append([]*single(nil), g.waiting[n:]...)
	return all
}

// gather returns when enough wait, and after d at the latest. Timers are late by up to a millisecond: as long as many come, it
// must be one of them who ends the wait, or the processor has nothing to do until the timer is heard.
func (g *group) gather(d time.Duration) {
	full := g.whenFull()
	if full == nil {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-full:
	case <-t.C:
	}
}

// whenFull is closed when enough wait; nil if they do.
func (g *group) whenFull() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.waiting) >= worthSyncing {
		return nil
	}
	g.full = make(chan struct{})
	return g.full
}

// pass gives the lead on.
func (g *group) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.leading = len(g.waiting) > 0; g.leading {
		g.waiting[0].turn <- lead // has room: it is told once that it leads, and then by nobody but itself
		g.waiting = g.waiting[1:]
	}
}

// tell tells a group, of which the caller is the first, how it ended. When the disk has failed it ends those that wait, too.
func (g *group) tell(all []*single, end turn) {
	told := all[1:]
	g.mu.Lock()
	if end == lost {
		g.broken = true
		told = append(told, g.waiting...)
		g.waiting = nil
	}
	g.settling -= 1 + len(told)
	g.mu.Unlock()
	for _, one := range told {
		one.turn <- end
	}
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
			if err := s.group.close(b, p, s.requests.process); err != nil {
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

// close writes what a purse's draft still has, and where its ledger stands then.
func (g *group) close(b *pebble.Batch, p *purse, process [processBytes]byte) error {
	if err := g.scribe.writeSheet(b, p.account, process, &p.draft.sheet); err != nil {
		return err
	}
	return g.scribe.writeBalance(b, p.account, p.draft.ledger, p.draft.last)
}

// drawn is the end of a single whose draft is in the log, or was refused.
func (p *purse) drawn(one *single) {
	if p.draft.open {
		p.ledger, p.last, p.draft = p.draft.ledger, p.draft.last, draft{sheet: p.draft.sheet}
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
		p.draft = draft{ledger: p.ledger, last: p.last, told: p.last, sheet: p.draft.sheet, open: true}
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
	return s.note(b, p, one)
}

// note puts an end on the draft's sheet, or, if it cannot stand there, into the batch after the sheet.
func (s *Store) note(b *pebble.Batch, p *purse, one *single) error {
	sh := &p.draft.sheet
	n, ours := s.requests.numberOf(one.request)
	if !ours || !sh.takes(n) {
		if err := s.group.scribe.writeSheet(b, p.account, s.requests.process, sh); err != nil {
			return err
		}
	}
	if !ours {
		return s.group.scribe.write(b, p.account, &one.record)
	}
	sh.add(&one.record, n)
	return nil
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

package store

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// maxGroup bounds the settlements of one commit.
const maxGroup = 256

// journalSettlement writes a settlement to the journal. It merges the journal if that is full.
func (s *DB) journalSettlement(one *single) {
	for {
		entered, first := s.journal.appendSingle(one)
		if first {
			time.AfterFunc(s.journal.delay, func() {
				s.journal.mu.Lock()
				s.journal.timerSet = false
				s.journal.mu.Unlock()
				s.mergeJournal()
			})
		}
		if entered {
			return
		}
		s.mergeJournal()
	}
}

// mergePending returns when the ledger has all settlements made before the call.
func (s *DB) mergePending() {
	s.journal.mu.Lock()
	pending := s.journal.last != s.journal.merged
	s.journal.mu.Unlock()
	if pending {
		s.mergeJournal()
	}
}

// mergeJournal moves the settlements of the journal into the ledger, in as many commits as needed and one sync. If it fails, the process
// must end: the calls have been answered.
func (s *DB) mergeJournal() {
	j := &s.journal
	j.mergeMu.Lock()
	defer j.mergeMu.Unlock()
	all := j.takeWaiting()
	if len(all) == 0 {
		return
	}
	complete := false
	defer func() {
		if !complete {
			j.mu.Lock()
			j.broken = true
			j.mu.Unlock()
		}
	}()
	end := j.applied + uint64(len(all))
	for group := range slices.Chunk(all, maxGroup) {
		j.applied += uint64(len(group))
		s.mergeGroup(group, j.applied == end)
	}
	complete = true
	j.mu.Lock()
	j.merged = end
	j.mu.Unlock()
	for _, one := range all { // after the sync: released credits may be spent at once, and a crash must not lose only the release
		p := one.balance
		p.mu.Lock()
		delete(p.holds, one.request)
		if one.record.Kind == Release {
			p.pendingRelease -= one.held
			p.free += one.held
		}
		p.mu.Unlock()
		*one = single{} // nothing refers to it: the holds do not have it, and the ledger page with its record was written and emptied
		s.balances.pool.Put(one)
	}
}

// mergeGroup commits the settlements up to j.applied. The last commit of a merge is synced, and makes the earlier ones durable too.
func (s *DB) mergeGroup(group []*single, last bool) {
	b := s.db.NewBatch()
	defer b.Close()
	err := s.applyGroup(b, group, last)
	if err == nil && last {
		err = b.SyncWait()
	}
	if err != nil {
		panic(Lost(err.Error()))
	}
}

// keyMerged is the key of the number of the last journal entry that is in the ledger.
var keyMerged = key(tableMeta, "folded")

// replayJournal enters the settlements that the process before left in the journal and not in the ledger. It stops at a gap, which a
// power failure may leave, because later settlements may depend on the missing one, and at one that the balance does not cover.
func (s *DB) replayJournal(left []journalEntry) (err error) {
	defer func() {
		if p := recover(); p != nil {
			lost, ok := p.(Lost)
			if !ok {
				panic(p)
			}
			err = lost
		}
	}()
	folded, err := getUint64(s.db, keyMerged, "the number of the last single")
	if err != nil {
		return err
	}
	j := &s.journal
	j.applied, j.merged, j.last = folded, folded, folded
	for _, e := range left {
		if e.number != j.last+1 {
			continue
		}
		err := s.replayEntry(e)
		if errors.Is(err, errNotMerged) { // it spends credits that an earlier one released
			s.mergeJournal()
			err = s.replayEntry(e)
		}
		if short := (*ErrInsufficientCredits)(nil); errors.As(err, &short) {
			break
		}
		if err != nil {
			return err
		}
		j.last++
	}
	s.mergeJournal()
	return nil
}

// replayEntry makes a journal entry pending again.
func (s *DB) replayEntry(e journalEntry) error {
	p := s.balances.getOrCreate(e.account, s.stripeOf(e.account))
	if err := s.loadBalance(p); err != nil {
		return err
	}
	request := e.record.Cause[len(singleCause):]
	if err := p.hold(request, e.record.Credits); err != nil {
		return fmt.Errorf("single %d of account %s: %w", e.number, e.account, err)
	}
	one := p.holds[request]
	used := one.held
	if e.record.Kind == Release {
		used = 0
	}
	one.record = e.record
	p.settle(one, used)
	s.journal.waiting = append(s.journal.waiting, one)
	return nil
}

// applyGroup puts the commit of a group in the log, under the locks of its accounts.
func (s *DB) applyGroup(b *pebble.Batch, all []*single, sync bool) error {
	var locks uint64
	for _, one := range all {
		locks |= 1 << one.balance.stripe
	}
	for i := range s.stripeLocks { // in order, so that two callers cannot deadlock
		if locks>>i&1 == 1 {
			s.stripeLocks[i].Lock()
			defer s.stripeLocks[i].Unlock()
		}
	}
	for _, one := range all {
		if err := s.stageSettlement(b, one); err != nil {
			return err
		}
	}
	writer := &s.journal.writer
	for _, one := range all { // the rest of each balance's staged page, and the balance after it
		if p := one.balance; p.staged.active && p.staged.last != p.staged.written {
			p.staged.written = p.staged.last
			if err := writer.writePage(b, p.account, s.journal.process, &p.staged.page); err != nil {
				return err
			}
			if err := writer.writeBalance(b, p.account, p.staged.ledger, p.staged.last); err != nil {
				return err
			}
		}
	}
	if err := b.Set(keyMerged, appendUint64(nil, s.journal.applied), nil); err != nil {
		return err
	}
	if err := s.put(b, sync); err != nil {
		return err
	}
	for _, one := range all {
		if p := one.balance; p.staged.active {
			p.ledger, p.last, p.staged = p.staged.ledger, p.staged.last, stagedBalance{page: p.staged.page}
		}
	}
	return nil
}

// stageSettlement adds one settlement to the staged balance, and puts it on the staged ledger page or, if it does not fit there, into
// the batch after that page. The caller holds the stripe of its account.
func (s *DB) stageSettlement(b *pebble.Batch, one *single) error {
	p, r, writer := one.balance, &one.record, &s.journal.writer
	d := &p.staged
	if !d.active {
		*d = stagedBalance{ledger: p.ledger, last: p.last, written: p.last, page: d.page, active: true}
	}
	r.applyAfter(d.ledger, d.last)
	if r.Balance < 0 {
		panic("BUG: a single was held beyond the balance of " + p.account)
	}
	d.ledger, d.last = Credits{r.Balance, r.Reserved}, r.Number
	n, ours := s.requests.numberOf(one.request)
	if !ours || !d.page.fits(n) {
		if err := writer.writePage(b, p.account, s.journal.process, &d.page); err != nil {
			return err
		}
	}
	if !ours {
		return writer.write(b, p.account, r)
	}
	d.page.add(r, n)
	return nil
}

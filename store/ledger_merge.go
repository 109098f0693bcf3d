package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// maxGroup bounds the settlements of one commit.
const maxGroup = 256

// journalSettlement writes a settlement to the journal. It merges the journal if that is full.
func (s *Store) journalSettlement(one *single) {
	for {
		entered, first := s.journal.appendSingle(one)
		if first {
			time.AfterFunc(s.journal.delay, s.mergeOnTimer)
		}
		if entered {
			return
		}
		s.mergeJournal()
	}
}

func (s *Store) mergeOnTimer() {
	s.journal.timerFired()
	s.mergeJournal()
}

// mergePending returns when the ledger has all settlements made before the call.
func (s *Store) mergePending() {
	if !s.journal.empty() {
		s.mergeJournal()
	}
}

// mergeJournal moves the settlements of the journal into the ledger, in as many commits as needed and one sync. If it fails, the process
// must end: the calls have been answered.
func (s *Store) mergeJournal() {
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
			j.markBroken()
		}
	}()
	end := j.applied + uint64(len(all))
	for group := range slices.Chunk(all, maxGroup) {
		j.applied += uint64(len(group))
		s.mergeGroup(group, j.applied == end)
	}
	complete = true
	j.markMerged(end)
	for _, one := range all { // after the sync: released credits may be spent at once, and a crash must not lose only the release
		one.balance.finishMerged(one)
		one.recycle()
	}
}

// mergeGroup commits the settlements up to j.applied. The last commit of a merge is synced, and makes the earlier ones durable too.
func (s *Store) mergeGroup(group []*single, last bool) {
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

func readMerged(r pebble.Reader) (uint64, error) {
	v, err := get(r, keyMerged)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err == nil && len(v) != 8 {
		err = fmt.Errorf("the number of the last single has %d bytes, want 8", len(v))
	}
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(v), nil
}

// replayJournal enters the settlements that the process before left in the journal and not in the ledger. It stops at a gap, which a
// power failure may leave, because later settlements may depend on the missing one, and at one that the balance does not cover.
func (s *Store) replayJournal(left []journalEntry) (err error) {
	defer func() {
		if p := recover(); p != nil {
			lost, ok := p.(Lost)
			if !ok {
				panic(p)
			}
			err = lost
		}
	}()
	folded, err := readMerged(s.db)
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
func (s *Store) replayEntry(e journalEntry) error {
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
func (s *Store) applyGroup(b *pebble.Batch, all []*single, sync bool) error {
	defer s.unlockStripes(s.lockStripes(all))
	for _, one := range all {
		if err := s.stageSettlement(b, one); err != nil {
			return err
		}
	}
	for _, one := range all {
		if p := one.balance; p.staged.active && p.staged.last != p.staged.written {
			p.staged.written = p.staged.last
			if err := s.journal.writeStaged(b, p); err != nil {
				return err
			}
		}
	}
	if err := b.Set(keyMerged, appendUint64(nil, s.journal.applied), nil); err != nil {
		return err
	}
	if err := s.putGroup(b, sync); err != nil {
		return err
	}
	for _, one := range all {
		one.balance.commitStaged()
	}
	return nil
}

// putGroup is put; only the last commit of a merge is synced.
func (s *Store) putGroup(b *pebble.Batch, sync bool) error {
	if sync {
		return s.put(b)
	}
	defer panicAsLost()
	return s.db.Apply(b, pebble.NoSync)
}

// writeStaged writes the rest of a balance's staged page, and the balance after it.
func (j *journal) writeStaged(b *pebble.Batch, p *balance) error {
	if err := j.writer.writePage(b, p.account, j.process, &p.staged.page); err != nil {
		return err
	}
	return j.writer.writeBalance(b, p.account, p.staged.ledger, p.staged.last)
}

// commitStaged makes the staged balance the current one, once it is in the log.
func (p *balance) commitStaged() {
	if p.staged.active {
		p.ledger, p.last, p.staged = p.staged.ledger, p.staged.last, stagedBalance{page: p.staged.page}
	}
}

// stageSettlement adds one settlement to the staged balance. The caller holds the stripe of its account.
func (s *Store) stageSettlement(b *pebble.Batch, one *single) error {
	p := one.balance
	if !p.staged.active {
		p.staged = stagedBalance{ledger: p.ledger, last: p.last, written: p.last, page: p.staged.page, active: true}
	}
	d := &p.staged
	r := &one.record
	r.applyAfter(d.ledger, d.last)
	if r.Balance < 0 {
		panic("BUG: a single was held beyond the balance of " + p.account)
	}
	d.ledger, d.last = Credits{r.Balance, r.Reserved}, r.Number
	return s.stageRecord(b, p, one)
}

// stageRecord puts a settlement on the staged ledger page or, if it does not fit there, into the batch after that page.
func (s *Store) stageRecord(b *pebble.Batch, p *balance, one *single) error {
	page := &p.staged.page
	n, ours := s.requests.numberOf(one.request)
	if !ours || !page.fits(n) {
		if err := s.journal.writer.writePage(b, p.account, s.journal.process, page); err != nil {
			return err
		}
	}
	if !ours {
		return s.journal.writer.write(b, p.account, &one.record)
	}
	page.add(&one.record, n)
	return nil
}

// lockStripes locks the accounts of a group, in order, so that two callers cannot deadlock.
func (s *Store) lockStripes(all []*single) (set uint64) {
	for _, one := range all {
		set |= 1 << one.balance.stripe
	}
	for rest := set; rest != 0; rest &= rest - 1 {
		s.stripeLocks[bits.TrailingZeros64(rest)].Lock()
	}
	return set
}

func (s *Store) unlockStripes(set uint64) {
	for ; set != 0; set &= set - 1 {
		s.stripeLocks[bits.TrailingZeros64(set)].Unlock()
	}
}

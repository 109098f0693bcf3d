package store

import (
	"errors"
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
		s.mergeWhole()
	}
}

// mergeJournal is mergeWhole, but not while the disk is full: readers do not wait for room.
func (s *DB) mergeJournal() {
	if s.Full() == nil {
		s.mergeWhole()
	}
}

// mergeWhole moves the settlements of the journal into the ledger, in as many commits as needed and one sync: when it returns, the
// ledger has all that were made before the call. If it fails, the process must end: the calls have been answered.
func (s *DB) mergeWhole() {
	j := &s.journal
	j.mergeMu.Lock()
	defer j.mergeMu.Unlock()
	j.mu.Lock()
	all, broken := j.waiting, j.broken
	j.waiting = nil
	j.mu.Unlock()
	if broken {
		panic(journalLost)
	}
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
		last := j.applied == end // its sync makes the earlier commits durable too
		b := s.db.NewBatch()
		err := s.applyGroup(b, group, last)
		if err == nil && last {
			err = b.SyncWait()
		}
		if err != nil {
			panic(Lost(err.Error()))
		}
		b.Close()
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
		request, used := e.record.Cause[len(singleCause):], e.record.Credits
		err := s.holdSingle(e.account, request, used)
		if short := (*ErrInsufficientCredits)(nil); errors.As(err, &short) {
			break
		}
		if err != nil {
			return err
		}
		if e.record.Kind == Release {
			used = 0
		}
		p := s.balances.find(e.account)
		one := p.holds[request]
		one.record = e.record
		p.settle(one, used)
		j.waiting = append(j.waiting, one)
		j.last++
	}
	s.mergeWhole()
	return nil
}

// applyGroup puts the commit of a group in the log, under the locks of its accounts. After an error the process must end: the balances
// in memory are ahead of the log.
func (s *DB) applyGroup(b *pebble.Batch, all []*single, sync bool) error {
	var locked [stripes]bool
	for _, one := range all {
		locked[one.balance.stripe] = true
	}
	for i := range s.stripeLocks { // in order, so that two callers cannot deadlock
		if locked[i] {
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
	for _, one := range all { // the rest of each balance's page, and the balance after it
		if p := one.balance; p.merging {
			p.merging = false
			if err := writer.writePage(b, p.account, s.journal.process, &p.page); err != nil {
				return err
			}
			if err := writer.writeBalance(b, p.account, p.ledger, p.last); err != nil {
				return err
			}
		}
	}
	if err := b.Set(keyMerged, appendUint64(nil, s.journal.applied), nil); err != nil {
		return err
	}
	return s.put(b, sync)
}

// stageSettlement adds one settlement to the balance, and puts it on the balance's page or, if it does not fit there, into the batch
// after that page. The caller holds the stripe of its account.
func (s *DB) stageSettlement(b *pebble.Batch, one *single) error {
	p, r, writer := one.balance, &one.record, &s.journal.writer
	r.applyAfter(p.ledger, p.last)
	if r.Balance < 0 {
		panic("BUG: a single was held beyond the balance of " + p.account)
	}
	p.ledger, p.last, p.merging = Credits{r.Balance, r.Reserved}, r.Number, true
	n, ours := s.requests.numberOf(one.request)
	fits := ours && (len(p.page.records) == 0 || max(p.page.last, n)-min(p.page.first, n) < pageSpan)
	if !fits {
		if err := writer.writePage(b, p.account, s.journal.process, &p.page); err != nil {
			return err
		}
	}
	if !ours {
		return writer.write(b, p.account, r)
	}
	p.page.add(r, n)
	return nil
}

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

// settleSoon returns when the settlement is in the journal.
func (s *Store) settleSoon(one *single) {
	for {
		entered, first := s.journal.enter(one)
		if first {
			time.AfterFunc(s.journal.delay, s.foldInTime)
		}
		if entered {
			return
		}
		s.fold()
	}
}

func (s *Store) foldInTime() {
	s.journal.timeCame()
	s.fold()
}

// shown returns when the ledger has all that was settled before the call.
func (s *Store) shown() {
	if !s.journal.empty() {
		s.fold()
	}
}

// fold moves what the journal has into the ledger, in as many commits as it takes and one sync. When it fails, the process must
// end: those who settled have been told.
func (s *Store) fold() {
	j := &s.journal
	j.folding.Lock()
	defer j.folding.Unlock()
	all := j.take()
	if len(all) == 0 {
		return
	}
	whole := false
	defer func() {
		if !whole {
			j.breaks()
		}
	}()
	end := j.booked + uint64(len(all))
	for group := range slices.Chunk(all, maxGroup) {
		j.booked += uint64(len(group))
		s.foldGroup(group, j.booked == end)
	}
	whole = true
	j.synced(end)
	for _, one := range all { // not before: credits that come back are spent at once, and what spends them may be all that is left
		one.purse.book(one)
		one.forget()
	}
}

// foldGroup is one commit, with which the ledger has the ends up to j.booked; with the last the disk has it, and those before.
func (s *Store) foldGroup(group []*single, last bool) {
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

// keyFolded has the number of the last end of the journal that the ledger has.
var keyFolded = key(tableMeta, "folded")

func readFolded(r pebble.Reader) (uint64, error) {
	v, err := get(r, keyFolded)
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

// enterLeft enters those ends that the process before left behind and the ledger has not. They follow each other: what comes
// after one that a power cut took does not count, as it is not known what it builds on; nor does what the balance does not cover.
func (s *Store) enterLeft(left []end) (err error) {
	defer func() {
		if p := recover(); p != nil {
			lost, ok := p.(Lost)
			if !ok {
				panic(p)
			}
			err = lost
		}
	}()
	folded, err := readFolded(s.db)
	if err != nil {
		return err
	}
	j := &s.journal
	j.booked, j.folded, j.last = folded, folded, folded
	for _, e := range left {
		if e.number != j.last+1 {
			continue
		}
		err := s.holdLeft(e)
		if errors.Is(err, errUnfolded) { // it spends what one before it gave back
			s.fold()
			err = s.holdLeft(e)
		}
		if short := (*ErrInsufficientCredits)(nil); errors.As(err, &short) {
			break
		}
		if err != nil {
			return err
		}
		j.last++
	}
	s.fold()
	return nil
}

// holdLeft makes an end that was left behind wait again, as it did.
func (s *Store) holdLeft(e end) error {
	p := s.purses.of(e.account, s.stripeOf(e.account))
	if err := s.readPurse(p); err != nil {
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

// applyGroup puts the commit in the log, under the locks of its accounts.
func (s *Store) applyGroup(b *pebble.Batch, all []*single, sync bool) error {
	defer s.unlockStripes(s.lockStripes(all))
	for _, one := range all {
		if err := s.draw(b, one); err != nil {
			return err
		}
	}
	for _, one := range all {
		if p := one.purse; p.draft.open && p.draft.last != p.draft.told {
			p.draft.told = p.draft.last
			if err := s.journal.finish(b, p); err != nil {
				return err
			}
		}
	}
	if err := b.Set(keyFolded, appendUint64(nil, s.journal.booked), nil); err != nil {
		return err
	}
	if err := s.putGroup(b, sync); err != nil {
		return err
	}
	for _, one := range all {
		one.purse.drawn()
	}
	return nil
}

// putGroup is put, of which only the last of a fold is synced.
func (s *Store) putGroup(b *pebble.Batch, sync bool) error {
	if sync {
		return s.put(b)
	}
	defer lostOnPanic()
	return s.db.Apply(b, pebble.NoSync)
}

// finish writes what a purse's draft still has, and where its ledger stands then.
func (j *journal) finish(b *pebble.Batch, p *purse) error {
	if err := j.scribe.writeSheet(b, p.account, j.process, &p.draft.sheet); err != nil {
		return err
	}
	return j.scribe.writeBalance(b, p.account, p.draft.ledger, p.draft.last)
}

// drawn is told when the draft is in the log.
func (p *purse) drawn() {
	if p.draft.open {
		p.ledger, p.last, p.draft = p.draft.ledger, p.draft.last, draft{sheet: p.draft.sheet}
	}
}

// draw writes one settlement. The caller holds the stripe of its account.
func (s *Store) draw(b *pebble.Batch, one *single) error {
	p := one.purse
	if !p.draft.open {
		p.draft = draft{ledger: p.ledger, last: p.last, told: p.last, sheet: p.draft.sheet, open: true}
	}
	d := &p.draft
	r := &one.record
	r.comeAfter(d.ledger, d.last)
	if r.Balance < 0 {
		panic("BUG: a single was held beyond the balance of " + p.account)
	}
	d.ledger, d.last = Credits{r.Balance, r.Reserved}, r.Number
	return s.note(b, p, one)
}

// note puts an end on the draft's sheet, or, if it cannot stand there, into the batch after the sheet.
func (s *Store) note(b *pebble.Batch, p *purse, one *single) error {
	sh := &p.draft.sheet
	n, ours := s.requests.numberOf(one.request)
	if !ours || !sh.takes(n) {
		if err := s.journal.scribe.writeSheet(b, p.account, s.journal.process, sh); err != nil {
			return err
		}
	}
	if !ours {
		return s.journal.scribe.write(b, p.account, &one.record)
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

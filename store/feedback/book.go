package feedback

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"probity/engine"
	"probity/engine/outcome"
	"probity/store"
)

// MaxDelay is how long after a verdict an outcome bears on it.
const MaxDelay = 30 * 24 * time.Hour

// MaxWaiting is Book.Limit unless it is set.
const MaxWaiting = 1_000_000

// outcomeLife is how long the outcome of a verdict is kept: longer than reports about it may be sent again.
const outcomeLife = 2 * MaxDelay

// maxCommit bounds the records that one commit changes.
const maxCommit = 1000

// outcomeAccount is where the account begins in a key of kindOutcome.
const outcomeAccount = 2 + hashSize

// ErrFull refuses reports beyond Book.Limit.
var ErrFull = errors.New("too many reports of this account wait to be matched with their verdicts")

// Book is the feedback of an installation. Its methods may be called from any goroutine.
type Book struct {
	db     *store.Store
	secret []byte
	events [events]atomic.Int64

	Limit int64 // bounds the reports of an account that wait to be matched; it is set before the first of them

	mu      sync.RWMutex
	all     outcome.Tally
	own     map[string]*outcome.Tally // by account; none without outcomes
	waiting map[string]int64          // by account
}

// event is what became of a report.
type event int

const (
	eventAccepted event = iota
	eventRepeated
	eventMatched
	eventUnmatched
	events
)

var eventNames = [events]string{"accepted", "repeated", "matched", "unmatched"}

// Open reads the counts of a store.
func Open(db *store.Store) (*Book, error) {
	secret, err := db.Secret("feedback")
	if err != nil {
		return nil, err
	}
	b := &Book{db: db, secret: secret, Limit: MaxWaiting, own: map[string]*outcome.Tally{}, waiting: map[string]int64{}}
	err = scan(db.Reader(), recordKey(kindCount), nil, func(k, v []byte) error {
		account, bin, err := readCountKey(k)
		if err != nil {
			return err
		}
		counts, err := readCounts(v)
		for kind, n := range counts {
			b.add(account, bin, outcome.Kind(kind), n)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, scan(db.Reader(), recordKey(kindWaiting), nil, func(k, _ []byte) error {
		_, account, err := readWaiting(k)
		b.waiting[account]++
		return err
	})
}

func countKey(account string, bin outcome.Bin) []byte {
	return recordKey(kindCount, []byte(account), []byte{0}, appendBin(nil, bin))
}

func readCountKey(k []byte) (account string, bin outcome.Bin, err error) {
	name, rest, _ := bytes.Cut(k[min(2, len(k)):], []byte{0})
	bin, ok := readBin(rest)
	if !ok {
		err = damaged(kindCount)
	}
	return string(name), bin, err
}

// add counts in memory. The caller has mu, or is Open.
func (b *Book) add(account string, bin outcome.Bin, kind outcome.Kind, n int64) {
	if n == 0 {
		return
	}
	if b.own[account] == nil {
		b.own[account] = new(outcome.Tally)
	}
	b.own[account].Add(bin, kind, n)
	b.all.Add(bin, kind, n)
}

// HashOf returns what stands for an address, given as it was sent.
func (b *Book) HashOf(email string) Hash {
	folded := email
	if a, err := engine.ParseTrimmed(email); err == nil {
		folded = a.Folded()
	}
	return b.hashOfFolded(folded)
}

func (b *Book) hashOfFolded(folded string) Hash {
	sum := sha256.Sum256([]byte(folded))
	return b.keyed(sum[:])
}

// HashOfReceipt returns what stands for the address of a receipt, of which it gives the SHA-256 in hex.
func (b *Book) HashOfReceipt(addressSHA256 string) (h Hash, ok bool) {
	sum, err := hex.DecodeString(addressSHA256)
	if err != nil || len(sum) != sha256.Size {
		return h, false
	}
	return b.keyed(sum), true
}

func (b *Book) keyed(sum []byte) (h Hash) {
	mac := hmac.New(sha256.New, b.secret)
	mac.Write(sum)
	copy(h[:], mac.Sum(nil))
	return h
}

// Added is what became of the reports of a call.
type Added struct{ Accepted, Repeated int }

// Add takes reports of an account. They wait until they are matched. One that was sent before has no effect. After an
// error some are taken and others are not; all can be sent again.
func (b *Book) Add(account string, reports []Report) (sum Added, err error) {
	b.mu.RLock()
	full := b.waiting[account]+int64(len(reports)) > b.Limit
	b.mu.RUnlock()
	if full {
		return sum, ErrFull
	}
	for part := range slices.Chunk(reports, maxCommit) {
		var added int
		err := b.db.Commit(account, func(batch *pebble.Batch) error {
			for _, r := range part {
				isNew, err := b.addOne(batch, account, r)
				if err != nil {
					return err
				}
				if isNew {
					added++
				}
			}
			return nil
		})
		if err != nil {
			return sum, err
		}
		sum.Accepted += added
		sum.Repeated += len(part) - added
		b.events[eventAccepted].Add(int64(added))
		b.events[eventRepeated].Add(int64(len(part) - added))
		b.mu.Lock()
		b.waiting[account] += int64(added)
		b.mu.Unlock()
	}
	return sum, nil
}

// addOne adds a report that waits, unless it says nothing new.
func (b *Book) addOne(batch *pebble.Batch, account string, r Report) (isNew bool, err error) {
	had, err := readOne(batch, outcomeKey(r.Hash, account), readCounted)
	if err != nil {
		return false, err
	}
	if had != nil && had.verdict.covers(r.At) && r.Kind <= had.kind && !r.At.After(had.reported) {
		return false, nil
	}
	k := waitingKey(r, account)
	if v, err := get(batch, k); err != nil || v != nil {
		return false, err
	}
	return true, batch.Set(k, []byte{}, nil)
}

// covers reports whether an outcome at a time bears on the verdict.
func (v *Verdict) covers(at time.Time) bool { return !at.Before(v.At) && at.Sub(v.At) <= MaxDelay }

// Case is a report that waits, with the latest verdict before it.
type Case struct {
	Report
	Verdict *Verdict // nil: none was found
}

// Offer makes v the verdict of the case if it is the latest so far that the report bears on.
func (c *Case) Offer(v Verdict) {
	if v.covers(c.At) && (c.Verdict == nil || v.At.After(c.Verdict.At)) {
		c.Verdict = &v
	}
}

// Waiting returns up to limit reports that wait, by account.
func (b *Book) Waiting(limit int) (map[string][]Case, error) {
	found, n := map[string][]Case{}, 0
	err := scan(b.db.Reader(), recordKey(kindWaiting), nil, func(k, _ []byte) error {
		r, account, err := readWaiting(k)
		if err != nil {
			return err
		}
		found[account] = append(found[account], Case{Report: r})
		n++
		if n == limit {
			return errStop
		}
		return nil
	})
	return found, err
}

// change is what a settled case changes in the counts.
type change struct {
	bin  outcome.Bin
	kind outcome.Kind
	n    int64
}

// Settle ends cases of an account: those with a verdict are counted, the others dropped. A case that was settled or
// erased meanwhile has no effect.
func (b *Book) Settle(account string, cases []Case) error {
	for part := range slices.Chunk(cases, maxCommit) {
		var changes []change
		var ended, unmatched int64
		err := b.db.Commit(account, func(batch *pebble.Batch) error {
			for _, c := range part {
				k := waitingKey(c.Report, account)
				if v, err := get(batch, k); err != nil || v == nil {
					if err != nil {
						return err
					}
					continue
				}
				if err := batch.Delete(k, nil); err != nil {
					return err
				}
				ended++
				if c.Verdict == nil {
					unmatched++
					continue
				}
				more, err := count(batch, account, &c)
				if err != nil {
					return err
				}
				changes = append(changes, more...)
			}
			return errors.Join(addCounts(batch, account, changes), addUnmatched(batch, account, unmatched))
		})
		if err != nil {
			return err
		}
		b.events[eventMatched].Add(ended - unmatched)
		b.events[eventUnmatched].Add(unmatched)
		b.mu.Lock()
		for _, c := range changes {
			b.add(account, c.bin, c.kind, c.n)
		}
		b.waiting[account] -= ended
		b.mu.Unlock()
	}
	return nil
}

// count writes the outcome of the case's verdict, and returns what it changes in the counts.
func count(batch *pebble.Batch, account string, c *Case) ([]change, error) {
	k := outcomeKey(c.Hash, account)
	had, err := readOne(batch, k, readCounted)
	if err != nil {
		return nil, err
	}
	now := counted{c.Kind, c.At, *c.Verdict}
	changes := []change{{c.Verdict.Bin, c.Kind, 1}}
	switch {
	case had == nil || had.verdict.At.Before(c.Verdict.At): // the first outcome of this verdict
	case had.verdict.At.After(c.Verdict.At):
		return nil, nil // there is one of a later verdict
	case had.kind >= c.Kind:
		now = *had
		changes = nil
	default:
		changes = append(changes, change{had.verdict.Bin, had.kind, -1})
	}
	if had != nil && had.reported.After(now.reported) {
		now.reported = had.reported
	}
	if c.At.After(now.reported) {
		now.reported = c.At
	}
	return changes, batch.Set(k, now.value(), nil)
}

func addCounts(batch *pebble.Batch, account string, changes []change) error {
	byBin := map[outcome.Bin]*outcome.Counts{}
	for _, c := range changes {
		if byBin[c.bin] == nil {
			byBin[c.bin] = new(outcome.Counts)
		}
		byBin[c.bin][c.kind] += c.n
	}
	for bin, more := range byBin {
		k := countKey(account, bin)
		had, err := readOne(batch, k, readCounts)
		if err != nil {
			return err
		}
		if had == nil {
			had = new(outcome.Counts)
		}
		for kind := range had {
			had[kind] += more[kind]
		}
		if err := batch.Set(k, countsValue(*had), nil); err != nil {
			return err
		}
	}
	return nil
}

func addUnmatched(batch *pebble.Batch, account string, n int64) error {
	if n == 0 {
		return nil
	}
	had, err := readUnmatched(batch, account)
	if err != nil {
		return err
	}
	return batch.Set(recordKey(kindUnmatched, []byte(account)), binary.AppendUvarint(nil, uint64(had+n)), nil)
}

func readUnmatched(r pebble.Reader, account string) (int64, error) {
	n, err := readOne(r, recordKey(kindUnmatched, []byte(account)), func(b []byte) (int64, error) {
		n, size := binary.Uvarint(b)
		if size != len(b) || size == 0 || int64(n) < 0 {
			return 0, damaged(kindUnmatched)
		}
		return int64(n), nil
	})
	if n == nil {
		return 0, err
	}
	return *n, err
}

// Probability returns how probable it is that an address with a verdict of the bin takes mail, as outcome.Probability
// does.
func (b *Book) Probability(account string, bin outcome.Bin) (p float64, n int64, known bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	own := b.own[account]
	if own == nil {
		own = &noOutcomes
	}
	return outcome.Probability(own, &b.all, bin)
}

var noOutcomes outcome.Tally // never changed

// Summary is the outcomes of an account.
type Summary struct {
	Rows      []outcome.Row
	Waiting   int64 // reports that are not matched yet
	Unmatched int64 // reports about no verdict of the 30 days before
}

// Summary returns the outcomes of an account.
func (b *Book) Summary(account string) (s Summary, err error) {
	s.Unmatched, err = readUnmatched(b.db.Reader(), account)
	b.mu.RLock()
	defer b.mu.RUnlock()
	s.Waiting = b.waiting[account]
	if own := b.own[account]; own != nil {
		s.Rows = own.Rows()
	}
	return s, err
}

// Erase deletes all records of an address, given in folded form, and returns their number. Counts stay.
func (b *Book) Erase(folded string) (n int, err error) {
	h := b.hashOfFolded(folded)
	keys := map[string][][]byte{} // by account
	collect := func(account string, k []byte) { keys[account] = append(keys[account], bytes.Clone(k)) }
	err = scan(b.db.Reader(), recordKey(kindWaiting, h[:]), nil, func(k, _ []byte) error {
		_, account, err := readWaiting(k)
		collect(account, k)
		return err
	})
	err = errors.Join(err, scan(b.db.Reader(), recordKey(kindOutcome, h[:]), nil, func(k, _ []byte) error {
		collect(string(k[outcomeAccount:]), k)
		return nil
	}))
	for _, account := range slices.Sorted(maps.Keys(keys)) {
		deleted, failed := b.deleteAll(account, keys[account], func([]byte) bool { return true })
		n += deleted
		err = errors.Join(err, failed)
	}
	return n, err
}

// deleteAll deletes those records of an account that are still there and match.
func (b *Book) deleteAll(account string, keys [][]byte, match func(v []byte) bool) (n int, err error) {
	for part := range slices.Chunk(keys, maxCommit) {
		deleted, waited := 0, int64(0)
		err := b.db.Commit(account, func(batch *pebble.Batch) error {
			for _, k := range part {
				v, err := get(batch, k)
				if err != nil {
					return err
				}
				if v == nil || !match(v) {
					continue
				}
				if err := batch.Delete(k, nil); err != nil {
					return err
				}
				deleted++
				if k[1] == kindWaiting {
					waited++
				}
			}
			return nil
		})
		if err != nil {
			return n, err
		}
		n += deleted
		b.mu.Lock()
		b.waiting[account] -= waited
		b.mu.Unlock()
	}
	return n, nil
}

// Sweep deletes outcomes that no report can bear on any more, and returns their number. Counts stay.
func (b *Book) Sweep(now time.Time) (n int, err error) {
	old := func(v []byte) bool {
		c, err := readCounted(v)
		return err != nil || now.Sub(c.verdict.At) > outcomeLife
	}
	var from []byte
	for {
		keys, found := map[string][][]byte{}, 0 // by account
		err := scan(b.db.Reader(), recordKey(kindOutcome), from, func(k, v []byte) error {
			if len(k) <= outcomeAccount || !old(v) {
				return nil
			}
			account := string(k[outcomeAccount:])
			keys[account] = append(keys[account], bytes.Clone(k))
			from = append(bytes.Clone(k), 0)
			found++
			if found == maxCommit {
				return errStop
			}
			return nil
		})
		if err != nil {
			return n, err
		}
		for account, of := range keys {
			deleted, err := b.deleteAll(account, of, old)
			n += deleted
			if err != nil {
				return n, err
			}
		}
		if found < maxCommit {
			return n, nil
		}
	}
}

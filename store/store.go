package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/store/opendb"
)

// ErrNotFound is the answer about a record that does not exist.
var ErrNotFound = errors.New("not found")

const (
	cacheBytes    = 16 << 20 // blocks of the state database kept in memory
	memtableBytes = 4 << 20  // one memtable
	stripes       = 64       // locks over all accounts
)

// Store is an open state database. Its methods may be called from any goroutine.
type Store struct {
	db           *pebble.DB
	accountCache *accountCache // accounts, as requests see them
	// Singles under way, and their way into the ledger.
	balances balances
	journal  journal
	requests requests
	seed     maphash.Seed
	// Each guards the read-decide-write of the accounts that hash to it, until their batch is in the log:
	// that is what makes a commit serial within its account.
	stripeLocks [stripes]sync.Mutex
}

// Open opens the state database in dir, and makes it if there is none.
func Open(fs vfs.FS, dir string) (*Store, error) {
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref()
	db, err := opendb.Open(dir, options(fs, cache))
	if err != nil {
		return nil, fmt.Errorf("state store %s: %w", dir, err)
	}
	s := &Store{db: db, accountCache: newAccountCache(), seed: maphash.MakeSeed()}
	if err := s.prepare(fs, dir); err != nil {
		return nil, errors.Join(fmt.Errorf("state store %s: %w", dir, err), s.journal.close(), db.Close())
	}
	return s, nil
}

// options are the database's. Its filters answer the question that is asked most, and mostly with no: whether a ledger
// id is there already.
func options(fs vfs.FS, cache *pebble.Cache) *pebble.Options {
	o := &pebble.Options{
		FS:                 preallocFS{fs},
		Cache:              cache,
		MemTableSize:       memtableBytes,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             discardLogger{},
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	return o
}

// prepare makes an opened database ready: it checks the format and reads what lives in memory.
func (s *Store) prepare(fs vfs.FS, dir string) error {
	if err := s.checkFormat(); err != nil {
		return err
	}
	s.requests.newProcess()
	if err := s.openJournal(fs, dir); err != nil {
		return err
	}
	return s.accountCache.load(s)
}

// Close ends the use of the database. Nothing may be under way.
func (s *Store) Close() error {
	s.mergePending()
	return errors.Join(s.journal.close(), s.db.Close())
}

// Checkpoint writes a consistent copy of the database to dir, which must not exist.
func (s *Store) Checkpoint(dir string) error {
	s.mergePending()
	return s.db.Checkpoint(dir, pebble.WithFlushedWAL())
}

// Part is a piece of a commit. It reads through the batch, so that it sees what earlier parts wrote, and adds its own
// writes. Its error abandons the whole commit and is returned as it is.
type Part func(*pebble.Batch) error

// Commit runs the parts in order on one batch and commits it, synced. Commits of one account are serial;
// a commit that concerns no account passes "".
func (s *Store) Commit(account string, parts ...Part) error {
	return s.commit(account, 0, parts)
}

// commit is Commit. Claimed are the credits of the account that were held for it, and are not any more once it is made.
func (s *Store) commit(account string, claimed int64, parts []Part) error {
	if p := s.balances.find(account); p != nil && p.hasPendingRelease() {
		s.mergeJournal()
	}
	b := s.db.NewIndexedBatch()
	defer b.Close()
	back, err := s.apply(account, claimed, b, parts)
	if err != nil {
		return err
	}
	if !b.Empty() {
		if err := b.SyncWait(); err != nil {
			panic(Lost(err.Error()))
		}
	}
	if back > 0 { // a single may spend it at once, and tell before the next sync
		s.balances.find(account).addFree(back)
	}
	return nil
}

// apply runs the parts and puts the batch in the log, under the account's lock. The sync is waited for outside of it, so
// that the commits of a busy account share one: a later commit builds on what is not durable yet, but it comes later in
// the log too, and so is durable only with it. When a sync fails the process must end, as others have seen what is lost. back is
// what it gives the account's singles, once it is durable.
func (s *Store) apply(account string, claimed int64, b *pebble.Batch, parts []Part) (back int64, err error) {
	mu := s.stripe(account)
	mu.Lock()
	defer mu.Unlock()
	p := s.balances.find(account)
	for _, part := range parts {
		if err := part(b); err != nil {
			if p != nil && p.ledgerKnown {
				err = p.correctShortfall(err)
			}
			return 0, err
		}
	}
	if p != nil && p.ledgerKnown {
		return s.applyKnown(p, claimed, b)
	}
	return 0, s.put(b)
}

// applyKnown puts a batch in the log that concerns an account with a balance in memory: what singles under way hold stays covered.
func (s *Store) applyKnown(p *balance, claimed int64, b *pebble.Batch) (back int64, err error) {
	now, last, err := readBalance(b, p.account)
	if err != nil {
		return 0, err
	}
	if back, err = p.takeForCommit(now, claimed); err != nil {
		return 0, err
	}
	if err := s.put(b); err != nil {
		if back == 0 {
			p.addFree(p.ledger.Balance - now.Balance - claimed)
		}
		return 0, err
	}
	p.ledger, p.last = now, last
	return back, nil
}

func (s *Store) put(b *pebble.Batch) error {
	if b.Empty() {
		return nil
	}
	defer panicAsLost()
	return wrapBroken(s.db.ApplyNoSyncWait(b, pebble.Sync))
}

// panicAsLost gives our name to the panic of a database that met a failing disk outside of a sync, such as when it could not
// begin another log. It holds its locks from then on: a caller that went on would wait for ever.
func panicAsLost() {
	if p := recover(); p != nil {
		panic(Lost(fmt.Sprint(p)))
	}
}

// stripeOf is the lock over an account.
func (s *Store) stripeOf(account string) uint64 { return maphash.String(s.seed, account) % stripes }

func (s *Store) stripe(account string) *sync.Mutex { return &s.stripeLocks[s.stripeOf(account)] }

// get is a copy of the value under a key, or ErrNotFound.
func get(r pebble.Reader, k []byte) ([]byte, error) {
	v, closer, err := r.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, wrapBroken(err)
	}
	defer closer.Close()
	return append([]byte(nil), v...), nil
}

// errStop ends a scan early without an error.
var errStop = errors.New("stop")

// scan calls visit with each key and value under prefix, in key order, from the key start on when it is not nil.
// Both slices are valid until visit returns. visit returns errStop to end early.
func scan(r pebble.Reader, prefix, start []byte, visit func(k, v []byte) error) error {
	if start == nil {
		start = prefix
	}
	it, err := r.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: prefixEnd(prefix)})
	if err != nil {
		return wrapBroken(err)
	}
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err = wrapBroken(err); err == nil {
			err = visit(it.Key(), v)
		}
		if errors.Is(err, errStop) {
			break
		}
		if err != nil {
			return errors.Join(err, it.Close())
		}
	}
	return wrapBroken(it.Close())
}

// ErrBroken is wrapped by the errors of a database that cannot be read or written, as opposed to those of what was asked of it.
var ErrBroken = errors.New("the state store fails")

func wrapBroken(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

func (s *Store) checkFormat() error {
	k := key(tableMeta, "format")
	v, err := get(s.db, k)
	mark := func() error { return s.db.Set(k, binary.BigEndian.AppendUint32(nil, Format), pebble.Sync) }
	if errors.Is(err, ErrNotFound) {
		return mark()
	}
	if err != nil {
		return err
	}
	if len(v) != 4 {
		return fmt.Errorf("its format record has %d bytes, want 4: this is not a store of ours", len(v))
	}
	switch n := binary.BigEndian.Uint32(v); {
	case n > Format:
		return fmt.Errorf("it has format %d and this program knows up to %d: use the newer program that wrote it", n, Format)
	case n < Format:
		if err := s.db.DeleteRange(key(tableChunk, ""), []byte{tableChunk + 1}, pebble.NoSync); err != nil {
			return err
		}
		return mark()
	}
	return nil
}

// Lost is what the store panics with when it is not known any more what is on the disk: a write or a sync failed under a commit.
// Code that recovers from panics must let this one end the process; the next start knows what is there.
type Lost string

func (l Lost) Error() string { return "state store cannot go on: " + string(l) }

// discardLogger keeps the database from writing to the terminal: its errors come back from the calls that met them.
type discardLogger struct{}

func (discardLogger) Infof(string, ...any)  {}
func (discardLogger) Errorf(string, ...any) {}
func (discardLogger) Fatalf(format string, args ...any) {
	panic(Lost(fmt.Sprintf(format, args...)))
}

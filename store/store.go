package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/store/dbfiles"
	"probity/store/diskroom"
	"probity/store/opendb"
	"probity/store/requestid"
	"probity/store/signin"
)

// ErrNotFound is returned for a record that does not exist.
var ErrNotFound = errors.New("not found")

const (
	cacheBytes    = 16 << 20 // blocks of the state database kept in memory
	memtableBytes = 4 << 20  // one memtable
	stripes       = 1024     // over which all accounts are spread
)

// Store is an open state database. Its methods may be called from any goroutine. It embeds its parts, each of which has
// its state and its locks.
type Store struct {
	*DB
	*Accounts
	Billing
	Jobs
	Logins
	Privacy
	inFlight inFlight
}

// DB is the database and its commits, each of which leaves the reservations of single calls covered.
type DB struct {
	db       *pebble.DB
	fs       *dbfiles.FS
	dir      string
	requests *requestid.Source
	damage   damageReports
	seed     maphash.Seed
	stripes  [stripes]stripe // an account has the one that it hashes to
}

// Open opens the state database in dir, and makes it if there is none. It is for a process that serves from it: damage
// that is found later ends the process, as a lost write does.
func Open(fs vfs.FS, dir string) (*Store, error) {
	s, err := OpenAtRest(fs, dir)
	if err != nil {
		return nil, err
	}
	s.damage.fatal.Store(true)
	if found := s.damage.first.Load(); found != nil {
		return nil, errors.Join(found, s.Close())
	}
	return s, nil
}

// OpenAtRest is Open for a command that works on the store of a stopped server: damage is an error of the calls that
// meet it.
func OpenAtRest(fs vfs.FS, dir string) (*Store, error) {
	cache := pebble.NewCache(cacheBytes)
	defer cache.Unref()
	d := &DB{fs: dbfiles.New(fs), dir: dir, seed: maphash.MakeSeed(), requests: requestid.New()}
	o := &pebble.Options{FS: d.fs, Cache: cache, MemTableSize: memtableBytes, FormatMajorVersion: pebble.FormatNewest,
		Logger: discardLogger{}}
	o.EventListener = &pebble.EventListener{DataCorruption: d.damage.report}
	o.Experimental.SpanPolicyFunc = dbfiles.SplitByTable
	for i := range o.Levels { // the most frequent look-up, which mostly finds nothing, is whether a ledger id exists
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := opendb.Open(dir, o)
	if opendb.IsDamage(err) {
		err = &DamagedError{dir, err}
	}
	if err != nil {
		return nil, openError(dir, err)
	}
	d.db = db
	a := newAccounts(d)
	logins := Logins{Accounts: a, guard: signin.New(signin.MaxFailing)}
	s := &Store{DB: d, Accounts: a, Billing: Billing{d}, Jobs: Jobs{d}, Logins: logins, Privacy: Privacy{DB: d},
		inFlight: inFlight{digests: make(map[KeyHash]KeyHash)}}
	if err = s.checkFormat(); err == nil {
		err = a.load()
	}
	if err == nil {
		err = errors.Join(s.loadSuppressions(), s.loadLockouts())
	}
	if err != nil {
		return nil, errors.Join(openError(dir, err), db.Close())
	}
	return s, nil
}

// openError is an error of Open. If the database tells which file is damaged, that is all that is said.
func openError(dir string, err error) error {
	if found, damaged := errors.AsType[*DamagedError](wrapBroken(err)); damaged {
		return found
	}
	return fmt.Errorf("state store %s: %w", dir, err)
}

// Reader reads what is committed, for a package that has records of its own in a table.
func (d *DB) Reader() pebble.Reader { return d.db }

// Close closes the database. No call may be under way.
func (d *DB) Close() error { return d.db.Close() }

// Full returns an error that is a syscall.ENOSPC while commits are refused, because the disk has no room for them.
func (d *DB) Full() error { return diskroom.Full(d.fs.FS) }

// Checkpoint writes a consistent copy of the database to dir, which must not exist.
func (d *DB) Checkpoint(dir string) error {
	return d.db.Checkpoint(dir, pebble.WithFlushedWAL())
}

// Part is a piece of a commit. It reads through the batch, so that it sees what earlier parts wrote, and adds its own
// writes. Its error abandons the whole commit and is returned as it is.
type Part func(*pebble.Batch) error

// Commit runs the parts in order on one batch and commits it, synced. Commits of one account are serial; account is ""
// for a commit that concerns no account.
func (d *DB) Commit(account string, parts ...Part) error {
	return d.commit(account, "", parts)
}

// commit is Commit. It ends the reservation of the single call named single, if it has one.
func (d *DB) commit(account, single string, parts []Part) error {
	if err := d.Full(); err != nil {
		return err
	}
	b := d.db.NewIndexedBatch()
	defer b.Close()
	if err := d.apply(account, single, b, parts); err != nil {
		return err
	}
	if b.Empty() {
		return nil
	}
	if err := b.SyncWait(); err != nil {
		panic(Lost(err.Error()))
	}
	return nil
}

// apply runs the parts and puts the batch in the log, under the account's lock. The caller waits for the sync without
// the lock, so that all commits that wait share one. A later commit may build on one that is not durable yet, but it is
// later in the log too, so it is durable only with that one. If a sync fails, the process must end.
func (d *DB) apply(account, single string, b *pebble.Batch, parts []Part) error {
	st := d.stripeOf(account)
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, part := range parts {
		if err := part(b); err != nil {
			return st.singles.withoutReserved(account, err)
		}
	}
	call := singleCall{account, single}
	after, err := st.singles.checkCovered(d.db, b, call)
	if err != nil {
		return err
	}
	st.newest = balance{} // a batch that could not be put in the log may be in the database or not
	if err := d.put(b); err != nil {
		return err
	}
	st.newest = after
	st.singles.end(call)
	return nil
}

// put puts a batch in the log. The caller waits for the sync.
func (d *DB) put(b *pebble.Batch) error {
	if b.Empty() {
		return nil
	}
	defer panicAsLost()
	return wrapBroken(d.db.ApplyNoSyncWait(b, pebble.Sync))
}

// panicAsLost turns a panic of the database on a failing disk outside of a sync (for example, it cannot start another
// log) into Lost. The database keeps its locks after it: a caller that went on would wait for ever.
func panicAsLost() {
	if p := recover(); p != nil {
		panic(Lost(fmt.Sprint(p)))
	}
}

// stripeOf returns the account's stripe.
func (d *DB) stripeOf(account string) *stripe {
	return &d.stripes[maphash.String(d.seed, account)%stripes]
}

// ErrBroken is wrapped by errors of a database that cannot be read or written, as opposed to errors of a request.
var ErrBroken = errors.New("the state store fails")

func wrapBroken(err error) error {
	if err == nil {
		return nil
	}
	if info := pebble.ExtractDataCorruptionInfo(err); info != nil {
		return damageIn(info.Path, info.Details)
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

func (d *DB) checkFormat() error {
	k := key(tableMeta, "format")
	v, err := get(d.db, k)
	switch {
	case errors.Is(err, ErrNotFound): // new
	case err != nil:
		return err
	case len(v) != 4:
		return fmt.Errorf("its format record has %d bytes, want 4: this is not a store of ours", len(v))
	case binary.BigEndian.Uint32(v) == Format:
		return nil
	case binary.BigEndian.Uint32(v) > Format:
		return fmt.Errorf("it has format %d and this program knows up to %d: %w", binary.BigEndian.Uint32(v), Format,
			opendb.ErrNewer)
	default:
		return fmt.Errorf("it has format %d: this is not a store of ours", binary.BigEndian.Uint32(v))
	}
	return d.db.Set(k, binary.BigEndian.AppendUint32(nil, Format), pebble.Sync)
}

// Lost is the value with which the store panics when a write or a sync of a commit failed: the next start reads what is
// on the disk.
type Lost string

func (l Lost) Error() string { return "state store cannot go on: " + string(l) }

// EndsProcess implements pipeline.Fatal.
func (Lost) EndsProcess() {}

// discardLogger drops the database's log: its errors are returned by the calls.
type discardLogger struct{}

func (discardLogger) Infof(string, ...any)  {}
func (discardLogger) Errorf(string, ...any) {}
func (discardLogger) Fatalf(format string, args ...any) {
	panic(Lost(fmt.Sprintf(format, args...)))
}

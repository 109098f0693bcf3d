package cache

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/engine"
	"probity/store/diskroom"
	"probity/store/opendb"
)

// Config configures a cache. The zero value of everything but FS and Dir has a default.
type Config struct {
	FS  vfs.FS
	Dir string
	// bytes of blocks in memory, memtables included: the tables' filters must fit; default 32 MiB
	BlockCache  int64
	MemTable    uint64        // bytes of one memtable, of which there are two under load; default 8 MiB
	FilterBytes int64         // bytes of the key filter; twice that while a sweep runs; default 16 MiB
	MaxBytes    uint64        // size on disk above which the sweep shortens lifetimes; default 8 GiB
	MaxLife     time.Duration // limit of all lifetimes; default: none
	Log         *slog.Logger  // default: none
}

// Cache is an open cache. Its methods may be called from any goroutine.
type Cache struct {
	cfg Config
	// held for reading while the database is used, for writing while it is replaced
	dbMu       sync.RWMutex
	db         *pebble.DB                // guarded by dbMu
	health     *health                   // of db, guarded by dbMu
	setAsideAt atomic.Pointer[time.Time] // when a damaged database was set aside; nil for never
	secret     []byte
	seed       uint64
	max        uint64
	shrink     atomic.Int32 // lifetimes are divided by 2^shrink
	keyers     sync.Pool    // of *Keyer: an HMAC state costs more to make than to use
	recent     *recent[engine.Verdict]
	facts      *recent[storedFact]
	filters    keyFilters
}

// Open opens the cache in c.Dir, and makes it if there is none.
func Open(c Config) (*Cache, error) {
	if c.FS == nil || c.Dir == "" {
		return nil, errors.New("cache: FS and Dir are needed")
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	cache := &Cache{cfg: c, max: cmp.Or(c.MaxBytes, 8<<30), recent: newRecent[engine.Verdict](verdictsPerShard),
		facts: newRecent[storedFact](factsPerShard)}
	cache.filters.wordCount = int(max(1, cmp.Or(c.FilterBytes, 16<<20)/8))
	err := cache.load()
	if !errors.Is(err, errNewer) && opendb.IsDamage(err) {
		err = cache.replace(err)
	}
	if err != nil {
		return nil, err
	}
	cache.keyers.New = func() any { return cache.Keyer() }
	diskroom.Opened(c.FS)
	return cache, nil
}

// load opens the database, and makes it if there is none. dbMu is held, or the cache is not in use yet.
func (c *Cache) load() error {
	o := &pebble.Options{
		FS: c.cfg.FS, EventListener: new(pebble.EventListener),
		Cache: pebble.NewCache(cmp.Or(c.cfg.BlockCache, 32<<20)), MemTableSize: cmp.Or(c.cfg.MemTable, 8<<20),
		L0CompactionThreshold: upperTables, L0StopWritesThreshold: maxTables, FormatMajorVersion: pebble.FormatNewest,
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
	}
	h := &health{damage: make(chan struct{})}
	c.health, o.Logger = h, slogLogger{c.cfg.Log, h}
	o.EventListener.DataCorruption = func(info pebble.DataCorruptionInfo) { h.recordDamage(info, c.cfg.Log) }
	defer o.Cache.Unref()
	db, err := opendb.Open(c.cfg.Dir, o)
	if err != nil {
		return fmt.Errorf("cache %s: %w", c.cfg.Dir, err)
	}
	c.db = db
	if err := errors.Join(c.prepare(), c.filters.initIfEmpty(db)); err != nil {
		return errors.Join(err, db.Close())
	}
	return nil
}

// Keys are uniformly distributed, so each compaction of the upper level rewrites all of the next: most of the cost of a
// large database. So about 64 MiB collect in the upper level before it is compacted; the tables' filters keep a look-up
// that passes the key filter from reading more than one table. The tables are small because a memtable's memory is not
// available to the Go heap (probity bench bulk, BenchmarkLists).
const (
	upperTables = 16 // overlapping tables; compaction starts at half of that, and its priority grows
	maxTables   = 48 // then writers wait
	filterBits  = 10 // for each key: the filters of 13,000,000 keys fit into the default block cache
)

// slogLogger passes Pebble's errors to slog. Once the database is known to be damaged they are debug messages, because
// each of Pebble's retries fails then.
type slogLogger struct {
	log    *slog.Logger
	health *health
}

func (slogLogger) Infof(string, ...any) {}

func (sl slogLogger) Errorf(format string, args ...any) {
	level := slog.LevelError
	if sl.health.damaged() {
		level = slog.LevelDebug
	}
	sl.log.Log(context.Background(), level, "cache database", "error", fmt.Sprintf(format, args...))
}

func (sl slogLogger) Fatalf(format string, args ...any) {
	panic(Lost(fmt.Sprintf(format, args...)))
}

// Lost is the value with which the cache panics when the disk fails: the process must end, and the next start reads
// what is on the disk.
type Lost string

func (l Lost) Error() string { return "cache cannot go on: " + string(l) }

// EndsProcess implements pipeline.Fatal.
func (Lost) EndsProcess() {}

// panicAsLost turns a panic of the database on a failing disk (for example, it cannot start another log) into Lost.
func panicAsLost() {
	if p := recover(); p != nil {
		panic(Lost(fmt.Sprint(p)))
	}
}

func commit(b *pebble.Batch, o *pebble.WriteOptions) error {
	defer panicAsLost()
	return b.Commit(o)
}

// Full returns an error that is a syscall.ENOSPC while the disk has no room for the cache: verdicts and facts are then
// dropped, and budgets are not written.
func (c *Cache) Full() error { return diskroom.Full(c.cfg.FS) }

// Close closes the database.
func (c *Cache) Close() error {
	c.dbMu.Lock()
	defer c.dbMu.Unlock()
	diskroom.Closing(c.cfg.FS)
	return c.db.Close()
}

// Get returns the verdict of one address; false if there is none that may still be served at now.
func (c *Cache) Get(key Key, now time.Time) (engine.Verdict, bool) {
	s := c.recent.shard(&key)
	v, writes := s.get(&key)
	if v == nil {
		v = c.readVerdict(&key)
		if v == nil {
			return engine.Verdict{}, false
		}
		s.put(&key, v, writes)
	}
	if c.cfg.expired(v.VerifiedAt, verdictLifetime(v), 0, now) {
		return engine.Verdict{}, false
	}
	return *v, true
}

// readVerdict reads a verdict from the database, nil if there is none.
func (c *Cache) readVerdict(key *Key) *engine.Verdict {
	if !c.filters.mayContain(key) {
		return nil
	}
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	var buf [1 + len(key)]byte
	buf[0] = tableResult
	copy(buf[1:], key[:])
	b, closer, err := c.db.Get(buf[:])
	if err != nil {
		return nil
	}
	defer closer.Close()
	v, err := ReadVerdict(b)
	if err != nil {
		return nil
	}
	return &v
}

// GetBatch calls found for every key that has a verdict which may be served at now. The keys must ascend, so that one
// iterator can visit them. Most rows of a job are new addresses; until there is a key filter, the filters of the lowest
// level save them from reading a block each.
func (c *Cache) GetBatch(keys []Key, now time.Time, found func(i int, v engine.Verdict)) error {
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	it, err := c.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableResult}, UpperBound: []byte{tableResult + 1},
		UseL6Filters: true})
	if err != nil {
		return fmt.Errorf("cache read: %w", err)
	}
	var buf [1 + len(Key{})]byte
	buf[0] = tableResult
	for i := range keys {
		if !c.filters.mayContain(&keys[i]) {
			continue
		}
		copy(buf[1:], keys[i][:])
		if !it.SeekPrefixGE(buf[:]) || !bytes.Equal(it.Key(), buf[:]) {
			continue
		}
		if v, err := ReadVerdict(it.Value()); err == nil && !c.cfg.expired(v.VerifiedAt, verdictLifetime(&v), 0, now) {
			found(i, v)
		}
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("cache read: %w", err)
	}
	return nil
}

// Entry is one verdict to store.
type Entry struct {
	Key     Key
	Verdict *engine.Verdict
}

// Put stores verdicts, without a sync; while the disk is full it drops them. It sorts the entries by key, which is
// faster.
func (c *Cache) Put(entries []Entry) error {
	if len(entries) == 0 || c.Full() != nil {
		return nil
	}
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	slices.SortFunc(entries, func(a, b Entry) int { return slices.Compare(a.Key[:], b.Key[:]) })
	b := c.db.NewBatchWithSize(len(entries) * 112)
	defer b.Close()
	var key [1 + len(Key{})]byte
	key[0] = tableResult
	var buf []byte
	for i := range entries {
		copy(key[1:], entries[i].Key[:])
		buf = AppendVerdict(buf[:0], entries[i].Verdict)
		if err := b.Set(key[:], buf, nil); err != nil {
			return fmt.Errorf("cache batch: %w", err)
		}
	}
	if err := c.filters.addThenWrite(entries, func() error { return commit(b, pebble.NoSync) }); err != nil {
		return fmt.Errorf("cache write: %w", err)
	}
	for i := range entries {
		c.recent.shard(&entries[i].Key).invalidate(&entries[i].Key)
	}
	return nil
}

// Delete deletes the verdict of one address.
func (c *Cache) Delete(key Key) error {
	if err := c.Full(); err != nil {
		return err
	}
	defer c.recent.shard(&key).invalidate(&key)
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	defer panicAsLost()
	return c.db.Delete(append([]byte{tableResult}, key[:]...), pebble.Sync)
}

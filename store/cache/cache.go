package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"probity/engine"
	"probity/store/opendb"
)

// Config opens a cache. The zero value of everything but FS and Dir has a default.
type Config struct {
	FS          vfs.FS
	Dir         string
	BlockCache  int64         // bytes of blocks in memory, less those of memtables: filters must find room; default 32 MiB
	MemTable    uint64        // bytes of one memtable, of which there are two under load; default 8 MiB
	FilterBytes int64         // bytes of a filter of keys, which spares look-ups the database; twice that while a sweep runs; default 16 MiB
	MaxBytes    uint64        // size on disk above which the sweep shortens lifetimes; default 8 GiB
	MaxLife     time.Duration // the longest that anything is served and kept; default: as long as its kind is good
	Log         *slog.Logger  // default: none
}

// Cache is an open cache. Its methods may be called from any goroutine.
type Cache struct {
	cfg        Config
	dbMu       sync.RWMutex              // for reading while the database is in use, for writing while another takes its place
	db         *pebble.DB                // guarded by life
	current    atomic.Pointer[pebble.DB] // the same, for what it calls itself; nil before it is open
	health     *health                   // of db, guarded by life
	setAsideAt atomic.Pointer[time.Time] // when a damaged database was set aside; nil for never
	secret     []byte
	seed       uint64
	max        uint64
	shrink     atomic.Int32 // lifetimes are divided by 2^shrink
	keyers     sync.Pool    // of *Keyer: an HMAC state costs more to make than to use (BenchmarkKey)
	recent     *recent[engine.Verdict]
	facts      *recent[storedFact]
	filters    keyFilters
}

// Open opens the cache in c.Dir, and makes it if there is none.
func Open(c Config) (*Cache, error) {
	if c.FS == nil || c.Dir == "" {
		return nil, errors.New("cache: FS and Dir are needed")
	}
	cache := &Cache{cfg: c, max: orDefault(c.MaxBytes, 8<<30), recent: newRecent[engine.Verdict](verdictsPerShard), facts: newRecent[storedFact](factsPerShard)}
	cache.filters.wordCount = int(max(1, orDefault(c.FilterBytes, 16<<20)/8))
	err := cache.load()
	if cache.isDamage(err) {
		err = cache.replace(err)
	}
	if err != nil {
		return nil, err
	}
	cache.keyers.New = func() any { return cache.Keyer() }
	return cache, nil
}

// load opens the database, and makes it if there is none. life is held, or nothing uses the cache yet.
func (c *Cache) load() error {
	o := options(c.cfg)
	h := &health{damage: make(chan struct{})}
	c.health, o.Logger = h, slogLogger{c.cfg.Log, h}
	o.EventListener.DataCorruption = func(info pebble.DataCorruptionInfo) { h.recordDamage(info, c.cfg.Log) }
	defer o.Cache.Unref()
	db, err := opendb.Open(c.cfg.Dir, o)
	if err != nil {
		return fmt.Errorf("cache %s: %w", c.cfg.Dir, err)
	}
	c.db = db
	if err := errors.Join(c.prepare(), c.initFilterIfEmpty()); err != nil {
		return errors.Join(err, db.Close())
	}
	c.current.Store(db)
	return nil
}

// Of what a database of five million verdicts costs, most is that they are written again and again on their way down: keys are as
// good as chance, so each compaction of the upper levels rewrites all of the next. Hence some 64 MiB gather there first: filters keep
// a look-up that the key filter lets through from reading more than one table. They gather as many small tables, for a memtable is memory
// that the collector has not: with two of 16 MiB, and some smaller things that were larger, it ran half as often again under a list
// (probity bench bulk). The smaller tables cost a row 0.3 to 0.6 us (BenchmarkLists, without the key filter).
const (
	upperTables = 16 // that overlap; they are compacted from half of that on, and more and more so
	maxTables   = 48 // before writers wait
	// Bits of a filter for each key. A look-up asks the filters of some eight tables above the lowest level, which have few of the keys:
	// at 10 bits each of them sends one look-up of a hundred to a block in vain. The lowest level's have nearly all, and are asked
	// once: at 10 bits those of 13,000,000 keys find room in the usual block cache.
	upperBits  = 16
	lowestBits = 10
)

func options(c Config) *pebble.Options {
	o := &pebble.Options{
		FS: c.FS, EventListener: new(pebble.EventListener), Cache: pebble.NewCache(orDefault(c.BlockCache, 32<<20)), MemTableSize: orDefault(c.MemTable, 8<<20),
		L0CompactionThreshold: upperTables, L0StopWritesThreshold: maxTables,
		FormatMajorVersion: pebble.FormatNewest, Logger: slogLogger{log: c.Log},
	}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(upperBits)
	}
	o.Levels[len(o.Levels)-1].FilterPolicy = bloom.FilterPolicy(lowestBits)
	return o
}

func orDefault[T int64 | uint64](v, fallback T) T {
	if v == 0 {
		return fallback
	}
	return v
}

// slogLogger gives Pebble's log to slog, its chatter dropped, and for debugging only once the database is known to be damaged: each try of
// its own to go on fails then.
type slogLogger struct {
	log    *slog.Logger
	health *health // nil: not known
}

func (slogLogger) Infof(string, ...any) {}

func (q slogLogger) Errorf(format string, args ...any) {
	if q.log == nil {
		return
	}
	level := slog.LevelError
	if q.health != nil && q.health.damaged() {
		level = slog.LevelDebug
	}
	q.log.Log(context.Background(), level, "cache database", "error", fmt.Sprintf(format, args...))
}

func (q slogLogger) Fatalf(format string, args ...any) {
	panic(Lost(fmt.Sprintf(format, args...)))
}

// Lost is what the cache panics with when its database met a disk that fails: the process ends, and the next start knows
// what is there.
type Lost string

func (l Lost) Error() string { return "cache cannot go on: " + string(l) }

// panicAsLost gives our name to the panic of a database that met a failing disk, such as when it could not begin another log.
func panicAsLost() {
	if p := recover(); p != nil {
		panic(Lost(fmt.Sprint(p)))
	}
}

func commit(b *pebble.Batch, o *pebble.WriteOptions) error {
	defer panicAsLost()
	return b.Commit(o)
}

// Close closes the database.
func (c *Cache) Close() error {
	c.dbMu.Lock()
	defer c.dbMu.Unlock()
	return c.db.Close()
}

// Get finds the verdict of one address; false when there is none that may still be served at now.
func (c *Cache) Get(key Key, now time.Time) (engine.Verdict, bool) {
	s := c.recent.shard(&key)
	v, writes := s.get(&key)
	if v == nil {
		if v = c.readVerdict(&key); v == nil {
			return engine.Verdict{}, false
		}
		s.put(&key, v, writes)
	}
	if c.expired(v, now) {
		return engine.Verdict{}, false
	}
	return *v, true
}

// readVerdict reads a verdict from the database, nil when there is none.
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

func (c *Cache) expired(v *engine.Verdict, now time.Time) bool {
	return !now.Before(v.VerifiedAt.Add(c.capLifetime(verdictLifetime(v))))
}

// GetBatch calls found for every key that has a verdict which may be served at now. The keys must ascend: one iterator then
// passes over them, at a third of what Get costs. Most rows of a list are new: the key filter spares them the database, and where there is
// none yet, the filters of the lowest level, which hold most keys, are worth their room: without them each row read a block in vain.
func (c *Cache) GetBatch(keys []Key, now time.Time, found func(i int, v engine.Verdict)) error {
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	it, err := c.db.NewIter(&pebble.IterOptions{LowerBound: []byte{tableResult}, UpperBound: []byte{tableResult + 1}, UseL6Filters: true})
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
		if v, err := ReadVerdict(it.Value()); err == nil && !c.expired(&v, now) {
			found(i, v)
		}
	}
	if err := it.Close(); err != nil {
		return fmt.Errorf("cache read: %w", err)
	}
	return nil
}

// Entry is one verdict to keep.
type Entry struct {
	Key     Key
	Verdict *engine.Verdict
}

// Put keeps verdicts, without waiting for the disk. Ascending keys cost a quarter of random ones.
func (c *Cache) Put(entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
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

// Delete forgets one address.
func (c *Cache) Delete(key Key) error {
	defer c.recent.shard(&key).invalidate(&key)
	c.dbMu.RLock()
	defer c.dbMu.RUnlock()
	defer panicAsLost()
	return c.db.Delete(append([]byte{tableResult}, key[:]...), pebble.Sync)
}

package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"probity/store/dbfiles"
	"probity/store/diskroom"
	"probity/store/opendb"
)

// The default bounds of what an account has.
const (
	Rows    = 100_000 // of a kind
	MaxAge  = 30 * 24 * time.Hour
	MaxDays = 90
)

// Folder is the name of the folder in a data folder.
const Folder = "history"

const (
	cacheBytes    = 2 << 20 // blocks of the database kept in memory
	memtableBytes = 4 << 20
	flushEvery    = time.Second
	sweepEvery    = time.Hour
)

// Config configures a history. The zero value of everything but FS and Dir has a default.
type Config struct {
	FS      vfs.FS
	Dir     string
	Rows    uint64                // of a kind that an account has; default Rows
	Log     *slog.Logger          // default: none
	Metrics prometheus.Registerer // default: none
}

// History is an open history. Its methods may be called from any goroutine. A nil History keeps nothing and has
// nothing.
type History struct {
	cfg     Config
	files   *dbfiles.FS
	pending pending
	wake    chan struct{} // the rows in memory should be written now

	writeMu sync.Mutex    // one flush, sweep or erasure at a time
	dbMu    sync.RWMutex  // held for reading while the database is used, for writing while it is replaced
	db      *pebble.DB    // guarded by dbMu
	damage  chan struct{} // guarded by dbMu; closed when db is found to be damaged

	dropped prometheus.Counter
	damaged prometheus.Counter
}

// Open opens the history in c.Dir, and makes it if there is none. A damaged one is deleted.
func Open(c Config) (*History, error) {
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	c.Rows = cmp.Or(c.Rows, Rows)
	auto := promauto.With(c.Metrics)
	h := &History{cfg: c, files: dbfiles.New(c.FS), wake: make(chan struct{}, 1),
		pending: pending{accounts: map[string]*pendingAccount{}},
		dropped: auto.NewCounter(prometheus.CounterOpts{
			Name: "probity_history_dropped_total",
			Help: "Rows of the history of accounts that were dropped, as there was no room in memory or on the disk.",
		}),
		damaged: auto.NewCounter(prometheus.CounterOpts{
			Name: "probity_history_damaged_total",
			Help: "How often the history of accounts was deleted, as its files were damaged.",
		})}
	err := h.load()
	if opendb.IsDamage(err) {
		err = h.replace(err)
	}
	if err != nil {
		return nil, err
	}
	diskroom.Opened(c.FS)
	return h, nil
}

// load opens the database. dbMu is held, or the history is not in use yet.
func (h *History) load() error {
	blocks := pebble.NewCache(cacheBytes)
	defer blocks.Unref()
	damage := make(chan struct{})
	var once sync.Once
	o := &pebble.Options{FS: h.files, Cache: blocks, MemTableSize: memtableBytes,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             logger{h.cfg.Log}, EventListener: new(pebble.EventListener)}
	o.Experimental.SpanPolicyFunc = dbfiles.SplitByTable
	o.EventListener.DataCorruption = func(info pebble.DataCorruptionInfo) {
		once.Do(func() {
			close(damage)
			h.cfg.Log.Error("the history is damaged", "file", info.Path, "error", info.Details.Error())
		})
	}
	db, err := opendb.Open(h.cfg.Dir, o)
	if err != nil {
		return fmt.Errorf("history %s: %w", h.cfg.Dir, err)
	}
	h.db, h.damage = db, damage
	return nil
}

// replace deletes a damaged database and begins a new one: it has addresses, so none is set aside. dbMu is held, or the
// history is not in use yet.
func (h *History) replace(cause error) error {
	if err := h.cfg.FS.RemoveAll(h.cfg.Dir); err != nil {
		return fmt.Errorf("the history is damaged (%w) and cannot be deleted: %w; delete %s", cause, err, h.cfg.Dir)
	}
	if err := h.load(); err != nil {
		return fmt.Errorf("a new history, as the one before was damaged: %w", err)
	}
	h.damaged.Inc()
	h.cfg.Log.Error("the history of accounts was damaged: it was deleted, and a new one has begun", "cause",
		cause.Error())
	return nil
}

// renew replaces a database that was damaged while it was in use.
func (h *History) renew() error {
	h.dbMu.Lock()
	defer h.dbMu.Unlock()
	return h.replace(cmp.Or(h.db.Close(), errors.New("damage was met while it was in use")))
}

// Run writes rows each second, and deletes old ones each hour, until ctx ends. Rows that are added after that are
// written by Close. An error says that a damaged history cannot be replaced.
func (h *History) Run(ctx context.Context) error {
	flush, sweep := time.NewTicker(flushEvery), time.NewTicker(sweepEvery)
	defer flush.Stop()
	defer sweep.Stop()
	for {
		h.dbMu.RLock()
		damage := h.damage
		h.dbMu.RUnlock()
		var err error
		select {
		case <-ctx.Done():
			return nil
		case <-damage:
			if err := h.renew(); err != nil {
				return err
			}
		case <-flush.C:
			h.flush()
		case <-h.wake:
			h.flush()
		case now := <-sweep.C:
			err = h.Sweep(now)
		}
		if err != nil {
			h.cfg.Log.Warn("old rows of the history are not deleted", "error", err)
		}
	}
}

// Close writes what is in memory and closes the database. Run must have returned.
func (h *History) Close() error {
	if h == nil {
		return nil
	}
	diskroom.Closing(h.cfg.FS)
	h.flush()
	h.dbMu.Lock()
	defer h.dbMu.Unlock()
	return h.db.Close()
}

// Lost is the value with which the history panics when the disk fails: the process must end, and the next start reads
// what is on the disk.
type Lost string

func (l Lost) Error() string { return "history cannot go on: " + string(l) }

// EndsProcess implements pipeline.Fatal.
func (Lost) EndsProcess() {}

// logger passes Pebble's errors to the log.
type logger struct{ log *slog.Logger }

func (logger) Infof(string, ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.log.Warn("history database", "error", fmt.Sprintf(format, args...))
}

func (logger) Fatalf(format string, args ...any) {
	panic(Lost(fmt.Sprintf(format, args...)))
}

// panicAsLost turns a panic of the database on a failing disk into Lost.
func panicAsLost() {
	if p := recover(); p != nil {
		panic(Lost(fmt.Sprint(p)))
	}
}

// commit commits a batch.
func commit(b *pebble.Batch, o *pebble.WriteOptions) error {
	defer panicAsLost()
	return b.Commit(o)
}

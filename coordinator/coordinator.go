package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/klauspost/compress/zstd"

	"probity/coordinator/chunks"
	"probity/coordinator/csvfile"
	"probity/coordinator/dispatch"
	"probity/coordinator/ingest"
	"probity/coordinator/jobdir"
	"probity/coordinator/plan"
	"probity/coordinator/resultfile"
	"probity/coordinator/results"
	"probity/coordinator/retention"
	"probity/coordinator/split"
	"probity/engine"
	"probity/engine/outcome"
	"probity/internal/pipeline"
	"probity/internal/spans"
	"probity/prober/wire"
	"probity/prober/wire/press"
	"probity/store"
)

// DefaultMaxAge is the age limit of cached answers if the caller sets none.
const DefaultMaxAge = 7 * 24 * time.Hour

// Lists says what is known of an address without DNS or SMTP; engine/lists is one.
type Lists interface {
	Flags(a engine.Address) engine.Flags
	Suggest(a engine.Address) string // did-you-mean, empty where there is none
}

// Config configures a Coordinator. A zero value means the stated default.
type Config struct {
	Store    *store.Store
	FS       vfs.FS
	Dir      string // the folder of jobs is in it
	Resolver split.Resolver
	Prober   wire.Prober
	Table    *engine.Table
	Lists    Lists
	Log      *slog.Logger  // default: none
	Tracer   *spans.Tracer // default: no spans are recorded

	Limits  csvfile.Limits // of an upload
	Hold    time.Duration  // how long a prober may keep a chunk: 60 s
	Lookups int            // concurrent DNS lookups of each job that is split: 512
	// most unanswered rows that were sent in the last 2 to 4 s: the limit of all unanswered rows
	MaxRecentRows int
	Stored        results.Form // format of the result file that is made at the end: CSV, zstd
	Suppress      func(engine.Address) bool

	RetainResults time.Duration // how long a job's files are kept after its end: DefaultRetention
	RetainHistory time.Duration // and its record, and those of downloads in the audit log; default: for ever

	// SingleLoad measures the load from single calls, so that other work can yield to them; default: a new meter.
	SingleLoad *press.Meter
	// OnFinish returns parts of the commit that ends a job: its settlement.
	OnFinish func(*store.Job) []store.Part
	// OnExpire and OnDelete return a part of the commits that expire and delete a job; default: none.
	OnExpire, OnDelete func(job string) store.Part
	// TestVerdict answers the rows of jobs of test keys, which are never probed.
	TestVerdict func(engine.Address) engine.Verdict
	// Probability is that of results.Config.
	Probability func(account string, b outcome.Bin) (p float64, n int64, known bool)
}

// Limits of the whole coordinator.
const (
	maxRunning  = 64 // jobs that are split, sent and collected at one time
	maxErasures = 1  // addresses erased at one time
	maxPlans    = 1  // plans made at one time
	maxWhys     = 2  // explanations made at one time
	maxWorkers  = 16 // goroutines of one pipeline: one for each processor, at most this many
)

// Coordinator runs jobs and answers single requests. Its methods may be called from any goroutine.
type Coordinator struct {
	cfg     Config
	log     *slog.Logger
	table   atomic.Pointer[engine.Table]
	lists   atomic.Pointer[Lists]
	files   *jobdir.Dirs // of jobs; nil without a disk
	encoder *zstd.Encoder
	workers int

	queueViews queueViews

	runningSlots, eraseSlots, planSlots, whySlots chan struct{} // counting semaphores

	receiver   *ingest.Receiver
	planner    plan.Planner
	splitter   *split.Splitter
	scheduler  *dispatch.Scheduler
	metrics    jobMetrics
	singleLoad *press.Meter
	clock      retention.Clock
	sweeper    *retention.Sweeper

	leastTimes   leastTimes
	chunkBuffers pipeline.Pool[chunks.Buffer]
	renderer     *results.Renderer
	resultFiles  *resultfile.Files

	mu            sync.Mutex // guards all below
	runners       map[string]*jobRunner
	stateWatchers map[string]chan struct{} // closed when the job's state changes; only for jobs with a waiter
	startJob      func(id string)          // set while Run is on; called with mu held
}

// New makes a coordinator. It starts nothing.
func New(cfg Config) *Coordinator {
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.RetainResults = cmp.Or(cfg.RetainResults, DefaultRetention)
	cfg.SingleLoad = cmp.Or(cfg.SingleLoad, new(press.Meter))
	cfg.Lookups = cmp.Or(cfg.Lookups, 512)
	cfg.Stored = cmp.Or(cfg.Stored, results.Form{Format: results.CSV, Compress: results.Zstd})
	if cfg.Suppress == nil {
		cfg.Suppress = func(engine.Address) bool { return false }
	}
	processors := runtime.GOMAXPROCS(0) // respects the limit of a container
	workers := min(maxWorkers, processors)
	sem := func(n int) chan struct{} { return make(chan struct{}, n) }
	// EncodeAll is safe for concurrent use by workers goroutines, each with 2 MiB of history. WithLowerEncoderMem is
	// slower: with little more than one window the history is moved for each block.
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(workers),
		zstd.WithWindowSize(1<<20))
	if err != nil {
		panic("BUG: zstd options: " + err.Error())
	}
	c := &Coordinator{
		cfg: cfg, log: cfg.Log, encoder: encoder, workers: workers,
		runningSlots: sem(maxRunning), eraseSlots: sem(maxErasures), planSlots: sem(maxPlans), whySlots: sem(maxWhys),
		singleLoad: cfg.SingleLoad, runners: map[string]*jobRunner{}, stateWatchers: map[string]chan struct{}{},
	}
	var sources func() int // nil: unknown
	sourcesOrOne := func() int { return 1 }
	if fleet, ok := cfg.Prober.(sourceCounter); ok {
		sources, sourcesOrOne = fleet.Sources, fleet.Sources
	}
	if cfg.FS != nil {
		c.files = jobdir.New(cfg.Store, cfg.FS, cfg.Dir, workers)
	}
	flags := func(a engine.Address) engine.Flags { return (*c.lists.Load()).Flags(a) }
	suggest := func(a engine.Address) string { return (*c.lists.Load()).Suggest(a) }
	c.chunkBuffers.Reset = chunks.KeepBuffer
	c.receiver = ingest.New(ingest.Config{
		Store: cfg.Store, Files: c.files, Encoder: encoder, Workers: workers, Limits: cfg.Limits, Table: c.table.Load,
		Sources: sourcesOrOne,
	})
	c.planner = plan.Planner{Resolver: cfg.Resolver, Lookups: cfg.Lookups, Workers: workers, Suppress: cfg.Suppress,
		Sources: sources}
	c.leastTimes = newLeastTimes()
	c.splitter = split.New(split.Config{
		Resolver: cfg.Resolver, Lookups: cfg.Lookups, Workers: workers, Table: c.table.Load, Flags: flags,
		Suggest:  suggest,
		Suppress: cfg.Suppress, TestVerdict: cfg.TestVerdict,
	})
	c.scheduler = dispatch.New(dispatch.Config{
		Prober: cfg.Prober, Table: c.table.Load, Sources: sources, Hold: cfg.Hold, MaxRecentRows: cfg.MaxRecentRows,
		Log: cfg.Log,
	})
	c.renderer = results.New(results.Config{
		Workers: workers, Encoder: encoder, TestVerdict: cfg.TestVerdict, Flags: flags, Suggest: suggest,
		Table: c.table.Load, Probability: cfg.Probability,
		Running: func(id string) bool {
			j, err := cfg.Store.Job(id)
			return err == nil && !j.State.Finished()
		},
	})
	c.resultFiles = resultfile.New(resultfile.Config{
		Store: cfg.Store, Files: c.files, Stored: cfg.Stored, Log: cfg.Log, Damaged: &c.metrics.damaged,
		Deadline: c.clock.Deadline, Update: c.updateJob,
		Renderer: c.renderer,
	}, processors)
	c.sweeper = retention.New(retention.Config{
		Store: cfg.Store, Files: c.files, Clock: &c.clock, Results: cfg.RetainResults, History: cfg.RetainHistory,
		Log:      cfg.Log,
		Failures: &c.metrics.retentionErrors, Receiving: c.receiver.Receiving, Expire: c.Expire, Delete: c.Delete,
		ClockSet: c.scheduler.Wake,
	})
	c.table.Store(cfg.Table)
	c.lists.Store(&cfg.Lists)
	return c
}

// sourceCounter is a prober that knows its number of egress sources.
type sourceCounter interface{ Sources() int }

// TableOf is the provider table that is in force at a coordinator.
func TableOf(c *Coordinator) *engine.Table { return c.table.Load() }

// SetTable sets the provider table for all later decisions.
func (c *Coordinator) SetTable(t *engine.Table) { c.table.Store(t) }

// SetLists sets the lists for all addresses that are classified from now on.
func (c *Coordinator) SetLists(l Lists) { c.lists.Store(&l) }

// Run runs the jobs until ctx ends or the state store fails; it returns after all its goroutines have.
// Unfinished jobs of an earlier process continue where they stopped.
func (c *Coordinator) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var all sync.WaitGroup
	begin := func(id string) {
		if c.runners[id] != nil {
			return // it is already running
		}
		r := &jobRunner{c: c, id: id, wake: pipeline.NewWake()}
		c.runners[id] = r
		all.Go(func() {
			if err := r.run(ctx); err != nil && ctx.Err() == nil {
				c.log.Error("job cannot go on", "job", id, "error", err)
				stop(fmt.Errorf("job %s: %w", id, err))
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.runners, id)
		})
	}
	all.Go(func() { c.scheduler.Run(ctx) })
	if err := c.startAll(begin); err != nil {
		stop(err)
	}
	all.Go(func() {
		if err := c.sweeper.Run(ctx); err != nil && ctx.Err() == nil {
			stop(err)
		}
	})
	<-ctx.Done()
	c.mu.Lock()
	c.startJob = nil
	c.mu.Unlock()
	all.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// startAll starts the store's unfinished jobs. From then on Accept starts new ones.
func (c *Coordinator) startAll(begin func(id string)) error {
	if err := c.sweeper.Start(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.cfg.Store.JobsIn(store.StageUnfinished, func(id string) error {
		begin(id)
		return nil
	})
	c.startJob = begin
	return err
}

// Accept makes a list a job, as ingest.Receiver.Accept does, and starts it if Run is running. If not, Run will start
// it. A job in state ready waits for Start.
func (c *Coordinator) Accept(ctx context.Context, u ingest.Upload) (*store.Job, error) {
	j, err := c.receiver.Accept(ctx, u)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.startJob != nil && j.State != store.JobReady {
		c.startJob(j.ID)
	}
	return j, nil
}
